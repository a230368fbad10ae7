"""A task that runs beside a block."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running_task(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run a task for as long as the block lasts, then cancel it.

    An error of the task cancels the block and is raised in an ExceptionGroup.
    """
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work, name=name)
        try:
            yield
        finally:
            task.cancel()
