"""A private PostgreSQL server in a temporary folder, for the tests and the bench.

It needs the programs of Debian's package postgresql; nothing is installed here.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.needs import free_port, lacks

_numbers = itertools.count(1)


class NoServerError(Exception):
    """PostgreSQL is not installed, or one of its programs failed."""


@dataclass(frozen=True)
class Server:
    """A running server; `restart` cuts every connection."""

    binaries: Path
    folder: Path
    port: int

    @property
    def dsn(self) -> str:
        return self.dsn_of("postgres")

    def dsn_of(self, database: str, user: str = "plansmith") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def new_database(self, name: str = "") -> str:
        name = name or f"own_{next(_numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.dsn_of(name)

    def sql(self, statement: str, *, database: str = "postgres") -> str:
        name = database.rpartition("/")[2]  # of an address, too
        command = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", self.dsn_of(name)]
        return self._do(*command, "-c", statement)

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder}"
        log = str(self.folder / "log")
        self._do("pg_ctl", "-D", str(self.data), "-l", log, "-w", "-o", options, "start")

    def stop(self) -> None:
        self._do("pg_ctl", "-D", str(self.data), "-w", "-m", "immediate", "stop")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def create(self, *, fsync: bool) -> None:
        self._do("initdb", "-D", str(self.data), "-U", "plansmith", "-A", "trust", "-E", "UTF8")
        if not fsync:
            with (self.data / "postgresql.conf").open("a") as settings:
                settings.write("fsync = off\n")

    def _do(self, binary: str, *arguments: str) -> str:
        # The server refuses to run as root.
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [*user, str(self.binaries / binary), *arguments],
            stdin=subprocess.DEVNULL,
            # Not a pipe for pg_ctl: the server would inherit it and hold it open.
            stdout=subprocess.DEVNULL if binary == "pg_ctl" else subprocess.PIPE,
            stderr=subprocess.DEVNULL if binary == "pg_ctl" else subprocess.PIPE,
            text=True,
            cwd="/",
            check=False,
        )
        if done.returncode:
            raise NoServerError(f"{binary} failed: {done.stderr or 'see its log'}")
        return (done.stdout or "").strip()


@contextmanager
def private_server(*, fsync: bool = False) -> Iterator[Server]:
    """A new server on 127.0.0.1 and a free port, gone with its data at the end."""
    binaries = installed()
    if binaries is None:
        raise NoServerError("PostgreSQL is not installed: apt-get install -y postgresql")
    folder = Path(tempfile.mkdtemp(prefix="plansmith-pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        server = Server(binaries, folder, free_port())
        server.create(fsync=fsync)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        # A process of its own goes on with it: these are some ten thousand files.
        subprocess.run(["sh", "-c", 'rm -rf "$0" &', folder], check=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One server for all tests of a session."""
    if installed() is None:
        lacks("initdb")
    with private_server() as server:
        yield server


def store_url(kind: str, request: pytest.FixtureRequest) -> str:
    """A new store for a test: a file, or a database of its own."""
    if kind != "postgres":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'runs.db'}"
    server: Server = request.getfixturevalue("postgres_server")
    return server.new_database()


def installed() -> Path | None:
    """The folder of PostgreSQL's programs, if they are installed."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name)
    )
    if folders:
        return folders[-1]
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None
