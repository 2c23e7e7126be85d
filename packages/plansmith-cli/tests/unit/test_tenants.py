"""Tenants are kept apart: their folders, what they inherit, and the commands about them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from tests.commands import Cli

from plansmith.errors import Misconfigured
from plansmith_cli.config import Settings
from plansmith_cli.server_wiring import tenant_settings
from plansmith_server.team.tenant_book import TenantBook


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home, in a folder without settings."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("PLANSMITH_STORE", raising=False)
    monkeypatch.setenv("PLANSMITH_MODEL", "rules")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_tenant_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    book = TenantBook(tmp_path)
    made = book.create("acme")
    with pytest.raises(Misconfigured):
        book.create("acme")
    assert book.all() == [made]
    assert stat.S_IMODE(made.home.stat().st_mode) == 0o700
    removed = book.remove("acme")
    assert (book.all(), removed.home.is_dir()) == ([], True)
    assert book.create("acme").key != made.key


def test_a_tenant_inherits_models_and_limits_and_nothing_that_could_be_anothers(
    tmp_path: Path,
) -> None:
    base = Settings.model_validate(
        {
            "models": {"plan": "rules"},
            "review": {"second_person": "changes"},
            "secrets": {"key": {"env": "SECRET"}},
            "agents": {},
            "documents": ["/docs"],
            "tools": ["/tools.py"],
            "builtin": {"databases": {"main": "sqlite:////x.db"}, "hosts": ["example.com"]},
            "mcp": {"servers": {"files": {"command": "server"}}},
            "store": f"sqlite:///{tmp_path}/runs.db",
        }
    )
    acme = TenantBook(tmp_path).create("acme")
    (acme.folder / "plansmith.toml").write_text('tools = ["evil.py"]\n')
    found = tenant_settings(acme, base)
    assert found.models.plan.model == "rules"
    assert found.review.second_person == "changes"
    assert (found.secrets, found.tools, found.documents) == ({}, (), ())
    assert (found.builtin.databases, found.builtin.hosts, found.mcp.servers) == ({}, (), {})
    assert (found.folder(), found.data()) == (acme.folder, acme.home)
    acme.config.write_text('tools = ["own.py"]\n[models.plan]\nmodel = "openai:x"\n')
    own = tenant_settings(acme, base)
    assert (own.tools, own.models.plan.model) == ((acme.home / "own.py",), "openai:x")
    acme.config.write_text('store = "memory"\n')
    with pytest.raises(Misconfigured, match="cannot set the store"):
        tenant_settings(acme, base)


def test_commands_make_tenants_and_work_in_them(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    made = cli.json("tenants create acme")
    assert Path(made["folder"]) == home / "plansmith" / "tenants" / "acme"
    assert [each["name"] for each in cli.json("tenants list")] == ["acme"]
    words = ("tokens", "create", "ci", "--role", "operator", "--tenant", "acme", "--user", "ann")
    token = cli.json(*words)
    assert (token["tenant"], token["user"], token["role"]) == ("acme", "ann", "operator")
    assert token["scopes"] == ["look", "propose", "answer"]
    assert cli.json("--tenant acme runs") == []
    assert next(home.rglob("plansmith.acme_*.db")).parent == home / "plansmith"
    assert Path(cli.json("tenants remove acme")["folder"]).is_dir()
    assert cli.json("tokens list") == []
    assert cli.json("--tenant acme runs", code=2)["error"]["kind"] == "NotFound"


def test_a_token_for_a_tenant_needs_a_user_and_a_role_or_scopes(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    assert home.is_dir()
    cli.json("tenants create acme")
    cli.json("tokens create x --role viewer --tenant acme", code=2)
    cli.json("tokens create x --role viewer --scope look", code=2)
    cli.json("tokens create x --scope look,admin", code=2)
    cli.json("tokens create x --role viewer --tenant no", code=2)
    assert cli.json("tokens list") == []


def test_a_tenant_named_before_a_command_is_the_one_that_tokens_and_stores_are_about(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    for name in ("acme", "beta"):
        cli.json(f"tenants create {name}")
    cli.json("tokens create whole --role admin")
    made = cli.json("--tenant acme tokens create ci --role viewer --user ann")
    assert (made["tenant"], cli.json("--tenant acme tokens link --user ann").keys()) == (
        "acme",
        {"link"},
    )
    assert {each["tenant"] for each in cli.json("--tenant acme tokens list")} == {"acme"}
    assert cli.json("tokens list --tenant beta") == []
    cli("--tenant acme tokens revoke whole", code=2, err="there is no token 'whole'")
    for words in (
        "--tenant beta --tenant acme tokens list",
        "--tenant acme tokens list --tenant beta",
    ):
        cli(words, code=2, err="two different tenants")
    assert {each["tenant"] for each in cli.json("--tenant acme -C . tokens list")} == {"acme"}
    assert cli.json("--tenant acme tenants list") == cli.json("tenants list")
    gone = cli.json("tenants list")[1]["store"]
    assert cli.json("--tenant acme tenants remove beta")["store"] == gone
