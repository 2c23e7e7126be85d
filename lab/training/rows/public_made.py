"""Makes single requests for public tools from what their descriptions give as examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from lab.training.rows.row import Call, Lang, Spec, call
from lab.training.rows.voice import Voice

_EXAMPLES: Final = re.compile(
    r"(?:e\.g\.,?|such as|for example,?|例如：?|比如：?|如：)\s*([^)）.。;；]+)"
)
_ORDER: Final = re.compile(
    r"(?:get|retrieve|calculate|find|create|update|analyze|check|search|convert|perform|provide|"
    r"generate|fetch|record|estimate|determine|identify|monitor|schedule|send|track|list|measure|"
    r"predict|translate|evaluate|apply|submit|show|order|book|set|add|delete|compare)\b",
    re.IGNORECASE,
)
_MOST: Final = 4
_ENDS_EN: Final = (
    "{d} for {a}",
    "{d}: {a}",
    "{d} with {a}",
    "Please {e} ({a})",
    "I want to {e}, {a}",
    "Could you {e}? {a}",
    "Can you {e} for {a}?",
)
_ENDS_ZH: Final = ("{d}，{a}", "请{d}：{a}", "帮我{d}（{a}）", "{d}。{a}", "我想{d}，{a}")
_MISSING_EN: Final = ("{d}", "Please {e}", "I want to {e}", "Can you {e}?")
_MISSING_ZH: Final = ("{d}", "请{d}", "帮我{d}")


def examples(field: Mapping[str, Any], rng: Random) -> list[Any]:
    """Returns values of an argument: its choices, or the examples of its description."""
    if field.get("enum"):
        return [each for each in field["enum"] if isinstance(each, str)]
    kind = field.get("type")
    if kind in ("integer", "number"):
        return [rng.randint(2, 300)]
    found = _EXAMPLES.search(str(field.get("description") or ""))
    if kind != "string" or not found:
        return []
    parts = (each.strip(" '\"“”‘’") for each in re.split(r",|，|、|\bor\b|\band\b|或", found[1]))
    return [each for each in parts if 1 < len(each) < 40 and "etc" not in each]


def made_request(spec: Spec, lang: Lang, voice: Voice, *, cut: bool) -> tuple[str, Call] | None:
    """Returns a request for a tool; with `cut` one required value is not said."""
    rng, schema = voice.rng, spec["input_schema"]
    about = re.split(r"[.。]", spec["description"])[0].strip()
    required: list[str] = schema["required"]
    if not 0 < len(required) <= _MOST or not 3 < len(about) < 120 or "API" in about:
        return None
    if lang == "en" and not _ORDER.match(about):
        return None
    values: dict[str, Any] = {}
    for name in required:
        known = examples(schema["properties"][name], rng)
        if not known:
            return None
        values[name] = rng.choice(known)
    optional = [name for name in schema["properties"] if name not in required]
    for name in optional[:1] if rng.random() < 0.25 else ():
        known = examples(schema["properties"][name], rng)
        values |= {name: rng.choice(known)} if known else {}
    missing = rng.choice(required) if cut else ""
    said = {name: value for name, value in values.items() if name != missing}
    args = {
        name: values[name] if name in said else "?"
        for name in schema["properties"]
        if name in values
    }
    return _worded(about, said, lang, voice), call(spec["name"], **args)


def _worded(about: str, said: Mapping[str, Any], lang: Lang, voice: Voice) -> str:
    """Words a request: what the tool does, and the values by the names of its arguments."""
    rng = voice.rng
    low = about[:1].lower() + about[1:]
    if lang == "zh":
        parts = [
            f"{_name(name)}{rng.choice(('是', '为', '：'))}{value}" for name, value in said.items()
        ]
        way = rng.choice(_ENDS_ZH if said else _MISSING_ZH)
        return way.replace("{d}", about).replace("{a}", "，".join(parts))
    ways = ("{n} {v}", "{n} is {v}", "the {n} {v}", "{n}: {v}")
    way = rng.choice(ways)
    parts = [
        way.replace("{n}", _name(name)).replace("{v}", str(value)) for name, value in said.items()
    ]
    joined = " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    form = rng.choice(_ENDS_EN if said else _MISSING_EN)
    text = form.replace("{d}", about).replace("{e}", low).replace("{a}", joined)
    return text + (rng.choice((".", "", ".")) if not text.endswith("?") else "")


def _name(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ")
    return words.lower()
