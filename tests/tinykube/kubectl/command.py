"""Runs kubectl and reads its output."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE = 30


class Kubectl:
    """One kubectl program at one cluster, with a home folder of its own."""

    def __init__(
        self, program: Path, folder: Path, server: str, environment: dict[str, str]
    ) -> None:
        self.folder = folder
        self.server = server
        self._program = program
        self._environment = environment | {
            "HOME": str(folder),
            "KUBECONFIG": str(folder / "kubeconfig"),
            "KUBECACHEDIR": str(folder / "cache"),
            "GOGC": "off",  # it ends before a garbage collection is worth it
        }

    async def __call__(self, *arguments: str, stdin: Any = None, **environment: str) -> str:
        """The output of a command that succeeds; `stdin` is an object or text."""
        code, output, errors = await self._run(arguments, stdin, environment)
        assert code == 0, f"kubectl {' '.join(arguments)} failed:\n{output}{errors}"
        return output

    async def fails(self, *arguments: str, stdin: Any = None) -> str:
        """The error output of a command that fails."""
        code, output, errors = await self._run(arguments, stdin, {})
        assert code != 0, f"kubectl {' '.join(arguments)} succeeded:\n{output}"
        return errors

    async def warns(self, *arguments: str, stdin: Any = None) -> str:
        """The error output of a command that succeeds."""
        code, output, errors = await self._run(arguments, stdin, {})
        assert code == 0, f"kubectl {' '.join(arguments)} failed:\n{output}{errors}"
        return errors

    async def read(self, *arguments: str) -> Any:
        """The object or list it gets."""
        return json.loads(await self("get", *arguments, "-o", "json"))

    async def rows(self, *arguments: str) -> list[list[str]]:
        """The words of each line of the table it prints, the header first."""
        return [line.split() for line in (await self("get", *arguments)).splitlines()]

    @asynccontextmanager
    async def streaming(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        """The output of a command that is killed when the block ends."""
        running = await self._start(arguments, {})
        assert running.stdout is not None
        try:
            yield running.stdout
        finally:
            with suppress(ProcessLookupError):
                running.kill()
            await running.communicate()

    async def _run(
        self, arguments: tuple[str, ...], stdin: Any, environment: dict[str, str]
    ) -> tuple[int, str, str]:
        running = await self._start(arguments, environment)
        text = stdin if isinstance(stdin, str) else json.dumps(stdin) if stdin else ""
        try:
            async with asyncio.timeout(PATIENCE):
                output, errors = await running.communicate(text.encode())
        except BaseException:
            running.kill()
            await running.communicate()
            raise
        assert running.returncode is not None
        return running.returncode, output.decode(), errors.decode()

    async def _start(
        self, arguments: tuple[str, ...], environment: dict[str, str]
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            self._program,
            *arguments,
            env=self._environment | environment,
            cwd=self.folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
