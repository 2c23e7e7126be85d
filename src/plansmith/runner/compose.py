"""Compose: a reply's text, worded by a model from recorded results, or plainly without one."""

from __future__ import annotations

from pathlib import Path

from plansmith.errors import ModelFailed, ToolBusy, ToolFailed
from plansmith.planner.briefing.fence import fence
from plansmith.planner.listen import listen
from plansmith.planner.prompting import render
from plansmith.ports import Call, ChatModel, Message


class Composer:
    """Words replies; without a model a reply is its instruction with the results filled in."""

    def __init__(
        self, model: ChatModel | None, *, locale: str = "en", prompts: Path | None = None
    ) -> None:
        self._model = model
        self._locale = locale
        self._prompts = prompts

    async def __call__(self, instruction: str, call: Call) -> str:
        """The text of one reply."""
        if self._model is None:
            return instruction
        text = render(
            "reply",
            folder=self._prompts,
            locale=self._locale,
            instruction=fence("what to say, and the results", instruction),
        )
        try:
            heard = await listen(self._model.stream([Message("user", text)]))
        except ModelFailed as failure:
            raise ToolFailed(f"the answer could not be worded: {failure}") from failure
        call.spend(heard.usage)
        if not heard.text.strip():
            raise ToolBusy("the model said nothing")
        return heard.text.strip()
