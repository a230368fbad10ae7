"""Maps kinds to the versions that one API server serves, as found by discovery."""

import asyncio
from collections.abc import Iterator

from msgspec import Struct

from hanse.model.objects import Kind, Object


class ServedKinds(Struct, frozen=True):
    """All kinds that a server serves, in each served version."""

    kinds: frozenset[Kind] = frozenset()

    def resolve(self, kind: type[Object]) -> Kind | None:
        """The kind in its own version if served, else in the first served fallback, else None."""
        for wanted in _kind_versions(kind):
            if wanted in self.kinds:
                return wanted
        return None


def _kind_versions(kind: type[Object]) -> Iterator[Kind]:
    """The kind in its own version first, then in each fallback version."""
    own = kind.kind
    yield own
    for version in kind.fallback_versions:
        yield Kind(own.group, version, own.name, own.plural, own.namespaced)


class Notifier:
    """Wakes all waiting tasks each time `notify` is called."""

    def __init__(self) -> None:
        """Nothing is notified yet: the counter `notified` is 0."""
        self.notified = 0
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Count a notification and wake everybody who waits for one."""
        self.notified += 1
        self._next.set()
        self._next = asyncio.Event()

    async def wait_for_change(self, notified: int) -> None:
        """Wait until the count of notifications differs from this one; at once if it does."""
        while self.notified == notified:
            await self._next.wait()


class RestMapper:
    """The served kinds as last discovered; `changed` notifies when they change."""

    def __init__(self) -> None:
        """Nothing is discovered yet: `served` is None."""
        self.served: ServedKinds | None = None
        self.changed = Notifier()
        self.follows_definitions = False
        """Whether discovery is repeated after every change of a CRD."""

    def update(self, served: ServedKinds) -> None:
        """Replace the served kinds by what discovery found; notifies `changed` if they differ."""
        if served != self.served:
            self.served = served
            self.changed.notify()

    def served_kind(self, kind: type[Object]) -> Kind:
        """The kind in the version to request: its own if served, else the first served fallback.

        Its own version if discovery did not find the kind, or has not run yet.
        """
        found = self.served.resolve(kind) if self.served is not None else None
        return found or kind.kind

    def knows(self, kind: type[Object]) -> bool:
        """Whether discovery found a kind, in its own version or a fallback."""
        return self.served is not None and self.served.resolve(kind) is not None

    def rules_out(self, kind: type[Object]) -> bool:
        """Whether CRDs are followed and a kind was not found: `changed` notifies once it is."""
        return self.follows_definitions and not self.knows(kind)
