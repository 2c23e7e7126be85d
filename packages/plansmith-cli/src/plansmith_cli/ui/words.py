"""Texts of the command line in English and Chinese."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from plansmith.errors import PlansmithError
from plansmith.lazy import lazy_modules, lazy_pattern
from plansmith.plan.sentence import Sentence, in_language, language_of, with_hint
from plansmith.text import safe
from plansmith_cli.ui.own_locale import own_locale

if TYPE_CHECKING:
    import re

    from plansmith_cli import extras
else:
    lazy_modules(globals(), extras="plansmith_cli.extras")

_SHOWN: Final = 3
_UNKNOWN_TOOL: Final = "PS101"
_EXTRA: Final = lazy_pattern(r"pip install packages/\* ['\"]plansmith\[([\w-]+)\]['\"]")


_STATUSES: Final = {
    "asking": Sentence("waiting for you"),
    "partly_done": Sentence("partly done"),
    "planning": Sentence("planned"),
    "replanning": Sentence("planning again"),
    "reviewing": Sentence("waiting for your approval"),
    "triaging": Sentence("reading the request"),
    "unknown": Sentence("unknown: did it happen?"),
}


def status_word(status: str, locale: str) -> str:
    """Returns the status of a run or a step in words for the person who waits for it."""
    return in_language(_STATUSES.get(status) or Sentence(f"status.{status}"), locale)


def own_text(code: str, /, **fields: Any) -> str:
    """Returns a sentence in the language of the person at the terminal."""
    return in_language(Sentence(code, **fields), own_locale())


def own(text: str) -> str:
    """Returns a text in the person's language if it is a sentence; other text stays as it is."""
    return in_language(text, own_locale())


def tell(*texts: str) -> None:
    """Writes lines to stderr, in the person's language and without control characters."""
    sys.stderr.writelines(f"{safe(own(text))}\n" for text in texts)
    sys.stderr.flush()


def _installing(found: re.Match[str]) -> str:
    """Returns the command that installs an extra into the environment of this very program."""
    return extras.install_hint(found[1])


def error_text(error: PlansmithError, locale: str) -> str:
    """Returns what went wrong and what helps, in the person's language."""
    problems: Sequence[Any] = getattr(error, "problems", ())
    message = in_language(error.message, locale)
    if problems and language_of(locale) != "en":
        shown = [each.line(locale) for each in problems[:_SHOWN]]
        left = len(problems) - len(shown)
        more = [in_language(Sentence("and {count} more", count=left), locale)] if left else []
        unusable = Sentence(
            "the plan is not usable: {problems}", problems="；".join([*shown, *more])
        )
        message = in_language(unusable, locale)
    unknown = any(getattr(each, "code", "") == _UNKNOWN_TOOL for each in problems)
    given = error.hint or (
        Sentence("if the tool is one of yours, name its file with --tools") if unknown else ""
    )
    hint = _EXTRA.sub(_installing, in_language(given, locale))
    return in_language(with_hint(message, hint), locale)
