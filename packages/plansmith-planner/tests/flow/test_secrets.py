"""K1: a secret is named in the plan, seen by one call, and appears nowhere else."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flow.smiths import plan

from plansmith import RunStatus, tool
from plansmith.app import Plansmith
from plansmith.errors import InputNeeded, Misconfigured, PlanInvalid, ToolFailed
from plansmith.plan.limits import Limits
from plansmith.ports import Call
from plansmith.secrets import SecretBox
from plansmith.testing import ScriptedModel
from plansmith_planner.settings import PlannerSettings

CANARY = 'kan"arie / {{vogel}} 42'
BOX = {"key": {"env": "SHOP_KEY", "tools": ("shop.*",)}}
ENVIRONMENT = {"SHOP_KEY": CANARY}


def box() -> SecretBox:
    return SecretBox(BOX, environment=ENVIRONMENT)


def forms() -> list[str]:
    encoded = CANARY.encode()
    return [
        CANARY,
        json.dumps(CANARY)[1:-1],
        json.dumps(json.dumps(CANARY))[3:-3],
        html.escape(CANARY),
        quote(CANARY, safe=""),
        quote(CANARY),
        quote_plus(CANARY),
        quote(CANARY, safe="").replace("%2F", "%2f").replace("%7B", "%7b").replace("%7D", "%7d"),
        base64.b64encode(encoded).decode(),
        base64.urlsafe_b64encode(encoded).decode(),
        *(base64.b64encode(b"x" * before + b":" + encoded).decode() for before in range(3)),
        base64.b64encode(b"ada:" + encoded + b"\n").decode(),
        encoded.hex(),
        encoded.hex().upper(),
        repr(encoded),
    ]


seen: list[dict[str, Any]] = []


def careless_form(key: str) -> dict[str, Any]:
    return {
        "title": f"Sign in with {key}",
        "description": f"Basic {base64.b64encode(f'ada:{key}'.encode()).decode()}",
        "type": "string",
        "enum": ["no", *forms()],
        "default": key,
        "properties": {key: {"const": key, "examples": [[key]]}},
    }


@tool(effect="read", name="shop.buy")
async def buy(call: Call, key: str, what: str = "", how: str = "") -> dict[str, Any]:
    """Buy something, and be careless with the key."""
    seen.append({"key": key, "what": what})
    call.progress(f"using {key}")
    call.advise("replan", f"because of {key}")
    if how == "fail":
        raise ToolFailed(f"bad key {key}")
    if how == "raise":
        raise ValueError(f"bad key {quote(key, safe='')}")
    if how == "ask" and call.reply is None:
        raise InputNeeded(f"Is {key} right?", state={"key": key}, options=(f"yes {key}", "no"))
    if how == "form" and call.reply is None:
        raise InputNeeded("Which one?", schema=careless_form(key))
    return {"echo": forms(), f"of {key}": [key], "text": "${secret:key}"}


@tool(effect="read", name="other.look")
def look(what: Any) -> Any:
    return what


@pytest.fixture
def store(tmp_path: Path) -> Path:
    seen.clear()
    return tmp_path / "runs.db"


@pytest.mark.parametrize("how", ["", "fail", "raise", "ask", "form"])
async def test_the_value_reaches_its_tool_and_nothing_that_is_kept_or_told(
    store: Path, how: str
) -> None:
    replans = [{"steps": [{"id": "z", "instruction": "give up"}]}]
    model = ScriptedModel(*replans, "I found ${secret:key}")
    app = Plansmith(
        model=model,
        tools=[buy, look],
        store=f"sqlite:///{store}",
        secrets=box(),
        settings=PlannerSettings(triage=False),
        limits=Limits(first_wait_s=0, max_replans=1),
    )
    run = await app.submit(
        plan(
            {
                "id": "a",
                "tool": "shop.buy",
                "inputs": {"key": "${secret:key}", "what": "x", "how": how},
            },
            {"id": "b", "tool": "other.look", "inputs": {"what": "{{a}}"}},
        )
    )
    run = await app.run(run.id)
    for question in list(run.questions):
        await app.answer(run.id, question, "no", by="ada")
        run = await app.run(run.id)
    assert {each["key"] for each in seen} == {CANARY}
    kept = json.dumps([event.to_json() async for event in app.events(run.id)])
    output = repr(run) + run.report + "".join(m.text for p in model.prompts for m in p)
    await app.close()
    raw = b"".join(path.read_bytes() for path in store.parent.iterdir())
    for form in forms():
        assert form not in kept
        assert form not in output
        assert form.encode() not in raw
    assert "${secret:key}" in kept


async def test_only_the_plan_names_secrets_what_tools_say_is_never_looked_at(store: Path) -> None:
    app = Plansmith(tools=[buy, look], store=f"sqlite:///{store}", secrets=box())
    wanted = plan(
        {"id": "l", "tool": "other.look", "inputs": {"what": "$" + "{secret:ke"}},
        {"id": "a", "tool": "shop.buy", "inputs": {"key": "{{l}}y}", "what": "{{l}}"}},
    )
    run = await app.run((await app.submit(wanted)).id)
    assert run.steps["a"].status == "done"
    assert seen == [{"key": "${secret:key}", "what": "${secret:ke"}]
    await app.close()


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"tool": "other.look", "inputs": {"what": "${secret:key}"}}, "is not for other.look"),
        ({"tool": "shop.buy", "inputs": {"key": "${secret:none}"}}, "no secret 'none'"),
        ({"instruction": "say ${secret:key}"}, "would be readable here"),
        ({"agent": "x", "task": "use ${secret:key}"}, "would be readable here"),
    ],
)
async def test_a_secret_in_the_wrong_place_is_a_problem_of_the_plan(
    step: dict[str, Any], why: str
) -> None:
    app = Plansmith(tools=[buy, look], secrets=box())
    found = await app.check(plan({"id": "a"} | step))
    assert any(each.code == "PS501" and why in each.message for each in found)
    with pytest.raises(PlanInvalid):
        await app.submit(plan({"id": "a"} | step))


async def test_without_a_box_a_named_secret_is_an_error_and_not_sent_as_text() -> None:
    app = Plansmith(tools=[buy])
    with pytest.raises(PlanInvalid, match="no secret 'key'"):
        await app.submit(plan({"id": "a", "tool": "shop.buy", "inputs": {"key": "${secret:key}"}}))


async def test_a_secret_that_is_not_there_fails_the_step_and_says_what_to_set() -> None:
    app = Plansmith(tools=[buy], secrets=SecretBox(BOX, environment={}))
    wanted = plan({"id": "a", "tool": "shop.buy", "inputs": {"key": "${secret:key}"}})
    run = await app.run((await app.submit(wanted)).id)
    assert run.status is RunStatus.FAILED
    assert "export SHOP_KEY" in run.steps["a"].error


def test_files_of_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("s3cret-value\n")
    path.chmod(0o644)
    kept = SecretBox({"key": {"file": path, "tools": ("*",)}})
    with pytest.raises(Misconfigured, match="chmod 600"):
        kept.reveal("key", "any")
    path.chmod(0o600)
    assert kept.reveal("key", "any") == "s3cret-value"
    assert kept.hide({"a s3cret-value": ["s3cret-value", 1, None]}) == {
        "a ${secret:key}": ["${secret:key}", 1, None]
    }
    path.write_text("abc")
    with pytest.raises(Misconfigured, match="too short"):
        kept.reveal("key", "any")
    path.unlink()
    with pytest.raises(Misconfigured, match="cannot be read"):
        kept.reveal("key", "any")
    with pytest.raises(ValueError, match="exactly one of"):
        SecretBox({"key": {"tools": ("*",)}})


@given(
    secret=st.text(min_size=6, max_size=40).filter(lambda text: text.strip() == text),
    before=st.binary(max_size=9),
    after=st.binary(max_size=9),
)
def test_a_secret_anywhere_in_what_base64_encodes_is_hidden(
    secret: str, before: bytes, after: bytes
) -> None:
    kept = SecretBox({"key": {"env": "K", "tools": ("*",)}}, environment={"K": secret})
    kept.reveal("key", "any")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(before + secret.encode() + after).decode()
        assert kept.hide(f"Authorization: Basic {text}") == "Authorization: Basic ${secret:key}"


@given(st.text(min_size=6, max_size=60))
def test_a_secret_in_an_address_in_json_and_in_html_is_hidden(secret: str) -> None:
    kept = SecretBox({"key": {"env": "K", "tools": ("*",)}}, environment={"K": secret})
    kept.reveal("key", "any")
    for text in (
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        html.escape(secret),
        repr(secret)[1:-1],
        secret.encode().hex().upper(),
    ):
        assert kept.hide([f"<{text}>"]) == ["<${secret:key}>"]


def test_a_secret_is_hidden_before_it_is_revealed_as_after_a_restart() -> None:
    assert box().hide({"a": f"it was {CANARY}"}) == {"a": "it was ${secret:key}"}


def test_a_secret_of_digits_is_hidden_as_a_number_too() -> None:
    kept = SecretBox({"pin": {"env": "PIN", "tools": ("*",)}}, environment={"PIN": "493817"})
    assert kept.hide([493817, 12, 1.5, True]) == ["${secret:pin}", 12, 1.5, True]


def test_a_line_of_a_secret_of_many_lines_is_hidden_by_itself() -> None:
    key = (
        "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----"
    )
    kept = SecretBox({"key": {"env": "K", "tools": ("*",)}}, environment={"K": key})
    assert kept.hide("bad line AQEFAASCBKcwggSjAgEAAoIB") == "bad line ${secret:key}"
    assert kept.hide("-----BEGIN KEY-----") == "-----BEGIN KEY-----"


def test_texts_without_a_secret_stay_as_they_are() -> None:
    kept = SecretBox({"key": {"env": "K", "tools": ("*",)}}, environment={"K": "secret"})
    kept.reveal("key", "any")
    for text in ("a Secret", "secre t", "c2VjcmU", "%73ecre", "7365637265", "dXNlcjpwYXNz"):
        assert kept.hide(text) == text
