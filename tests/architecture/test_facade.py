"""Plansmith is a facade: one class of a few documented verbs that holds its parts."""

from __future__ import annotations

import inspect

import pytest

from plansmith import Plansmith

PUBLIC = [name for name in dir(Plansmith) if not name.startswith("_")]


def test_the_facade_inherits_from_nothing() -> None:
    assert Plansmith.__mro__ == (Plansmith, object)


def test_the_facade_has_at_most_25_public_members() -> None:
    assert len(PUBLIC) <= 25, PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_member_says_what_it_does(name: str) -> None:
    member = inspect.getattr_static(Plansmith, name)
    assert inspect.getdoc(member), name
