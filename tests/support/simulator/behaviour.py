"""What the product does while a schedule is played: a search looks for what is new."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coverage import Coverage

Behaviour = frozenset[object]
"""The branches that a run took, and the messages that it logged."""

SOURCES = [f"*/hanse/{package}/*" for package in ("runtime", "kube", "features", "dns")]


@contextmanager
def observed() -> Iterator[Callable[[], Behaviour]]:
    """Observe what the product does in a block: branches taken and messages logged."""
    messages = _Messages()
    logger = logging.getLogger("hanse")
    coverage = Coverage(data_file=None, config_file=False, branch=True, include=SOURCES)
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(messages)
    coverage.start()
    try:
        yield lambda: frozenset(messages.seen) | _branches(coverage)
    finally:
        coverage.stop()
        logger.removeHandler(messages)
        logger.propagate = propagates


class _Messages(logging.Handler):
    """The constant messages that were logged."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[object] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.add((record.name, record.msg))


def _branches(coverage: Coverage) -> frozenset[object]:
    data = coverage.get_data()
    return frozenset((path, arc) for path in data.measured_files() for arc in data.arcs(path) or ())
