"""Plans a request in one web handler, and approves and runs it in another.

Run it: `python web_approval.py` plays the browser; `uvicorn web_approval:app` serves. It uses
Starlette. FastAPI is built on that: `api.mount("/plans", app)` puts it into your application.
"""

import asyncio

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from plansmith import Plansmith, Refused, tool
from plansmith.testing import ScriptedModel


@tool(effect="write")
def book_room(room: str, day: str) -> str:
    """Book a meeting room."""
    return f"{room} is yours on {day}"


booking = {"id": "book", "tool": "book_room", "inputs": {"room": "Blue", "day": "Monday"}}
triage = {"decision": "plan"}
model = ScriptedModel(triage, {"goal": "Book the blue room", "steps": [booking]})  # "openai:gpt-5"
smith = Plansmith(model, tools=[book_room])  # store="sqlite:///runs.db" survives a restart


async def ask(request: Request) -> JSONResponse:
    run = await smith.plan((await request.json())["text"], by="ada")  # by: who is logged in
    plan = {"text": str(run.plan), "hash": run.plan.hash} if run.plan else None
    return JSONResponse({"run": run.id, "status": run.status, "plan": plan})


async def approve(request: Request) -> JSONResponse:
    run_id, seen = request.path_params["run"], (await request.json())["hash"]
    try:
        await smith.decide(run_id, approve=seen, by="ada")  # the hash of the plan that was shown
    except Refused as error:  # another plan by now, or decided already
        return JSONResponse({"error": str(error)}, status_code=409)
    run = await smith.run(run_id)
    return JSONResponse({"status": run.status, "result": run.result("book")})


app = Starlette(
    routes=[
        Route("/requests", ask, methods=["POST"]),
        Route("/runs/{run}/approve", approve, methods=["POST"]),
    ]
)


async def main() -> None:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
        shown = (await browser.post("/requests", json={"text": "Book the blue room"})).json()
        print(shown["status"], "-", shown["plan"]["text"])
        for seen in ("0" * 64, shown["plan"]["hash"], shown["plan"]["hash"]):
            reply = await browser.post(f"/runs/{shown['run']}/approve", json={"hash": seen})
            print(reply.status_code, reply.json().get("result", "refused"))


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# reviewing - Book the blue room
# 1. book: book_room(room=Blue, day=Monday)
# 409 refused
# 200 Blue is yours on Monday
# 409 refused
