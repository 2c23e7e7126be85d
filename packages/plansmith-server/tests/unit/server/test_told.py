"""What a server shows of its settings and logs, without what may be a secret."""

from __future__ import annotations

import io
import json
import logging
import types
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest

from plansmith.plan.data import Record
from plansmith.secrets import SecretSource
from plansmith_cli.config import Settings
from plansmith_server.ops.logs import Log
from plansmith_server.shown_settings import ADDRESSES, HIDDEN, address, leaves, visible_value

# The settings whose text a client is told as it stands; whoever adds one says so here too.
VISIBLE = {
    *(f"models.{role}.model" for role in ("plan", "triage", "agents", "report")),
    *("planner.timezone", "planner.prompts", "review.never_for", "run.data_free", "builtin.hosts"),
    *("builtin.private", "builtin.writable", "mcp.files", "mcp.approvals"),
    *("tools", "documents", "profile"),
}
SHAPES = {
    "url": "https://user:{}@host.example/{}?key={}#{}",
    "base_url": "https://user:{}@host.example/{}?key={}#{}",
    "issuer": "https://{}.example",
    "keep_runs": "90d",
    "token": "${secret:{}}",
    "password": "${secret:{}}",
    "store": "postgresql://user:{}@host.example/runs?password={}",
}


class Planter:
    """Fills every text of the settings, at every depth and in every map, with a canary."""

    def __init__(self) -> None:
        self.canaries: dict[str, str] = {}

    def text(self, place: str, field: str) -> str:
        canary = self.canaries.setdefault(place, f"CANARY{len(self.canaries)}X")
        return SHAPES.get(field, "{}").replace("{}", canary)

    def record(self, kind: type[Record], place: str = "") -> dict[str, Any]:
        made = {}
        for name, field in kind.model_fields.items():
            value = self.value(field.annotation, f"{place}{name}", name)
            if value is not None:
                made[name] = value
        if kind is SecretSource:
            return {"env": made["env"]}
        return made

    def value(self, kind: Any, place: str, field: str) -> Any:
        """A value of a type, with a canary wherever a text may stand; nothing for other types."""
        origin, inside = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.value(inside[0], place, field)
        if origin in (Union, types.UnionType):
            return next((v for each in inside if (v := self.value(each, place, field))), None)
        if origin is tuple:
            found = self.value(inside[0], place, field)
            return None if found is None else [found]
        if origin is dict:
            found = self.value(inside[1], f"{place}.key", field)
            return None if found is None else {"key": found}
        if isinstance(kind, type) and issubclass(kind, Record):
            return self.record(kind, f"{place}.")
        if kind in (str, Path):
            return self.text(place, field)
        known = origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum))
        assert known or kind in (bool, int, float, Decimal, type(None)), (place, kind)
        return None


def test_no_text_of_the_settings_is_shown_unless_it_is_named() -> None:
    planter = Planter()
    value = planter.record(Settings)
    # What cannot stand together is planted apart, and an agent's URL takes no password.
    for role in value["models"].values():
        del role["output"]
    servers = value["mcp"]["servers"]
    whole = servers["key"]
    servers["web"] = {"url": whole.pop("url"), "headers": whole.pop("headers")}
    agent = value["agents"]["key"]
    agent["url"] = agent["url"].replace("user:", "").replace("@host", ".host")
    settings = Settings.model_validate(value)
    assert len(planter.canaries) > 25
    whole = {name: visible_value(name, value) for name, value in leaves(settings).items()}
    for name, value in whole.items():
        found = [each for each in planter.canaries.values() if each in json.dumps(value)]
        assert bool(found) == (name in VISIBLE), (name, value)
    assert whole["store"] == "postgresql://host.example/runs"
    assert whole["models.plan.base_url"] == "https://host.example"
    assert whole["models.plan.api_key_env"] == HIDDEN
    assert whole["mcp.servers"] == ["key", "web"]
    assert whole["builtin.databases"] == ["key"]


@pytest.mark.parametrize(
    ("url", "visible"),
    [
        ("memory", "memory"),
        ("sqlite:////home/ann/runs.db", "sqlite:////home/ann/runs.db"),
        ("sqlite:////home/ann/runs.db?key=s3cret", "sqlite:////home/ann/runs.db"),
        ("postgresql://u:s3cret@db:5432/plans", "postgresql://db:5432/plans"),
        ("host=db password=s3cret", HIDDEN),
        ("https://hooks.example/s3cret/v1", "https://hooks.example"),
        ("http://u:s3cret@[::1]:8080/v1", "http://[::1]:8080"),
        ("http://u:s3cret@host:port/", HIDDEN),
        ("s3cret", HIDDEN),
    ],
)
def test_an_address_is_shown_without_what_may_be_a_secret(url: str, visible: str) -> None:
    assert address(url) == visible
    assert ADDRESSES


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, with its handlers put back at the end."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_libraries_write_lines_of_the_log_also_after_its_stream_was_closed(
    root: logging.Logger,
) -> None:
    out = io.StringIO()
    Log(out).capture_libraries()
    root.warning("the line is slow")
    assert json.loads(out.getvalue())["text"] == "the line is slow"
    out.close()
    root.error("nobody reads this")


def test_log_lines_leave_out_what_looks_like_a_secret() -> None:
    out = io.StringIO()
    log = Log(out)
    log.hide("hunter2")
    log.warning("x", error="Bearer abc.def failed for hunter2", api_key="k", more=["sk-123"])
    log.failure("y", told={"password": "p", "plain": "see /?token=zzz"})
    secrets = ("abc.def", "hunter2", '"k"', "sk-123", '"p"', "zzz")
    assert not [each for each in secrets if each in out.getvalue()]
    levels = [json.loads(line)["level"] for line in out.getvalue().splitlines()]
    assert levels == ["warning", "error"]
