"""ValueCell's questions to the person: one that waits, and those of all conversations."""

from __future__ import annotations

import asyncio


class UserInputRequest:
    """A question to the person, with a way to wait for the answer."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.response: str | None = None
        self.event = asyncio.Event()

    async def wait_for_response(self) -> str:
        """Waits for the answer and returns it."""
        await self.event.wait()
        return self.response or ""

    def provide_response(self, response: str) -> None:
        """Sets the answer and wakes whoever waits for it."""
        self.response = response
        self.event.set()


class UserInputRegistry:
    """The open questions by conversation; the journal stores them too."""

    def __init__(self) -> None:
        self._pending: dict[str, UserInputRequest] = {}

    def add_request(self, conversation_id: str, request: UserInputRequest) -> None:
        """Adds a question."""
        self._pending[conversation_id] = request

    def has_request(self, conversation_id: str) -> bool:
        """Whether a conversation waits for an answer."""
        return conversation_id in self._pending

    def get_prompt(self, conversation_id: str) -> str | None:
        """Returns the open question of a conversation."""
        request = self._pending.get(conversation_id)
        return request.prompt if request else None

    def provide_response(self, conversation_id: str, response: str) -> bool:
        """Answers a question; false if none is open, also for a second answer."""
        request = self._pending.pop(conversation_id, None)
        if request is None:
            return False
        request.provide_response(response)
        return True

    def clear(self, conversation_id: str) -> None:
        """Removes a question here; it stays open in the journal."""
        self._pending.pop(conversation_id, None)
