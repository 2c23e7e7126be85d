"""The tools of an agent for one task: checks each call and keeps results to verify citations."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from plansmith import errors
from plansmith.check.schemas import BadSchema, validator
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json, canonical_hash, json_text, leaves
from plansmith.plan.sentence import Sentence
from plansmith.ports import MAX_QUESTIONS, Call, Reply, ToolSource
from plansmith.text import clip
from plansmith_planner.context.fence import fence

_GAP: Final = re.compile(r"(?<!\s)\s*+(?:…|\.\.\.|\[…\]|\[\.\.\.\])\s*")
_QUOTES: Final = str.maketrans("“”„«»‘’‚`", '"""""\'\'\'\'')
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_IN_NAMES: Final = r"[\w/.\-~%?&=]"
_ASKED: Final = "plansmith agent asked"


class Evidence:
    """The results of all calls of one task, against which citations are checked."""

    def __init__(self) -> None:
        # Of each call the texts it can be cited by, and its result, normalized for comparison.
        self._results: list[tuple[str, str]] = []

    def add(self, arguments: Mapping[str, Json], result: Json) -> None:
        names, texts = (
            [str(leaf) for leaf in leaves(value) if leaf is not None]
            for value in (dict(arguments), result)
        )
        self._results.append(("\n".join([*names, *texts]), _plain("\n".join(texts))))

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
                source = cited.get("url") or cited.get("path") or cited.get("title", "")
                notes.append(f"the citation of {source[:200]!r} was dropped: {flaw}")
            elif cited not in kept:
                kept.append(cited)
        return kept, notes

    def _flaw(self, cited: Mapping[str, str]) -> str:
        name = cited.get("url") or cited.get("path")
        if not name:
            return "it names no url and no path"
        # Exactly this name, and not a longer one.
        short = re.escape(name.split("#", 1)[0].rstrip("/") or name)
        whole = re.compile(rf"(?<!{_IN_NAMES}){short}/?[.?]?(?!{_IN_NAMES})")
        results = [result for names, result in self._results if whole.search(names)]
        if not results:
            return "no tool returned it"
        parts = [part.strip('" ') for part in _GAP.split(_plain(cited.get("quote", "")))]
        if not any(all(part in result for part in parts) for result in results):
            return "its quote is not in the result of the tool"
        return ""


def _plain(text: str) -> str:
    """Normalizes a text for comparison: case, spaces and quotation marks."""
    # Letter by letter, so that a part of a text compares like the same part of the whole.
    common = _NOT_ASCII.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    return re.sub(r"\s+", " ", common.translate(_QUOTES).casefold()).strip()


@dataclass(frozen=True, slots=True)
class Choice:
    """Selects the tools that an agent may use, by name, by pattern, or because they search."""

    names: tuple[str, ...] = ()
    searching: bool = False

    def takes(self, spec: ToolSpec) -> bool:
        named = any(fnmatchcase(spec.name, pattern) for pattern in self.names)
        return named or (self.searching and spec.search)


ALL: Final = Choice(("*",))


class Stop(errors.ToolFailed):
    """Raised by a tool when the whole task has failed, not only this call."""


class Unsure(errors.OutcomeUnknown):
    """A call that changes something failed, and whether it took effect is unknown."""


class Toolbox:
    """The tools for one task. A call that changes something is never repeated."""

    def __init__(
        self, agent: str, *, effect: Effect, repeats: int, result_chars: int, call: Call
    ) -> None:
        self._agent = agent
        self._effect = effect
        self._repeats = repeats
        self._result_chars = result_chars
        self._call = call
        self._sources: dict[str, ToolSource] = {}
        self._repeated: Counter[str] = Counter()
        self.specs: dict[str, ToolSpec] = {}
        self.set_aside: set[str] = set()
        self.evidence = Evidence()
        # What a person answered in this task, and what was changed before they were asked.
        self.answers: list[tuple[str, Json]] = []
        self._done: dict[str, dict[str, Json]] = {}
        self._reply: dict[str, Reply] = {}
        if call.reply is None or not isinstance(call.reply.state, dict):
            return
        # The task goes on where a question ended it.
        answer, state = call.reply.answer, cast("dict[str, Any]", call.reply.state)
        self.answers = [(str(question), known) for question, known in state.get("answers", [])]
        self.answers.append((str(state.get("question", "")), answer))
        if state.get("kind") == _ASKED:
            self._done = {_key(each["tool"], each["arguments"]): each for each in state["done"]}
            asking = _key(state["tool"], state["arguments"])
            self._reply = {asking: Reply(answer, state["state"])}

    async def add_source(self, source: ToolSource, choice: Choice) -> None:
        """Adds the selected tools of a source; sets aside those beyond the agent's effect."""
        for spec in filter(choice.takes, await source.tools()):
            if spec.name in self.specs or spec.name in self.set_aside:
                raise errors.Misconfigured(
                    Sentence("two tools are called '{name}'", name=spec.name)
                )
            if spec.effect.rank > self._effect.rank:
                self.set_aside.add(spec.name)
            else:
                self.specs[spec.name], self._sources[spec.name] = spec, source

    @property
    def changes(self) -> list[str]:
        return [str(each["tool"]) for each in self._done.values()]

    async def use(self, name: str, arguments: dict[str, Json]) -> str:
        """Calls a tool; returns its result, or its failure, as fenced data."""
        spec = self.specs[name]
        with suppress(BadSchema):  # what cannot be understood is left to the tool
            flaw = next(iter(validator(spec.input_schema).iter_errors(arguments)), None)
            if flaw is not None:
                why = f"the arguments do not fit: {flaw.message}"
                return self._fenced(name, arguments, why, failed=True)
        text = ", ".join(f"{key}={value}" for key, value in arguments.items())
        self._call.progress(f"{name} {clip(' '.join(text.split()), 120)}")
        try:
            result = await self._call_tool(spec, arguments)
        except errors.InputNeeded as need:
            raise self._question(need, name, arguments) from need
        except (Stop, Unsure):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its failure
            return self._failed(spec, arguments, error)
        self.evidence.add(arguments, result)
        return self._fenced(name, arguments, result)

    def _failed(self, spec: ToolSpec, arguments: dict[str, Json], error: Exception) -> str:
        """Ends the task if the call may have taken effect, unless it is safe to repeat."""
        is_ours = isinstance(error, errors.PlansmithError)
        why = str(error) if is_ours else f"{type(error).__name__}: {error}"
        if isinstance(error, TimeoutError):
            why = "it took too long"
        certain = is_ours and not isinstance(error, errors.OutcomeUnknown)
        if not certain and spec.effect is not Effect.READ and not spec.idempotent:
            raise Unsure(f"it is unknown whether {spec.name} took effect: {why}")
        return self._fenced(spec.name, arguments, why, failed=True)

    async def _call_tool(self, spec: ToolSpec, arguments: dict[str, Json]) -> Json:
        key = _key(spec.name, arguments)
        if key in self._done and not spec.idempotent:
            return self._done[key]["result"]
        call = replace(self._call, key=f"{self._call.key}/{key[:16]}", reply=self._reply.get(key))
        async with asyncio.timeout(spec.timeout_s or 120.0):
            result = await self._sources[spec.name].call(spec.name, arguments, call)
        # An answer is for one question: the same one, asked again, is put to the person again.
        self._reply.pop(key, None)
        if spec.effect is not Effect.READ:
            self._done[key] = {"tool": spec.name, "arguments": arguments, "result": result}
        return result

    def _fenced(self, name: str, arguments: Json, result: Json, *, failed: bool = False) -> str:
        key = canonical_hash([name, arguments, result])
        self._repeated[key] += 1
        if self._repeated[key] >= self._repeats:
            raise errors.ToolFailed(
                Sentence(
                    "{name} repeats itself: it called {tool} {count} times with "
                    "the same arguments and got the same result",
                    name=self._agent,
                    tool=name,
                    count=self._repeats,
                ),
                hint=Sentence("describe the task more precisely, or give the agent another tool"),
            )
        text = result if isinstance(result, str) else json_text(result)
        excerpt = cut_with_note(text, self._result_chars)
        return fence(f"{name} failed" if failed else f"result of {name}", excerpt)

    def _question(self, need: errors.InputNeeded, name: str, arguments: Json) -> errors.InputNeeded:
        """Makes the tool's question, with what is needed to continue the call later."""
        if len(self.answers) >= MAX_QUESTIONS:
            raise Stop(f"{self._agent} asks more than {MAX_QUESTIONS} questions")
        state: Json = {
            "kind": _ASKED,
            "tool": name,
            "arguments": arguments,
            "state": cast("Json", need.state),
            "question": need.message,
            "done": list(self._done.values()),
            "answers": [[question, answer] for question, answer in self.answers],
        }
        return errors.InputNeeded(
            f"{self._agent}: {need.message}",
            schema=need.schema,
            options=need.options,
            state=state,
            link=need.link,
        )


def _key(tool: str, arguments: Json) -> str:
    return canonical_hash([tool, arguments])


def cut_with_note(text: str, most: int) -> str:
    """Cuts a text for a model, and says how much is left out."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n[… {left:,} more characters left out …]"
