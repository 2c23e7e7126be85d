"""Whose certificates count in tests: nobody's, since every client would read 140 in 50 ms.

Tests talk to this machine only, or name a certificate of their own. What they start inherits it.
"""

from __future__ import annotations

import os

import pytest

_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_KEPT = "TESTS_"  # before the names of what the machine has: processes of pytest-xdist inherit it


def trust_nobody() -> None:
    """The authorities are an empty folder from now on."""
    for name in _NAMES:
        os.environ.setdefault(_KEPT + name, os.environ.get(name, ""))
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = os.devnull


def trust_as_the_machine_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one test with a program that asks the network."""
    for name in _NAMES:
        monkeypatch.delenv(name, raising=False)
        if value := os.environ.get(_KEPT + name):
            monkeypatch.setenv(name, value)
