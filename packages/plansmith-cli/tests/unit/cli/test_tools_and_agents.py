"""`plansmith tools` and `plansmith agents`, with real servers behind them; lists of tools."""

from __future__ import annotations

import json
import sys

import pytest
from tests.commands import Cli
from tests.servers.a2a_desk import Desk
from tests.servers.kit import FOLDER

from plansmith.errors import Misconfigured
from plansmith.plan.capability import Effect
from plansmith_cli.tool_lists import read_tools


def test_tools_are_listed_searched_shown_and_called(cli: Cli) -> None:
    names = [each["name"] for each in cli.json("tools list")]
    assert {"files.read", "calculator.compute", "tables.sql"} <= set(names)
    cli("tools search 'compute an expression exactly' -k 1", code=0, out="calculator.compute")
    assert cli.json("tools show calculator.compute")["input_schema"]["type"] == "object"
    cli("tools show file.read", code=2, err="did you mean 'files.read'?")
    cli("tools call file.read", code=2, err="did you mean 'files.read'?")
    done = cli.json("tools call calculator.compute", '{"expression": "6*7"}')
    assert done["steps"]["call"]["result"]["value"] == 42
    assert cli("tools call calculator.compute", "{")[0] == 2
    assert cli("tools call calculator.compute", '{"x": 1}')[0] == 3


def test_a_tool_that_writes_is_reviewed_also_when_called_alone(cli: Cli) -> None:
    inputs = json.dumps({"path": "a.txt", "text": "hello"})
    err = cli("tools call files.write", inputs, "--no-input", code=5).err
    assert not (cli.folder / "a.txt").exists()
    assert "approve" in err


def test_a_server_is_shown_whole_and_approved_before_it_starts(cli: Cli) -> None:
    raw = {"command": sys.executable, "args": ["-S", str(FOLDER / "raw.py")]}
    config = {"mcpServers": {"odd": raw}}
    (cli.folder / "mcp.json").write_text(json.dumps(config), encoding="utf-8")
    (cli.folder / "plansmith.toml").write_text('[mcp]\nfiles = ["mcp.json"]\n', encoding="utf-8")
    assert cli("tools approve")[0] == 2  # a stranger's servers are not even offered
    assert cli("trust --yes", cli.json("trust", code=5)["hash"])[0] == 0
    assert "odd.echo" not in cli("tools list")[1]
    [waiting] = json.loads(cli("tools approve --json", code=5, err="raw.py").out)
    assert waiting["kind"] == "server"
    for words in ("tools approve odd --hash 00", "tools approve nope"):
        cli(words, code=2, err=f"what waits: odd {waiting['hash']}")
    cli("tools approve", code=5, err=f"plansmith tools approve odd --hash {waiting['hash']}\n")
    cli("tools call odd.echo", code=2, err="plansmith tools approve odd)")
    cli("tools approve odd --hash", waiting["hash"])
    tools = {each["name"]: each for each in cli.json("tools approve", code=5)}
    tool = tools["odd.echo"]
    assert tool["kind"] == "tool"
    assert cli("tools approve odd.echo --hash", tool["hash"])[0] == 0
    # Nobody vouches for the server: its tool counts as writing.
    cli("tools call odd.echo", '{"text": "haha"}', "--no-input", code=5)
    assert cli("approve last", cli.json("show last")["hash"])[0] == 0
    assert "haha" in str(cli.json("go last")["steps"]["call"]["result"])
    cli("tools revoke odd.echo", code=0, err="odd.echo: no longer approved")
    assert "odd.echo" not in cli("tools list")[1]
    assert {each["name"] for each in cli.json("tools approve", code=5)} == set(tools)
    assert cli.json("tools revoke odd") == {"revoked": "odd"}
    [server] = cli.json("tools approve", code=5)
    assert server["kind"] == "server"
    code, _, err = cli("tools revoke odd")
    assert (code != 0, "nothing called 'odd' is approved" in err) == (True, True)


def test_an_agent_that_nobody_was_asked_about_is_approved_by_its_hash(cli: Cli) -> None:
    with Desk().in_thread() as address:
        out = cli("agents add", address, "--name", "desk", "--json", code=0).out
        hint = f"plansmith agents approve desk --hash {json.loads(out)['hash']}"
        code, _, err = cli("agents approve desk")
        assert (code != 0, hint in err) == (True, True), err
        assert cli(*hint.split()[1:])[0] == 0


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "d", "parameters": SCHEMA}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"weather": {"description": "d", "input_schema": SCHEMA}}),
        json.dumps([{"name": "weather", "description": "d", "input_schema": SCHEMA}]),
        json.dumps({"tools": [{"name": "weather", "description": "d", "inputSchema": SCHEMA}]}),
        json.dumps([{"type": "function", "function": FUNCTION}]),
        json.dumps({"name": "weather", "description": "d", "input_schema": SCHEMA}) + "\n",
    ],
)
def test_tools_are_read_in_every_usual_shape(text: str) -> None:
    [tool] = read_tools(text)
    assert (tool.name, tool.description, tool.input_schema) == ("weather", "d", SCHEMA)


def test_json_lines_are_many_tools_and_one_without_an_effect_writes_in_the_open_world() -> None:
    tool, *others = read_tools('{"name": "t0", "description": null}\n{"name": "t1"}\n')
    assert [tool.name, *(each.name for each in others)] == ["t0", "t1"]
    assert (tool.effect, tool.open_world, tool.idempotent) == (Effect.WRITE, True, False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(("nonsense", "not JSON"), ("5", "neither an object nor a list")),
        *(("[5]", "is not a tool"), ('[{"name": "a"}, {"name": "a"}]', "two tools are called 'a'")),
        *(('[{"name": ""}]', "not usable: name"), ('[{"description": "x"}]', "not usable: name")),
        *(('{"t": {"effect": "explode"}}', "not usable: effect"), ("[" * 100_000, "not JSON")),
    ],
)
def test_bad_tools_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        read_tools(text)
