"""Tries what features want tried, again and again, and tells as facts what the tries decide."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

from hanse.kube.clock import Clock
from hanse.model.plan import Key
from hanse.model.probes import Probe, ProbeSource, ProbeTarget, TargetHealth
from hanse.model.snapshot import Change
from hanse.runtime.reconciler import Reconciler

PACE = 0.001
"""Seconds between two first tries, so that ten thousand of them do not come at once."""
LOOK_AGAIN = 10.0
"""Seconds for which it is remembered which addresses are not to be tried."""

_METADATA = frozenset({"fd00:ec2::254", "100.100.100.200", "168.63.129.16"})
"""Where clouds tell machines their secrets, beside link-local addresses."""


class ProbeFunction(Protocol):
    """Tries a target once; `done` is called once, with nothing or with what went wrong."""

    def __call__(
        self, target: ProbeTarget, timeout: float, done: Callable[[str], None], /
    ) -> None: ...


class _Watched:
    """One target: what its tries have come to, and when it is tried next."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.wanted_by: set[tuple[str, Key]] = set()
        self.up: bool | None = None
        self.streak = 0
        self._last: bool | None = None
        self.timer: asyncio.TimerHandle | None = None

    def judge(self, good: bool) -> bool:
        """Take a result in; whether that many in a row decide something new."""
        if good != self._last:
            self._last, self.streak = good, 0
        self.streak += 1
        needed = self.probe.rule.up if good else self.probe.rule.down
        if self.up == good or self.streak < needed:
            return False
        self.up = good
        return True


class Prober:
    """All probes of one agent. Only the replica that works tries anything."""

    def __init__(
        self,
        reconciler: Reconciler,
        sources: Sequence[ProbeSource],
        attempt: ProbeFunction,
        *,
        clock: Clock,
        loopback: bool = False,
    ) -> None:
        self.tries = 0
        self._reconciler = reconciler
        self._sources = {source.name: source for source in sources}
        self._attempt = attempt
        self._clock = clock
        self._loopback = loopback
        self._watched: dict[ProbeTarget, _Watched] = {}
        self._wants: dict[tuple[str, Key], tuple[Probe, ...]] = {}
        self._next_start = 0.0
        self._forbidden: frozenset[str] = frozenset()
        self._forbidden_until = 0.0
        self._running = False

    def __len__(self) -> int:
        return len(self._watched)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Try, while the engine is active, until the block ends."""
        self._reconciler.event_handlers.append(self.on_change)
        self._running = True
        self.look_again()
        try:
            yield
        finally:
            self._running = False
            self._reconciler.event_handlers.remove(self.on_change)
            self._drop_all()

    def look_again(self) -> None:
        """Whether this replica works has changed: begin with everything, or stop."""
        if not self._running:
            return
        if not self._reconciler.active:
            self._drop_all()
            return
        seen = self._reconciler.snapshot()
        for name, source in self._sources.items():
            for key in list(source.probe_keys(seen)):
                self._consider(name, key)

    def on_change(self, change: Change) -> None:
        """Note what a change makes worth trying, or no longer worth it."""
        if not self._reconciler.active:
            return
        seen = self._reconciler.snapshot()
        for name, source in self._sources.items():
            for key in list(source.probe_keys_for(change, seen)):
                self._consider(name, key)

    def _consider(self, name: str, key: Key) -> None:
        whose = (name, key)
        wanted = tuple(self._sources[name].probes(key, self._reconciler.snapshot()))
        before = self._wants.get(whose, ())
        if wanted == before:
            return
        if wanted:
            self._wants[whose] = wanted
        else:
            self._wants.pop(whose, None)
        for probe in wanted:
            self._want(probe, whose)
        kept = {probe.target for probe in wanted}
        for probe in before:
            if probe.target not in kept:
                self._unwant(probe.target, whose)

    def _want(self, probe: Probe, whose: tuple[str, Key]) -> None:
        watched = self._watched.get(probe.target)
        if watched is None:
            watched = self._watched[probe.target] = _Watched(probe)
            loop = asyncio.get_running_loop()
            self._next_start = max(loop.time(), self._next_start + PACE)
            watched.timer = loop.call_at(self._next_start, self._try, watched)
        watched.probe = probe
        watched.wanted_by.add(whose)

    def _unwant(self, target: ProbeTarget, whose: tuple[str, Key]) -> None:
        watched = self._watched.get(target)
        if watched is None:
            return
        watched.wanted_by.discard(whose)
        if not watched.wanted_by:
            self._drop(watched)

    def _drop(self, watched: _Watched) -> None:
        target = watched.probe.target
        if watched.timer is not None:
            watched.timer.cancel()
        self._watched.pop(target, None)
        self._reconciler.informers.drop_fact(TargetHealth, target)

    def _drop_all(self) -> None:
        self._wants.clear()
        for watched in list(self._watched.values()):
            self._drop(watched)

    def _try(self, watched: _Watched) -> None:
        loop = asyncio.get_running_loop()
        rule, target = watched.probe.rule, watched.probe.target
        watched.timer = loop.call_later(rule.interval.total_seconds(), self._try, watched)
        refusal = refused(target, self._not_to_be_tried(loop.time()), loopback=self._loopback)
        if refusal:
            self._tell(watched, False, refusal)
            return
        self.tries += 1
        timeout = min(rule.timeout, rule.interval).total_seconds()
        self._attempt(target, timeout, lambda wrong: self._judge(watched, wrong))

    def _judge(self, watched: _Watched, wrong: str) -> None:
        if self._watched.get(watched.probe.target) is not watched:
            return  # it is no longer wanted
        if watched.judge(not wrong):
            self._tell(watched, not wrong, wrong)

    def _tell(self, watched: _Watched, up: bool, reason: str) -> None:
        watched.up = up
        known = self._reconciler.informers.facts.get(TargetHealth, watched.probe.target)
        if known is None or (known.up, known.reason) != (up, reason):
            since = known.since if known is not None and known.up == up else self._clock.now()
            told = f"{watched.probe.target}: {reason}" if reason else ""
            self._reconciler.informers.put_fact(TargetHealth(watched.probe.target, up, since, told))

    def _not_to_be_tried(self, now: float) -> frozenset[str]:
        if now >= self._forbidden_until:
            seen = self._reconciler.snapshot()
            several: Iterable[frozenset[str]] = (
                source.forbidden(seen) for source in self._sources.values()
            )
            self._forbidden = frozenset().union(*several)
            self._forbidden_until = now + LOOK_AGAIN
        return self._forbidden


def refused(target: ProbeTarget, forbidden: frozenset[str], *, loopback: bool) -> str:
    """Why an address must not be tried; empty where it may be."""
    try:
        found: IPv4Address | IPv6Address = ip_address(target.address)
    except ValueError:
        return f"{target.address!r} is no IP address"
    inner = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    address = inner or found
    if str(address) in forbidden:
        return "it is an API server's address, which is never tried"
    if address.is_link_local or str(address) in _METADATA:
        return "it is a link-local address, which is never tried"
    if address.is_multicast or address.is_unspecified:
        return "it is no address of one machine"
    if address.is_loopback and not loopback:
        return "it is a loopback address, which is tried in a local federation alone"
    return ""
