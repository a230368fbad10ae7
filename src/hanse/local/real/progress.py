"""Build progress: live rows on a terminal, plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class BuildReport(Protocol):
    """Shows the progress of a build."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def message(self, text: str) -> None:
        """Show a line that is not about one program."""
        ...

    def started(self, program: str) -> None:
        """Show that the compilation of a program has started."""
        ...

    def compiled(self, program: str, package: str) -> None:
        """Show one more compiled package of a program, or ignore it."""
        ...

    def finished(self, program: str) -> None:
        """Show that a program is built."""
        ...


def report_for(stream: TextIO, total: int) -> BuildReport:
    """A live report for a terminal, a plain one otherwise."""
    return LiveReport(stream, total) if stream.isatty() else PlainReport(stream, total)


class PlainReport:
    """One line when a program starts and one when it is done."""

    def __init__(self, stream: TextIO = sys.stderr, total: int = 0) -> None:
        """Write lines to a stream; `total` programs are to be built."""
        self._stream = stream
        self._total = total
        self._done = 0
        self._since: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """There is nothing to release."""

    def message(self, text: str) -> None:
        """Write a line that is not about one program, and flush the stream."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def started(self, program: str) -> None:
        """Write that the compilation of a program has started, and note the time."""
        self._since[program] = time.monotonic()
        self.message(f"building {program}")

    def compiled(self, program: str, package: str) -> None:
        """Ignore compiled packages: there are too many for a line each."""

    def finished(self, program: str) -> None:
        """Write that a started program is built, how many are, and how long it took."""
        self._done += 1
        took = time.monotonic() - self._since[program]
        self.message(f"[{self._done}/{self._total}] built {program} in {took:.0f} s")


class LiveReport:
    """A row for each program being built: packages so far, the newest one, the time it took."""

    def __init__(self, stream: TextIO, total: int) -> None:
        """A live display on a terminal; `total` programs are to be built."""
        self._total = total
        self._done = 0
        self._rows: dict[str, TaskID] = {}
        self._bar = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[detail]}"),
            console=Console(file=stream),
        )

    def __enter__(self) -> Self:
        """Start the live display."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the live display; errors pass."""
        self._bar.stop()

    def message(self, text: str) -> None:
        """Show a line that is not about one program."""
        self._bar.console.print(text, highlight=False)

    def started(self, program: str) -> None:
        """Add a row for a program whose compilation has started."""
        self._rows[program] = self._bar.add_task(program, total=None, completed=0, detail="")

    def compiled(self, program: str, package: str) -> None:
        """Count one more compiled package of a started program, and show its name in the row."""
        row = self._rows[program]
        self._bar.advance(row)
        count = int(self._bar.tasks[row].completed)
        self._bar.update(row, detail=f"{count} packages, {package}")

    def finished(self, program: str) -> None:
        """Show in its row that a program is built, and how many of the total are."""
        self._done += 1
        self._bar.update(
            self._rows[program], total=1, completed=1, detail=f"{self._done} of {self._total}"
        )
