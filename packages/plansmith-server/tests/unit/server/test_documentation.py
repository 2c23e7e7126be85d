"""The documentation site under /help: only its own files, and only its own scripts run."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from plansmith_server.errors import HttpProblem
from plansmith_server.routes.documentation import help_response


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "help"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>Start</h1><script>go()</script><script src=a.js>")
    (folder / "assets" / "a.js").write_text("go = () => 1")
    (tmp_path / "secret.txt").write_text("no")
    return folder


def test_a_page_lets_only_the_scripts_run_that_were_built_into_it(site: Path) -> None:
    policy = help_response("index.html", folder=site).headers["content-security-policy"]
    digest = base64.b64encode(hashlib.sha256(b"go()").digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "script-src 'self' 'unsafe-inline'" not in policy
    assert help_response("", folder=site).status_code == 200
    assert help_response("assets/a.js", folder=site).status_code == 200


def test_nothing_else_is_found_and_no_link_is_followed(site: Path) -> None:
    (site / "out.txt").symlink_to(site.parent / "secret.txt")
    for path in ("../secret.txt", "none.html", "assets", "a" * 300, "x\0y", "out.txt"):
        with pytest.raises(HttpProblem) as caught:
            help_response(path, folder=site)
        assert caught.value.status == 404, path
