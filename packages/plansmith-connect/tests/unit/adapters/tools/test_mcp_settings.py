"""What settings, a person's approvals and a server's own listing make of its tools."""

from __future__ import annotations

import json
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.servers.kit import approved, raw, servers

from plansmith import Effect, Plan, RunStatus, ToolSpec
from plansmith import tool as make_tool
from plansmith.app import Plansmith
from plansmith.errors import Misconfigured
from plansmith.plan.data import canonical_hash
from plansmith_connect.approvals import Approval, ApprovalFile, Approvals, changes
from plansmith_connect.mcp.launch import expand, launch_definition, launch_lines, target
from plansmith_connect.mcp.listing import full_name, is_sound, read_listing, server_name, wire_names
from plansmith_connect.mcp.settings import Found, McpSettings, ServerSettings, all_servers


def definition(environment: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    return launch_definition(ServerSettings(**fields), environment or {})


def text(environment: dict[str, str] | None = None, **fields: Any) -> str:
    return "\n".join(launch_lines("s", definition(environment, **fields)))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "a command or a url"),
        ({"command": "a", "url": "http://a"}, "a command or a url"),
        ({"command": "a", "headers": {"x": "y"}}, "headers belong to a url"),
        ({"url": "http://a", "args": ["b"]}, "belong to a command"),
        ({"url": "file:///etc/passwd"}, "has to begin with http"),
        ({"command": "a", "comand": "b"}, "comand"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        ServerSettings.model_validate(fields)
    with pytest.raises(ValidationError, match="is not a valid name for a server"):
        McpSettings.model_validate({"servers": {"a\x1b[2J": {"command": "a"}}})


def test_references_are_filled_in_from_the_environment() -> None:
    held = {"A": "one", "secret:b": "two", "EMPTY": ""}
    assert expand("${A}-${secret:b}-${C:-three}-${EMPTY:-}-$A", held) == "one-two-three--$A"
    with pytest.raises(Misconfigured, match="no MISSING") as caught:
        expand("${MISSING}", held)
    assert caught.value.hint == "export MISSING=…"


def test_a_secret_is_hidden_although_a_setting_has_the_name_of_its_variable() -> None:
    settings = ServerSettings(command="s", args=("${API_KEY}",), env={"API_KEY": "another-789012"})
    made = target(settings, {"API_KEY": "canary-123456"})
    assert made.settings.args == ("canary-123456",)
    hidden = made.hide_secrets("canary-123456, another-789012")
    assert hidden == "${secret:API_KEY}, ${secret:API_KEY}"


def test_the_command_is_shown_whole_with_all_that_belongs_to_it() -> None:
    lines = text(
        {"TOOLS": "/opt/tools"},
        command="${TOOLS}/npx",
        args=["-y", "@scope/server", "two words", "\x1b[2Jx"],
        cwd="/srv",
        env={"API_KEY": "${KEY}", "PASSWORD": "hunter2", "NODE_OPTIONS": "--require ./x.js"},
        pass_env=["SSH_AUTH_SOCK"],
        tools={"a": {"effect": "read"}},
    )
    assert "/opt/tools/npx -y @scope/server 'two words' '\\u001b[2Jx'" in lines
    assert "in /srv" in lines
    assert "API_KEY=${KEY}" in lines
    assert "NODE_OPTIONS=--require ./x.js" in lines
    assert "SSH_AUTH_SOCK" in lines
    assert "give an exact version" in lines
    assert "ignored" in lines
    assert "You say of a: {'effect': 'read'}" in lines
    assert "hunter2" not in lines
    posing = text(command="a", env={"NODE_OPTIONS": "sha256:--require x"})
    assert "--require" in posing  # a value cannot pose as a hidden one


def test_a_url_is_shown_with_its_headers_and_a_word_on_an_open_way() -> None:
    lines = text(url="http://a.example/mcp", headers={"Authorization": "Bearer abc"})
    assert "http://a.example/mcp" in lines
    assert "not encrypted" in lines
    assert "abc" not in lines
    assert "not encrypted" not in text(url="http://127.0.0.1:1/mcp")
    assert "not encrypted" not in text(url="https://a.example/mcp")


BASE: dict[str, Any] = {"command": "a", "args": ["b"], "env": {"K": "v"}, "cwd": "/x"}


@pytest.mark.parametrize(
    "change",
    [
        *({"command": "aa"}, {"args": ["b", "c"]}, {"args": []}, {"env": {"K": "v", "L": ""}}),
        *({"env": {"K": "w"}}, {"env": {"API_KEY": "w"}}, {"cwd": "/y"}, {"pass_env": ["Z"]}),
        *({"trusted": True}, {"tools": {"t": {"effect": "read"}}}),
    ],
)
def test_any_change_of_how_a_server_is_started_changes_its_hash(change: dict[str, Any]) -> None:
    assert canonical_hash(definition(**BASE)) != canonical_hash(definition(**{**BASE, **change}))
    assert definition(**BASE) == definition(**BASE, limits={"call_s": 5.0})
    one, two = ({"X": each} for each in ("a", "b"))
    assert definition(one, command="${X}") != definition(two, command="${X}")


# Files of the widespread shape


def write(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def read_servers(path: Path) -> Found:
    return all_servers(McpSettings(files=(path,)))


def test_the_widespread_shape_is_read(tmp_path: Path) -> None:
    servers = {
        "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "${B}"}, "cwd": "/c"},
        "web": {"type": "http", "url": "https://a.example", "headers": {"X": "y"}},
    }
    found = read_servers(write(tmp_path / "mcp.json", {"mcpServers": servers}))
    assert found.servers["files"] == ServerSettings(
        command="npx", args=("-y", "x"), env={"A": "${B}"}, cwd="/c"
    )
    assert found.servers["web"].headers == {"X": "y"}
    assert found.notes == ()
    again = read_servers(write(tmp_path / "vscode.json", {"servers": servers}))
    assert again.servers == found.servers


def test_what_is_not_taken_from_a_file_is_noted_and_nothing_there_approves(tmp_path: Path) -> None:
    servers = {
        "old": {"type": "sse", "url": "https://a.example/sse"},
        "off": {"command": "a", "disabled": True},
        "on": {"command": "a", "autoApprove": ["*"], "trusted": True},
    }
    found = read_servers(write(tmp_path / "mcp.json", {"mcpServers": servers}))
    assert set(found.servers) == {"on"}
    assert not found.servers["on"].trusted
    assert [note.split(": ", 1)[1] for note in found.notes] == [
        "old is left out: its transport 'sse' is not supported",
        "off is left out: the file has it disabled",
        "on: autoApprove, trusted is unknown here and ignored",
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "cannot be read"),
        ([], "names no servers"),
        ({"mcpServers": []}, "names no servers"),
        ({"mcpServers": {"a": 1}}, "a is not a server"),
        ({"mcpServers": {"": {"command": "a"}}}, "is not a server"),
        ({"mcpServers": {"a": {"command": 1}}}, "command"),
        ({"mcpServers": {"a": {}}}, "a command or a url"),
    ],
)
def test_a_file_that_is_not_right_says_where(tmp_path: Path, content: Any, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        read_servers(write(tmp_path / "mcp.json", content))
    with pytest.raises(Misconfigured, match="cannot be read"):
        read_servers(tmp_path / "none.json")


def test_two_servers_of_one_name_are_refused_and_none_shadows_the_other(tmp_path: Path) -> None:
    path = write(tmp_path / "mcp.json", {"mcpServers": {"a": {"command": "b"}}})
    own = ServerSettings(command="a")
    with pytest.raises(Misconfigured, match="there is another server 'a'"):
        all_servers(McpSettings(servers={"a": own}, files=(path,)))
    assert set(all_servers(McpSettings(servers={"c": own}, files=(path,))).servers) == {"a", "c"}


# Approvals


AT = datetime(2026, 1, 1, tzinfo=UTC)


def approval(definition: dict[str, Any] | None = None) -> Approval:
    made = definition or {"name": "a", "text": "你好"}
    return Approval(hash=canonical_hash(made), definition=made, by="ada", at=AT)


@pytest.fixture(params=["memory", "file"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Approvals:
    return Approvals() if request.param == "memory" else ApprovalFile(tmp_path / "a" / "p.json")


def test_an_approval_is_kept_replaced_and_removed(kept: Approvals) -> None:
    assert kept.get("a") is None
    kept.put("a", approval())
    kept.put("b", approval({"x": 1}))
    assert kept.get("a") == approval()
    kept.put("a", approval({"x": 2}))
    assert kept.get("a") == approval({"x": 2})
    kept.remove("a")
    kept.remove("a")
    assert kept.get("a") is None
    assert kept.get("b") == approval({"x": 1})


def test_a_file_is_for_its_owner_alone_and_what_another_process_approves_is_seen_at_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "p.json"
    one, other = ApprovalFile(path), ApprovalFile(path)
    assert one.get("a") is None
    other.put("a", approval())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text(encoding="utf-8"))["approved"]["a"]["by"] == "ada"
    assert one.get("a") == approval()
    other.remove("a")
    assert one.get("a") is None


def test_many_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "p.json"

    def put(start: int) -> None:
        for number in range(start, start + 10):
            # A file object of its own each time, as another process would have.
            ApprovalFile(path).put(f"t{number}", approval({"n": number}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, range(0, 40, 10)))
    kept = ApprovalFile(path)
    assert all(kept.get(f"t{number}") is not None for number in range(40))
    assert {each.name for each in tmp_path.iterdir()} == {"p.json", "p.json.lock"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        *((each, "cannot be read") for each in ("{", "[]", "{}")),
        ('{"version": 1, "approved": {"a": {}}}', "cannot be read"),
        ('{"version": 2}', "newer"),
    ],
)
def test_a_file_that_is_damaged_or_newer_is_an_error_and_left_alone(
    tmp_path: Path, content: str, why: str
) -> None:
    path = tmp_path / "p.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(Misconfigured, match=why):
        ApprovalFile(path).get("a")
    with pytest.raises(Misconfigured, match=why):
        ApprovalFile(path).put("a", approval())
    assert path.read_text(encoding="utf-8") == content


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(Misconfigured, match="cannot be written") as caught:
        ApprovalFile(tmp_path / "file" / "p.json").put("a", approval())
    assert "mcp.approvals" in caught.value.hint


def test_a_change_is_shown_as_a_difference_that_cannot_steer_a_terminal() -> None:
    after = {"name": "a", "description": "read\x1b[8m ~/.ssh"}
    assert '+  "description": "read\\u001b[8m ~/.ssh",' in changes({"name": "a"}, after)
    assert [*changes(after, after)] == []
    assert [*changes({"a": True}, {"a": 1})] == ['-  "a": true', '+  "a": 1']


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def tool(name: str = "t", **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def read(*raw: Any, **settings: Any) -> Any:
    return read_listing("s", ServerSettings(command="c", **settings), list(raw))


def spec(*, trusted: bool, own: dict[str, Any] | None = None, **hints: Any) -> ToolSpec:
    tools = {"t": own} if own else {}
    listing = read(tool(annotations=hints), trusted=trusted, tools=tools)
    made: ToolSpec = listing.tools["s.t"].spec
    return made


OWN = {"effect": "final", "idempotent": False, "open_world": True, "timeout_s": 5.0}


@pytest.mark.parametrize(
    ("hints", "own", "effect", "again", "outside"),
    [
        ({"readOnlyHint": True}, None, Effect.READ, False, True),
        ({"readOnlyHint": True, "destructiveHint": True}, None, Effect.READ, False, True),
        ({"destructiveHint": True}, None, Effect.FINAL, False, True),
        ({"destructiveHint": False}, None, Effect.WRITE, False, True),
        ({"idempotentHint": True, "openWorldHint": False}, None, Effect.WRITE, True, False),
        ({"readOnlyHint": True, "idempotentHint": True}, OWN, Effect.FINAL, False, True),
        ({}, None, Effect.WRITE, False, True),
    ],
)
def test_the_hints_of_a_trusted_server_become_effects_below_the_word_of_the_person(
    hints: dict[str, Any], own: dict[str, Any] | None, effect: Effect, again: bool, outside: bool
) -> None:
    made = spec(trusted=True, own=own, **hints)
    assert (made.effect, made.idempotent, made.open_world) == (effect, again, outside)
    assert own is None or made.timeout_s == 5
    assert spec(trusted=False, own={"effect": "read", "search": True}).search


@given(st.dictionaries(st.text(), JSON) | JSON)
def test_whatever_an_untrusted_server_says_its_tools_write_anywhere_and_once(hints: Any) -> None:
    listing = read(tool(annotations=hints))
    for each in listing.tools.values():
        assert each.spec.effect is Effect.WRITE
        assert each.spec.open_world
        assert not each.spec.idempotent


def test_two_tools_of_one_name_are_both_left_out_and_told() -> None:
    unknown = {**tool("u", description="d"), "x-vendor": {"deep": [1, True]}, "_meta": {"a": 1}}
    listing = read(tool(), tool(description="another"), unknown)
    assert set(listing.tools) == {"s.u"}
    assert listing.tools["s.u"].definition == unknown  # kept as it came
    assert listing.notes == ("s has 2 tools called 't': none of them is used",)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (7, "it has no name"),
        (tool(""), "it has no name"),
        (tool(description="x" * 70_000), "longer than 65,536 bytes"),
        (tool("x" * 300), "its name is too long"),
        ({"name": "t", "inputSchema": []}, "not an object"),
        ({"name": "t", "inputSchema": {"type": "string"}}, "not an object"),
        (tool(outputSchema=7), "not a schema"),
        (tool(x="\ud800"), "cannot be stored as JSON"),
        (tool(x=float("inf")), "cannot be stored as JSON"),
    ],
)
def test_a_tool_that_is_not_usable_is_told_and_hides_no_other(raw: Any, why: str) -> None:
    listing = read(raw, tool("good"))
    assert set(listing.tools) == {"s.good"}
    assert why in listing.notes[0]


@given(st.lists(JSON | st.fixed_dictionaries({"name": st.text(), "inputSchema": JSON})))
def test_nothing_a_server_lists_can_break_the_listing(raw: list[Any]) -> None:
    listing = read(*raw)
    assert all(name == each.spec.name for name, each in listing.tools.items())


def test_a_tool_can_be_disabled_and_one_that_is_not_there_is_told() -> None:
    listing = read(tool("a"), tools={"a": {"enabled": False}, "b": {"effect": "read"}})
    assert not listing.tools
    assert "your settings have it disabled" in listing.notes[0]
    assert "no tool 'b'" in listing.notes[1]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://169.254.169.254/x"},
        {"properties": {"a": {"items": [{"$ref": "file:///etc/passwd"}]}}},
        {"$schema": "http://evil.example/meta"},
        {"$dynamicRef": "other.json"},
    ],
)
def test_an_output_schema_that_leads_elsewhere_is_never_followed(schema: dict[str, Any]) -> None:
    assert not is_sound(schema)
    listing = read(tool(outputSchema=schema))
    assert listing.tools["s.t"].spec.output_schema is None
    assert "go unchecked" in listing.notes[0]


def test_a_schema_that_refers_to_itself_is_used() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"type": "string"}},
    }
    assert read(tool(outputSchema=schema)).tools["s.t"].spec.output_schema == schema


# Names

NAMES = st.one_of(st.text(alphabet="_x5fa4 .-/名", max_size=12), st.text(max_size=12))


@given(NAMES, NAMES)
@example("a", "_x4 ")
@example("a", "_x5f_x41_")
def test_a_name_is_legal_and_leads_back_to_server_and_tool(server: str, tool: str) -> None:
    name = full_name(server, tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]*\.[A-Za-z0-9_.-]*", name)
    assert wire_names(name) == (server, tool)


def test_plain_names_stay_as_they_are_and_a_dot_makes_no_server_look_like_another() -> None:
    assert full_name("time", "get_current_time") == "time.get_current_time"
    assert full_name("a.b", "c.d") == "a_x2e_b.c.d"
    assert full_name("every", "get-tiny-image") == "every.get-tiny-image"
    assert "." not in server_name("a.b")


@pytest.mark.parametrize("first", [True, False])
async def test_a_tool_with_the_name_of_another_one_is_left_out_and_shadows_nothing(
    first: bool,
) -> None:
    @make_tool(effect="read", name="raw.echo")
    def own(text: str) -> str:
        return f"mine: {text}"

    messages: list[str] = []
    async with await approved(servers(messages.append, raw=raw(trusted=True))) as source:
        app = Plansmith(tools=[source, own] if first else [own, source])
        for _ in range(2):
            step = {"id": "e", "tool": "raw.echo", "inputs": {"text": "hi"}}
            run = await app.submit(Plan.model_validate({"goal": "echo", "steps": [step]}))
            run = await app.run(run.id)
            assert (run.status, run.steps["e"].result) == (RunStatus.DONE, "mine: hi")
        [note] = [each for each in messages if "'echo' is not used" in each]
        assert "give the server another name" in note
