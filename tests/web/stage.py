"""A server for the page's tests: a model that knows its part, and tools that wait when told to.

    python -m tests.web.stage FOLDER PORT

While a file `FOLDER/hold/NAME` exists, the tool or the model of that name waits: a test sees a
state for as long as it wants, without counting seconds. With a file `FOLDER/stand-in` there is an
agent, and three steps of it stand in for a plan that the model could not make.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from tests.web import conversation, sales
from tests.web.hostile import PAYLOADS
from tests.web.sales import tool_step

from plansmith.errors import ToolFailed
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.preview import CallPreview, FilePreview
from plansmith.ports import Call, Delta, ModelDone, Prompt, TextDelta, Usage
from plansmith_cli.config import Settings
from plansmith_cli.server_wiring import ServerWiring
from plansmith_desk.charts import ChartTools
from plansmith_desk.files.changes import PreviewedTools
from plansmith_desk.files.tools import FileTools, WorkspaceTools
from plansmith_desk.tables import TableTools
from plansmith_server.ops.logs import Log
from plansmith_server.serve import bind, make_server, make_state
from plansmith_server.settings import Serve

CHUNK = 60
USAGE = Usage(input_tokens=420, output_tokens=180)
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "the name of a city"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
    },
    "required": ["city"],
    "additionalProperties": False,
}
NOTE: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
    "required": ["path", "text"],
}
READ, WRITE, FINAL = Effect.READ, Effect.WRITE, Effect.FINAL
TO = {"type": "object", "properties": {"to": {"type": "string"}}}
TOOLS = tuple(
    ToolSpec(
        name=name, description=about, input_schema=schema, effect=effect, open_world=effect is FINAL
    )
    for name, about, schema, effect in (
        ("weather.forecast", "The weather of the next days in a city.", CITY, READ),
        ("hotels.find", "Hotels in a city, from the old catalogue.", CITY, READ),
        ("hotels.search", "Hotels in a city, from the new catalogue.", CITY, READ),
        ("notes.write", "Write a note into a file.", NOTE, WRITE),
        ("mail.send", "Send a mail. It cannot be taken back.", TO, FINAL),
    )
)
PEOPLE = ToolSpec(name="people.list", description="Lists the people.", effect=READ, free=True)


class Stage:
    """The tools; `hotels.find` always fails, so that a run has to plan again."""

    def __init__(self, folder: Path) -> None:
        self._hold = folder / "hold"
        self._hold.mkdir(parents=True, exist_ok=True)

    async def held(self, name: str) -> None:
        """Wait while the file of this name is there."""
        while (self._hold / name).exists():  # noqa: ASYNC110 - it is another process that decides
            await asyncio.sleep(0.02)

    async def tools(self) -> Sequence[ToolSpec]:
        return (*TOOLS, PEOPLE)

    async def call(self, tool: str, arguments: Mapping[str, Json], call: Call) -> Json:
        call.progress(f"asking {tool}")
        await self.held(tool)
        if tool == "hotels.find":
            raise ToolFailed("the old catalogue is closed: HTTP 410")
        if tool == "people.list":
            return ["ann", "bob", "cid"]
        if tool == "mail.send":
            with (self._hold.parent / "sent").open("a") as file:
                file.write(f"{arguments['to']} {arguments.get('text', '')}\n")
        if tool == "weather.forecast":
            return {"city": arguments["city"], "high": 14, "low": 6, "sky": "clear"}
        if tool == "hotels.search":
            return {"hotels": [{"name": "Harbour House", "price": 120}]}
        return {"done": True}

    async def preview(self, tool: str, inputs: Mapping[str, Json]) -> CallPreview | None:
        """What a mail would be, in the tone of the file `tone`, with a drawing."""
        if tool != "mail.send":
            return None
        tone = self._hold.parent / "tone"
        text = f"{tone.read_text() if tone.exists() else 'Hello'}\nDear {inputs['to']}"
        return CallPreview(text=text, files=(DRAWING,) if "drawing" in inputs else ())


class Helper:
    """An agent that does whatever it is told."""

    spec = AgentSpec(name="helper", description="Does what nobody else can plan at all.")

    async def work(self, task: str, inputs: Mapping[str, Json], call: Call) -> Json:
        del inputs, call
        return f"I have done this: {task}"


def trip(first: str = "Oslo", *, hotel: bool = True) -> dict[str, Any]:
    """The plan of the story: two reads at once, a question, a read that fails, a note."""
    stay = [tool_step("hotel", "Find a hotel", "hotels.find", city={"$from": "choice"})]
    where = "where to go and where to stay: {{choice}}, {{hotel}}"
    return {
        "goal": f"Compare the weather in {first} and Rome and note the better one with a hotel",
        "thought": "Both forecasts are needed before anything can be compared.",
        "assumptions": ["The next three days are meant."],
        "enough_context": True,
        "steps": [
            tool_step("north", f"Weather in {first}", "weather.forecast", city=first, days=3),
            tool_step("south", "Weather in Rome", "weather.forecast", city="Rome", days=3),
            {
                "id": "choice",
                "kind": "ask",
                "title": "Ask which one",
                "question": f"{{{{north.high}}}}° in {first}, {{{{south.high}}}}° in Rome. Which?",
                "options": [first, "Rome"],
            },
            *(stay if hotel else []),
            tool_step("note", "Write it down", "notes.write", **TRIP_NOTE),
            {
                "id": "tell",
                "kind": "reply",
                "title": "Say what was chosen",
                "instruction": f"Tell {where if hotel else 'where to go: {{choice}}'}",
                "after": ["note"],
            },
        ],
    }


TRIP_NOTE = {"path": "trip.md", "text": "Next trip: {{choice}}"}
EVIL = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9' onload='alert(1)'></svg>"
DRAWING = FilePreview(path="d.svg", change="new", text=EVIL)
MAILS: dict[str, Any] = {
    "goal": "Write to everybody",
    "steps": [
        tool_step("people", "List the people", "people.list"),
        {
            "id": "mails",
            "title": "Write to each",
            "over": {"$from": "people"},
            "each": tool_step("mail", "Write", "mail.send", to="{{item}}", text="Hi {{item}}"),
        },
    ],
}
READING = {
    "goal": "Look at the weather in Oslo",
    "steps": [
        tool_step("look", "Look at the weather", "weather.forecast", city="Oslo"),
        {"id": "tell", "kind": "reply", "title": "Tell", "instruction": "Say {{look.sky}}"},
    ],
}
ANSWER = """**Rome** it is: 14° and clear [step:south]. The note is in *trip.md*.

| City | High |
|---|---|
| Oslo | 14° |
| Rome | 14° |
"""


class Player:
    """A model that knows what to say to every prompt of the story."""

    name = "stage"

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        text = conversation.says(prompt) or _says(prompt.text, prompt.schema)
        for start in range(0, len(text), CHUNK):
            # After the first steps, so that a test sees a plan that is half written.
            await self._stage.held("model" if start >= 10 * CHUNK else "model-first")
            yield TextDelta(text[start : start + CHUNK])
        yield ModelDone(USAGE, self.name)


def _says(prompt: str, schema: Mapping[str, Json] | None) -> str:
    if schema is None:
        return "\n\n".join(PAYLOADS) if "every payload" in prompt else ANSWER
    if "decision" in cast("Mapping[str, Json]", schema.get("properties") or {}):
        return json.dumps(_decision(prompt))
    if '"step": "old"' in prompt:
        step = tool_step("fresh", "Ask elsewhere", "hotels.search", city="Rome")
        return json.dumps({"goal": "a goal", "steps": [step]})
    if "nobody can plan this" in prompt:
        return "I cannot."
    if '"step": "bad"' in prompt:
        return "I know no other way."
    if '"status": "failed"' in prompt:
        return json.dumps(trip(_first(prompt), hotel=False))
    known = {"sales by region": sales.PLAN, "only the weather": READING, "write to all": MAILS}
    found = [plan for words, plan in known.items() if words in prompt]
    return json.dumps(found[0] if found else trip(_first(prompt)))


def _first(prompt: str) -> str:
    return "Bergen" if "Bergen" in prompt else "Oslo"


def _decision(prompt: str) -> dict[str, str]:
    if "something nice" in prompt and "among the assumptions" not in prompt:
        question = "Where do you want to go?"
        return {"decision": "ask", "reason": "no place is named", "query": "", "answer": question}
    if "hello there" in prompt:
        return {"decision": "answer", "reason": "small talk", "query": "", "answer": "Hello!"}
    return {"decision": "plan", "reason": "it needs tools", "query": "", "answer": ""}


async def serve(folder: Path, port: int) -> None:
    """Serve until a signal ends it; the link is the first line on stdout."""
    stage = Stage(folder)
    url, engine = f"sqlite:///{folder / 'runs.db'}", ""
    if shared := os.environ.get("PLANSMITH_TEST_ENGINE_STORE"):
        place = sha256(str(folder).encode()).hexdigest()[:16]
        url, engine = f"{shared}?schema=plansmith_{place}", "dbos"
    work = folder / "work"
    work.mkdir(exist_ok=True)
    writers = (WorkspaceTools(work), TableTools(work), ChartTools(work))
    tools = [stage, FileTools(work), *(PreviewedTools(each, work) for each in writers)]
    helps = (folder / "stand-in").exists()
    agents = [Helper()] if helps else []
    parts: dict[str, Any] = {"model": Player(stage), "tools": tools, "agents": agents}
    planner = {"planner": {"fallback": "three_steps"}} if helps else {}
    settings = Settings.model_validate({"store": url, **planner})
    parts["folder"] = work
    server_state = make_state(ServerWiring(settings), log=Log(), by="ada", engine=engine, **parts)
    wanted = Serve(token_file=folder / "token", port=port, engine=engine)
    wanted = replace(wanted, executes=8) if engine else wanted
    with bind(wanted) as sock:
        server, keys = make_server(server_state, replace(wanted, rules={}), sock)
        real = sock.getsockname()[1]
        sys.stdout.write(f"http://127.0.0.1:{real}/?token={keys.link_token}\n")
        sys.stdout.flush()
        await server.serve(sockets=[sock])


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
