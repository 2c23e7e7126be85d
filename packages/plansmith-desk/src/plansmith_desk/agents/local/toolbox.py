"""The tools of an agent for one task: checks each call and keeps results to verify citations."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from plansmith.check.schemas import BadSchema, validator
from plansmith.errors import (
    InputNeeded,
    Misconfigured,
    OutcomeUnknown,
    PlansmithError,
    ToolFailed,
)
from plansmith.plan.asking import MOST_QUESTIONS
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, content_hash, json_text
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call, Reply, ToolSource
from plansmith.text import clip
from plansmith_desk.agents.local.limits import Circles, LocalLimits
from plansmith_planner.context.fence import fence

_SPACE: Final = re.compile(r"\s+")
_GAP: Final = re.compile(r"(?<!\s)\s*+(?:…|\.\.\.|\[…\]|\[\.\.\.\])\s*")
_QUOTES: Final = str.maketrans("“”„«»‘’‚`", '"""""\'\'\'\'')
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_IN_NAMES: Final = r"[\w/.\-~%?&=]"


@dataclass(frozen=True, slots=True)
class _Seen:
    """One call: the names it can be cited by and its text, both normalized for comparison."""

    names: str
    text: str


class Evidence:
    """The results of all calls of one task, against which citations are checked."""

    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def add(self, arguments: Mapping[str, Json], result: Json) -> None:
        """Records a call that returned a result."""
        text = "\n".join(_texts(result))
        names = "\n".join((*_texts(dict(arguments)), text))
        self._seen.append(_Seen(names, _plain(text)))

    def check(
        self, citations: Sequence[Mapping[str, str]]
    ) -> tuple[list[dict[str, str]], list[str]]:
        """Returns the citations that can be verified, and why the others were dropped."""
        kept: list[dict[str, str]] = []
        notes: list[str] = []
        for citation in citations:
            cited = {name: text.strip() for name, text in citation.items() if text.strip()}
            flaw = self._flaw(cited)
            if flaw:
                shown = cited.get("url") or cited.get("path") or cited.get("title", "")
                notes.append(f"the citation of {shown[:200]!r} was dropped: {flaw}")
            elif cited not in kept:
                kept.append(cited)
        return kept, notes

    def _flaw(self, cited: Mapping[str, str]) -> str:
        name = cited.get("url") or cited.get("path")
        if not name:
            return "it names no url and no path"
        named = [seen for seen in self._seen if _names(seen.names, name)]
        if not named:
            return "no tool returned it"
        parts = [part for part in _GAP.split(_plain(cited.get("quote", ""))) if part.strip('" ')]
        if not any(all(part.strip('" ') in seen.text for part in parts) for seen in named):
            return "its quote is not in the result of the tool"
        return ""


def _names(text: str, name: str) -> bool:
    """Whether a text contains exactly this name, and not a longer one."""
    short = name.split("#", 1)[0].rstrip("/") or name
    found = rf"(?<!{_IN_NAMES}){re.escape(short)}/?[.?]?(?!{_IN_NAMES})"
    return re.search(found, text) is not None


def _plain(text: str) -> str:
    """Normalizes a text for comparison: case, spaces and quotation marks."""
    # Letter by letter, so that a part of a text compares like the same part of the whole.
    common = _NOT_ASCII.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    folded = common.translate(_QUOTES).casefold()
    return _SPACE.sub(" ", folded).strip()


def _texts(value: Json) -> Iterator[str]:
    """Yields the texts and numbers in a value, in order."""
    stack: list[Json] = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack.extend(reversed(node.values()))
        elif isinstance(node, list):
            stack.extend(reversed(node))
        elif node is not None:
            yield node if isinstance(node, str) else str(node)


DEFAULT_TIMEOUT_S: Final = 120.0
_ASKED: Final = "plansmith agent asked"


@dataclass(frozen=True, slots=True)
class Choice:
    """Selects the tools that an agent may use, by name, by pattern, or because they search."""

    names: tuple[str, ...] = ()
    searching: bool = False

    def takes(self, spec: ToolSpec) -> bool:
        """Whether a tool is selected."""
        named = any(fnmatchcase(spec.name, pattern) for pattern in self.names)
        return named or (self.searching and spec.search)


class Toolbox:
    """The tools for one task. A call that changes something is never repeated."""

    def __init__(self, agent: str, *, effect: Effect, limits: LocalLimits, call: Call) -> None:
        self._agent = agent
        self._effect = effect
        self._limits = limits
        self._call = call
        self._circles = Circles(agent, limits.repeats)
        self._tools: dict[str, tuple[ToolSpec, ToolSource]] = {}
        self._refused: set[str] = set()
        self._reply, self._done = _from_reply(call.reply)
        self.answers = _earlier_answers(call.reply)
        self.evidence = Evidence()

    async def add_source(self, source: ToolSource, choice: Choice) -> None:
        """Adds the selected tools of a source; sets aside those beyond the agent's effect."""
        for spec in await source.tools():
            if not choice.takes(spec):
                continue
            if spec.name in self._tools or spec.name in self._refused:
                hint = Sentence("rename one of them")
                raise Misconfigured(
                    Sentence("two tools are called '{name}'", name=spec.name), hint=hint
                )
            if spec.effect.rank > self._effect.rank:
                self._refused.add(spec.name)
            else:
                self._tools[spec.name] = (spec, source)

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """Returns the tools that may be called."""
        return [spec for spec, _ in self._tools.values()]

    @property
    def changes(self) -> list[str]:
        """Returns descriptions of the calls that changed something."""
        return [str(each["tool"]) for each in self._done.values()]

    @property
    def set_aside(self) -> Sequence[str]:
        """Returns the tools whose effect is beyond what the agent may do."""
        return sorted(self._refused)

    async def use(self, name: str, arguments: dict[str, Json]) -> str:
        """Calls a tool; returns its result, or its failure, as fenced data."""
        spec, source = self._tools[name]
        flaw = _flaw(spec, arguments)
        if flaw:
            return self._fenced(name, arguments, f"the arguments do not fit: {flaw}", failed=True)
        self._call.progress(f"{name} {_short(arguments)}")
        try:
            result = await self._call_tool(spec, source, arguments)
        except InputNeeded as need:
            raise self._question(need, name, arguments) from need
        except (Stop, Unsure):
            raise
        except OutcomeUnknown as lost:
            return self._failed_call(spec, arguments, str(lost))
        except PlansmithError as error:
            return self._fenced(name, arguments, str(error), failed=True)
        except TimeoutError:
            return self._failed_call(spec, arguments, "it took too long")
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its failure
            return self._failed_call(spec, arguments, f"{type(error).__name__}: {error}")
        self.evidence.add(arguments, result)
        return self._fenced(name, arguments, result)

    def _failed_call(self, spec: ToolSpec, arguments: dict[str, Json], why: str) -> str:
        """Ends the task after a call that may have taken effect, unless it is safe to repeat."""
        if spec.effect is not Effect.READ and not spec.idempotent:
            raise Unsure(f"it is unknown whether {spec.name} took effect: {why}")
        return self._fenced(spec.name, arguments, why, failed=True)

    async def _call_tool(
        self, spec: ToolSpec, source: ToolSource, arguments: dict[str, Json]
    ) -> Json:
        key = content_hash([spec.name, arguments])
        if key in self._done and not spec.idempotent:
            return self._done[key]["result"]
        reply, inner = self._reply.get(key), f"{self._call.key}/{key[:16]}"
        async with asyncio.timeout(spec.timeout_s or DEFAULT_TIMEOUT_S):
            call = replace(self._call, key=inner, reply=reply)
            result = await source.call(spec.name, arguments, call)
        # An answer is for one question: the same one, asked again, is put to the person again.
        self._reply.pop(key, None)
        if spec.effect is not Effect.READ:
            made: dict[str, Json] = {"tool": spec.name, "arguments": arguments, "result": result}
            self._done[key] = made
        return result

    def _fenced(self, name: str, arguments: Json, result: Json, *, failed: bool = False) -> str:
        self._circles.note(name, arguments, result)
        text = result if isinstance(result, str) else json_text(result)
        shown = cut_with_note(text, self._limits.result_chars)
        return fence(f"{name} failed" if failed else f"result of {name}", shown)

    def _question(self, need: InputNeeded, name: str, arguments: Json) -> InputNeeded:
        """Makes the tool's question, with what is needed to continue the call later."""
        if len(self.answers) >= MOST_QUESTIONS:
            raise Stop(f"{self._agent} asks more than {MOST_QUESTIONS} questions")
        state: Json = {
            "kind": _ASKED,
            "tool": name,
            "arguments": arguments,
            "state": cast("Json", need.state),
            "question": need.message,
            "done": list(self._done.values()),
            "answers": [[asked, answer] for asked, answer in self.answers],
        }
        return InputNeeded(
            f"{self._agent}: {need.message}",
            schema=need.schema,
            options=need.options,
            state=state,
            link=need.link,
        )


class Stop(ToolFailed):
    """Raised by a tool when the whole task has failed, not only this call."""


class Unsure(OutcomeUnknown):
    """A call that changes something failed, and whether it took effect is unknown."""


def _from_reply(reply: Reply | None) -> tuple[dict[str, Reply], dict[str, dict[str, Json]]]:
    """Returns the answer for the call that asked, and the changes made before it."""
    if reply is None or not isinstance(reply.state, dict) or reply.state.get("kind") != _ASKED:
        return {}, {}
    asked = cast("dict[str, Any]", reply.state)
    done = {content_hash([each["tool"], each["arguments"]]): each for each in asked["done"]}
    key = content_hash([asked["tool"], asked["arguments"]])
    return {key: Reply(reply.answer, asked["state"])}, done


def _earlier_answers(reply: Reply | None) -> list[tuple[str, Json]]:
    """Returns what the person was asked in this task and answered, the newest last."""
    if reply is None or not isinstance(reply.state, dict):
        return []
    state = cast("dict[str, Any]", reply.state)
    known = [(str(asked), answer) for asked, answer in state.get("answers", [])]
    return [*known, (str(state.get("question", "")), reply.answer)]


def _flaw(spec: ToolSpec, arguments: dict[str, Json]) -> str:
    # A schema that cannot be understood is left to the tool.
    with suppress(BadSchema):
        first = next(iter(validator(spec.input_schema).iter_errors(arguments)), None)
        return "" if first is None else first.message
    return ""


def cut_with_note(text: str, most: int) -> str:
    """Cuts a text for a model, and says how much is left out."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n[… {left:,} more characters left out …]"


def _short(arguments: Mapping[str, Json]) -> str:
    text = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return clip(" ".join(text.split()), 120)
