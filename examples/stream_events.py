"""Streams the events of a run to a web page as they happen (server-sent events).

Run it: `python stream_events.py` prints the stream; `uvicorn stream_events:app` serves the page. A
page that reconnects sends the number of the last event it saw, and misses none.
"""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.routing import Route

from plansmith import Plansmith, Run, read_plan, tool

PAGE = """<!doctype html><title>A run</title><ol></ol><script type="module">
const {run} = await (await fetch("/runs", {method: "POST"})).json();
const stream = new EventSource(`/runs/${run}/events`);
stream.onmessage = ({data}) => {
  const item = document.createElement("li");
  item.textContent = data;
  document.querySelector("ol").append(item);
  if (JSON.parse(data).type === "run_finished") stream.close();
};
</script>"""


@tool(effect="read")
async def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


words = {"id": "count", "tool": "count_words", "inputs": {"text": "to be or not to be"}}
PLAN = read_plan({"goal": "Count words", "steps": [words]})
smith = Plansmith(tools=[count_words])
running: set[asyncio.Task[Run]] = set()  # keeps them from being collected while they run


async def start(_: Request) -> JSONResponse:
    run = await smith.submit(PLAN)
    task = asyncio.create_task(smith.run(run.id))
    running.add(task)
    task.add_done_callback(running.discard)
    return JSONResponse({"run": run.id})


async def events(request: Request) -> StreamingResponse:
    after = int(request.headers.get("last-event-id", 0))

    async def lines() -> AsyncIterator[str]:
        async for event in smith.events(request.path_params["run"], after=after, follow=True):
            shown = {"type": event.body.type, "step": getattr(event.body, "step", None)}
            yield f"id: {event.number}\ndata: {json.dumps(shown)}\n\n"  # all: event.shown_json()

    return StreamingResponse(lines(), media_type="text/event-stream")


async def page(_: Request) -> HTMLResponse:
    return HTMLResponse(PAGE)


app = Starlette(
    routes=[
        Route("/", page),
        Route("/runs", start, methods=["POST"]),
        Route("/runs/{run}/events", events),
    ]
)


async def main() -> None:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
        run = (await browser.post("/runs")).json()["run"]
        async with browser.stream("GET", f"/runs/{run}/events") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    print(line.removeprefix("data: "))


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# {"type": "run_created", "step": null}
# {"type": "plan_proposed", "step": null}
# {"type": "run_started", "step": null}
# {"type": "step_started", "step": "count"}
# {"type": "step_done", "step": "count"}
# {"type": "run_finished", "step": null}
