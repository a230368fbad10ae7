"""Which versions of which kinds one API server serves, as far as it was asked."""

import asyncio
from collections.abc import Iterator

from msgspec import Struct

from hanse.model.objects import Kind, Object


class ServedKinds(Struct, frozen=True):
    """Every kind that a server serves, in each of its versions."""

    kinds: frozenset[Kind] = frozenset()

    def version_of(self, kind: type[Object]) -> Kind | None:
        """The kind in its own version if served, else in the first served fallback version."""
        for wanted in _versions(kind):
            if wanted in self.kinds:
                return wanted
        return None


def _versions(kind: type[Object]) -> Iterator[Kind]:
    own = kind.kind
    yield own
    for version in kind.fallback_versions:
        yield Kind(own.group, version, own.name, own.plural, own.namespaced)


class Notifier:
    """Wakes everyone who waits for it, each time it is rung."""

    def __init__(self) -> None:
        self.rung = 0
        self._next = asyncio.Event()

    def ring(self) -> None:
        self.rung += 1
        self._next.set()
        self._next = asyncio.Event()

    async def since(self, rung: int) -> None:
        """Wait until it was rung more often than that."""
        while self.rung == rung:
            await self._next.wait()


class RestMapper:
    """What is known of the served kinds; `changed` rings when that is another answer."""

    def __init__(self) -> None:
        self.known: ServedKinds | None = None
        self.changed = Notifier()

    def learn(self, served: ServedKinds) -> None:
        """Take in what discovery found."""
        if served != self.known:
            self.known = served
            self.changed.ring()

    def served_kind(self, kind: type[Object]) -> Kind:
        """The kind to ask for; what discovery did not find is asked for all the same."""
        found = self.known.version_of(kind) if self.known is not None else None
        return found or kind.kind
