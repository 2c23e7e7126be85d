"""ValueCell's task manager: tasks that a program keeps itself, with the rules of their status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from plansmith_compat.valuecell.models import Task, TaskStatus


class TaskStore(Protocol):
    """Where a task manager keeps its tasks; `list_tasks` returns those that fit, oldest first."""

    async def save_task(self, task: Task, /) -> None: ...
    async def load_task(self, task_id: str, /) -> Task | None: ...
    async def list_tasks(
        self,
        conversation_id: str | None = None,
        user_id: str | None = None,
        status: TaskStatus | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Task]: ...
    async def delete_task(self, task_id: str, /) -> bool: ...
    async def task_exists(self, task_id: str, /) -> bool: ...


class InMemoryTaskStore:
    """Keeps tasks in this process; those of plans are in Plansmith's own store."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    async def save_task(self, task: Task) -> None:
        self._tasks[task.task_id] = task

    async def load_task(self, task_id: str) -> Task | None:
        return self._tasks.get(task_id)

    async def list_tasks(
        self,
        conversation_id: str | None = None,
        user_id: str | None = None,
        status: TaskStatus | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Task]:
        found = [
            task
            for task in self._tasks.values()
            if conversation_id in (None, task.conversation_id)
            and user_id in (None, task.user_id)
            and status in (None, task.status)
        ]
        return found[offset:] if limit is None else found[offset : offset + limit]

    async def delete_task(self, task_id: str) -> bool:
        return self._tasks.pop(task_id, None) is not None

    async def task_exists(self, task_id: str) -> bool:
        return task_id in self._tasks


class TaskManager:
    """Changes the status of tasks; what is not possible is refused with False."""

    def __init__(self, store: TaskStore | None = None) -> None:
        self._store = store or InMemoryTaskStore()
        self._lock = asyncio.Lock()

    async def update_task(self, task: Task) -> None:
        async with self._lock:
            task.updated_at = datetime.now(UTC)
            await self._store.save_task(task)

    async def get_task(self, task_id: str) -> Task | None:
        return await self._store.load_task(task_id)

    # The name of earlier releases of ValueCell.
    _get_task = get_task

    async def start_task(self, task_id: str) -> bool:
        return await self._change(task_id, lambda task: task.start())

    async def complete_task(self, task_id: str) -> bool:
        return await self._change(task_id, lambda task: task.complete())

    async def fail_task(self, task_id: str, error_message: str) -> bool:
        return await self._change(task_id, lambda task: task.fail(error_message))

    async def cancel_task(self, task_id: str) -> bool:
        """Cancels a task; a finished one stays as it is. False if there is no such task."""
        await self._change(task_id, lambda task: task.cancel())
        return await self._store.task_exists(task_id)

    async def cancel_conversation_tasks(self, conversation_id: str) -> int:
        """Cancels all tasks of a conversation that are not finished; returns how many."""
        tasks = await self._store.list_tasks(conversation_id=conversation_id)
        left = [task.task_id for task in tasks if not task.is_finished()]
        return sum([await self.cancel_task(each) for each in left])

    async def _change(self, task_id: str, change: Callable[[Task], bool]) -> bool:
        async with self._lock:
            task = await self._store.load_task(task_id)
            if task is None or not change(task):
                return False
            await self._store.save_task(task)
            return True


class TaskService:
    """The same for the other services of a program."""

    def __init__(self, manager: TaskManager | None = None) -> None:
        self.manager = manager or TaskManager()

    async def update_task(self, task: Task) -> None:
        await self.manager.update_task(task)

    async def get_task(self, task_id: str) -> Task | None:
        return await self.manager.get_task(task_id)

    async def start_task(self, task_id: str) -> bool:
        return await self.manager.start_task(task_id)

    async def complete_task(self, task_id: str) -> bool:
        return await self.manager.complete_task(task_id)

    async def fail_task(self, task_id: str, reason: str) -> bool:
        return await self.manager.fail_task(task_id, reason)

    async def cancel_task(self, task_id: str) -> bool:
        return await self.manager.cancel_task(task_id)

    async def cancel_conversation_tasks(self, conversation_id: str) -> int:
        return await self.manager.cancel_conversation_tasks(conversation_id)
