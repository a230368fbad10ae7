"""Tests of real clusters: on the fleet shared by the whole run, or on small ones.

These tests run only when asked for (`-m real`): the first time, Kubernetes is built, which takes
minutes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import Struct

HERE = "tests/real/"
"""What the ids of these tests start with."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark these tests as `real`, and deselect them in runs without a mark expression."""
    here = [item for item in items if item.nodeid.startswith(HERE)]
    for item in here:
        item.add_marker(pytest.mark.real)
    if not config.option.markexpr:
        config.hook.pytest_deselected(items=here)
        items[:] = [item for item in items if item not in here]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """One event loop for the run, since it watches the fleet's servers."""
    return "asyncio"


class CommandResult(Struct, frozen=True):
    """The exit status and output of a command."""

    status: int
    output: str
    errors: str


Kubectl = Callable[..., Awaitable[CommandResult]]


@pytest.fixture(scope="session")
def kubectl(binaries: dict[str, Path]) -> Kubectl:
    """Run kubectl in one context of a fleet's kubeconfig."""

    async def run(
        kubeconfig: Path, context: str, *arguments: str, stdin: str = ""
    ) -> CommandResult:
        running = await asyncio.create_subprocess_exec(
            binaries["kubectl"],
            f"--kubeconfig={kubeconfig}",
            f"--context={context}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await running.communicate(stdin.encode())
        return CommandResult(running.returncode or 0, output.decode(), errors.decode())

    return run
