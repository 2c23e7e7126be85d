"""Who causes events: a person, a program, a model or Plansmith itself."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, cast

import msgspec

from plansmith.errors import EventMisfit
from plansmith.plan.data import as_plain, canonical_json
from plansmith.plan.event_body import FrozenStruct
from plansmith.plan.sentence import Sentence


class Actor(
    FrozenStruct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Who caused an event; `user` owns the token that was used, where `name` does not say so."""

    kind: Literal["person", "program", "model", "system"]
    name: str = ""
    user: str = ""

    @property
    def identity(self) -> str:
        """The user behind the actor, the same for all their tokens; empty if nobody knows."""
        return self.user or (self.name if self.kind == "person" else "")

    @property
    def speaks(self) -> bool:
        return self.kind in ("person", "program")

    @property
    def label(self) -> str:
        """The actor's name; that of a program begins with `program`."""
        return f"program {self.name}".rstrip() if self.kind == "program" else self.name


Who = str | Actor
SYSTEM: Final = Actor(kind="system")


def actor(who: Who) -> Actor:
    """Returns the actor for a name (a person) or an actor (unchanged)."""
    if isinstance(who, Actor):
        return who
    if not isinstance(cast("object", who), str):  # a program may give anything
        raise TypeError(f"an actor is a name or an Actor, not {who!r}")
    return Actor(kind="person", name=who)


@lru_cache(maxsize=256)
def actor_text(by: Actor) -> bytes:
    """Returns the canonical text of an actor; cached, since a run has few actors."""
    built = msgspec.to_builtins(by, enc_hook=as_plain)
    try:
        msgspec.convert(built, Actor)
    except msgspec.ValidationError as error:
        why = Sentence("the {what} cannot be stored: {error}", what="actor", error=error)
        hint = Sentence("nothing was stored; give a value of the right type")
        raise EventMisfit(why, hint=hint) from None
    return canonical_json(built)
