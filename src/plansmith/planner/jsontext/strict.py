"""The strict half of the reader: well-formed JSON, whole or in part, at the speed of C."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import Final

from plansmith.plan.data import Json
from plansmith.planner.jsontext.chars import SURROGATE, clean, number

_BIG_NUMBER = re.compile(r"[eE][+]?\d{3}|\d{309}")
_CALL_COST: Final = 16


def _no_value(_word: str) -> None:
    return None


_PLAIN = json.JSONDecoder(parse_constant=_no_value)
_GUARDED = json.JSONDecoder(parse_constant=_no_value, parse_float=number)


class Source:
    """A text, with how many of its characters may still be looked at more than once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.budget = 8 * len(text) + 4096
        self._patience = 64 * len(text) + 65536

    @cached_property
    def _decoder(self) -> json.JSONDecoder:
        return _GUARDED if _BIG_NUMBER.search(self.text) else _PLAIN

    def strict_at(self, start: int) -> tuple[Json, int] | None:
        """The well-formed container at a place and its end, or nothing."""
        if self._patience < 0:
            return None
        try:
            value, end = self._decoder.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            # The error counts the lines before it; an unclosed string was searched to the end.
            far = len(self.text) if error.msg.startswith("Unterminated") else error.pos
            self._patience -= far + _CALL_COST
            return None
        except (ValueError, RecursionError):
            self._patience -= len(self.text)
            return None
        return _scrubbed(value, self.text[start:end]), end

    def whole(self) -> Json:
        """The value of a text that is one JSON document; ValueError when it is not."""
        return _scrubbed(self._decoder.decode(self.text), self.text)


def _scrubbed(value: Json, text: str) -> Json:
    """The value without lone surrogates, which could not be written as UTF-8."""
    if "\\ud" not in text and "\\uD" not in text and (text.isascii() or not SURROGATE.search(text)):
        return value
    holder: list[Json] = [value]
    stack: list[list[Json] | dict[str, Json]] = [holder]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            pairs = [(clean(key), _clean(child)) for key, child in node.items()]
            node.clear()
            node.update(pairs)
        else:
            node[:] = [_clean(child) for child in node]
        children = node.values() if isinstance(node, dict) else node
        stack.extend(child for child in children if isinstance(child, (dict, list)))
    return holder[0]


def _clean(value: Json) -> Json:
    return clean(value) if isinstance(value, str) else value
