"""The stories of the server and its page, told again with a queue before what executes runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.needs import lacks
from tests.postgres import installed, private_server

ROOT = Path(__file__).parents[2]
# DBOS leaves connections of its own (ours are asynchronous) to the garbage collector.
DBOS_LEAVES = ("-W", "ignore:<psycopg.Connection object:ResourceWarning")
# Those that open the file of a store beside the server are left out: here it is a database.
SERVER = "packages/plansmith-server/tests/e2e"
STORIES = (
    *(f"{SERVER}/test_server_{name}.py" for name in ("runs", "events")),
    "tests/e2e/test_page_story.py",
)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stories", STORIES)
def test_the_stories_of_the_server_are_the_same_with_a_queue(stories: str) -> None:
    if installed() is None:
        lacks("initdb")
    with private_server() as server:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *DBOS_LEAVES, stories],
            env=os.environ | {"PLANSMITH_TEST_ENGINE_STORE": server.new_database("stories")},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-5000:]
