"""Runs the probes that features desire, and publishes the health of their targets as facts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from math import inf
from typing import Protocol

from hanse.kube.clock import Clock
from hanse.model.addresses import possible_targets, reached_addresses
from hanse.model.plan import Key
from hanse.model.probes import Probe, ProbeSource, ProbeTarget, TargetHealth
from hanse.model.snapshot import Change
from hanse.providers.probe_sockets import UNREACHED
from hanse.runtime.informers import ClusterInformers

START_INTERVAL = 0.001
"""Seconds between the first probes of two targets, so that ten thousand do not start at once."""
JITTER = 0.05
"""The part of an interval by which a probe may be early, so that probers do not keep step."""
FORBIDDEN_TTL = 10.0
"""Seconds for which the forbidden addresses are cached."""

_METADATA = frozenset({"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"})
"""Metadata services of clouds."""


log = logging.getLogger(__name__)


@contextmanager
def _guarded(what: str) -> Iterator[None]:
    """Log what a source raises for a key or a change: one object must not end all probes."""
    try:
        yield
    except Exception:  # the boundary of a key, and of a change
        log.exception("probes not found", extra={"of": what})


class ProbeFunction(Protocol):
    """Probes a target once; calls `done` once, with the failure or an empty string."""

    def __call__(self, target: ProbeTarget, timeout: float, done: Callable[[str], None], /) -> None:
        """Start a probe without waiting; `done` gets its failure, or an empty text for success.

        It is called once at most: a probe that could not be sent has no result.
        """
        ...


class _TargetState:
    """One target: the results of its probes, and the timer of the next one."""

    def __init__(self, probe: Probe, known: TargetHealth | None) -> None:
        """A target that is not probed yet; it is up or down as `known`, if anything is."""
        self.probe = probe
        """The probe of its owners with the shortest interval."""
        self.owners: dict[tuple[int, Key], Probe] = {}
        self.up: bool | None = known.up if known is not None else None
        self.streak = 0
        self.unreached = False
        """Whether the last probe had no answer at all."""
        self._last: bool | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.next_probe = inf
        """When the timer is due, in the time of the event loop."""

    def schedule(self, when: float, send: Callable[["_TargetState"], None]) -> None:
        """Have `send` called with this target at `when`, a time of the loop, and at no other."""
        self.stop()
        self.next_probe = when
        self._timer = asyncio.get_running_loop().call_at(when, send, self)

    def stop(self) -> None:
        """Cancel the timer of the next probe, if any; a probe that runs goes on."""
        if self._timer is not None:
            self._timer.cancel()

    def record(self, success: bool) -> bool:
        """Count a result; whether enough in a row, by the rule, differ from the health so far.

        A target without health differs from any result. The health itself is not changed.
        """
        if success != self._last:
            self._last, self.streak = success, 0
        self.streak += 1
        needed = self.probe.rule.up if success else self.probe.rule.down
        return self.up != success and self.streak >= needed


class Prober:
    """Runs the probes of an agent or a name server, and publishes the health of targets.

    A prober that reaches none of several targets any more distrusts itself: the health of all of
    them stays as it is until one answers, be it with an error.
    """

    def __init__(
        self,
        informers: ClusterInformers,
        sources: Sequence[ProbeSource],
        probe: ProbeFunction,
        *,
        clock: Clock,
        loopback: bool = False,
        active: Callable[[], bool] = lambda: True,
        known: Iterable[TargetHealth] = (),
        jitter: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`known` is the health from before a restart, which stands until probes change it.

        `jitter` is a random number from 0 to 1; without it intervals are exact. Loopback addresses
        are probed only with `loopback`; `active` says whether this replica probes.
        """
        self.probes_sent = 0
        self._informers = informers
        self._sources = dict(enumerate(sources))
        self._added = len(self._sources)
        self._probe = probe
        self._clock = clock
        self._loopback = loopback
        self._is_active = active
        self._jitter = jitter
        self._known = {health.target: health for health in known}
        self._trusted: set[ProbeTarget] = set()
        """The targets that are not down."""
        self._unreached: set[ProbeTarget] = set()
        """Those of them whose last probe had no answer."""
        self._targets: dict[ProbeTarget, _TargetState] = {}
        self._desired: dict[tuple[int, Key], tuple[Probe, ...]] = {}
        self._next_start = 0.0
        self._forbidden: frozenset[str] = frozenset()
        self._forbidden_until = 0.0
        self._running = False

    def __len__(self) -> int:
        """The number of targets."""
        return len(self._targets)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Probe while active, until the block ends; then the health of all targets is dropped.

        The caller has to pass every change to `on_change`, and call `resync` when `active` changes.
        """
        self._running = True
        self.resync()
        try:
            yield
        finally:
            self._running = False
            self._drop_all()

    def resync(self) -> None:
        """If running, start the probes of all sources while active, else drop all targets.

        Targets that a source no longer desires stay: `on_change` drops those.
        """
        if not self._running:
            return
        if not self._is_active():
            self._drop_all()
            return
        for number in self._sources:
            self._start_source(number)

    @contextmanager
    def probing_for(self, source: ProbeSource) -> Iterator[None]:
        """Probe also for another source until the block ends.

        Then the targets that no other source desires are dropped.
        """
        number = self._added = self._added + 1
        self._sources[number] = source
        if self._running and self._is_active():
            self._start_source(number)
        try:
            yield
        finally:
            del self._sources[number]
            for owner in [owner for owner in self._desired if owner[0] == number]:
                for probe in self._desired.pop(owner):
                    self._remove_owner(probe.target, owner)

    def _start_source(self, number: int) -> None:
        """Start the probes of all keys of a source; those that are running are kept."""
        with _guarded("all keys"):
            for key in list(self._sources[number].probe_keys(self._informers.snapshot())):
                self._update_key(number, key)

    def on_change(self, change: Change) -> None:
        """Update the probes of the keys that a change concerns, if running and active."""
        if not self._running or not self._is_active():
            return
        snapshot = self._informers.snapshot()
        for number, source in self._sources.items():
            with _guarded("change"):
                for key in list(source.probe_keys_for(change, snapshot)):
                    self._update_key(number, key)

    def _update_key(self, source: int, key: Key) -> None:
        """Ask a source for a key's probes; nothing if they are the same as before.

        Start the new targets and drop those without an owner.
        """
        owner = (source, key)
        before = desired = self._desired.get(owner, ())
        with _guarded(str(key)):
            desired = tuple(self._sources[source].probes(key, self._informers.snapshot()))
        if desired == before:
            return
        if desired:
            self._desired[owner] = desired
        else:
            self._desired.pop(owner, None)
        for probe in desired:
            self._add_target(probe, owner)
        kept = {probe.target for probe in desired}
        for probe in before:
            if probe.target not in kept:
                self._remove_owner(probe.target, owner)

    def _add_target(self, probe: Probe, owner: tuple[int, Key]) -> None:
        """Add an owner to a target, which is probed by the most frequent probe of its owners.

        A new target has its last known health, if any, and starts at the next free start time. A
        shorter interval holds at once, not after the longer one before.
        """
        loop = asyncio.get_running_loop()
        state = self._targets.get(probe.target)
        if state is None:
            known = self._known.pop(probe.target, None)
            state = self._targets[probe.target] = _TargetState(probe, known)
            if known is not None:
                self._informers.put_fact(known)
            if state.up is not False:
                self._trusted.add(probe.target)
            self._next_start = max(loop.time(), self._next_start + START_INTERVAL)
            state.schedule(self._next_start, self._send_probe)
        state.owners[owner] = probe
        state.probe = _most_frequent(state.owners.values())
        latest = loop.time() + state.probe.rule.interval.total_seconds()
        if state.next_probe > latest:
            state.schedule(latest, self._send_probe)

    def _remove_owner(self, target: ProbeTarget, owner: tuple[int, Key]) -> None:
        """Remove an owner from a target.

        Without owners the target is dropped with its health fact.
        """
        state = self._targets.get(target)
        if state is None:
            return
        state.owners.pop(owner, None)
        if state.owners:
            state.probe = _most_frequent(state.owners.values())
        else:
            self._drop_target(state)

    def _drop_target(self, state: _TargetState) -> None:
        """Stop probing a target and drop its `TargetHealth` fact."""
        target = state.probe.target
        state.stop()
        self._targets.pop(target, None)
        self._trusted.discard(target)
        self._unreached.discard(target)
        self._informers.drop_fact(TargetHealth, target)

    def _drop_all(self) -> None:
        """Stop all probes, and drop the health of all targets."""
        self._desired.clear()
        for state in list(self._targets.values()):
            self._drop_target(state)

    def _send_probe(self, state: _TargetState) -> None:
        """Probe a target and set the timer for its next probe; the timeout is at most the interval.

        A forbidden target is not probed: it is published as down with the reason.
        """
        loop = asyncio.get_running_loop()
        rule, target = state.probe.rule, state.probe.target
        delay = rule.interval.total_seconds() * (1 - JITTER * self._jitter())
        state.schedule(loop.time() + delay, self._send_probe)
        refusal = forbidden_reason(
            target, self._forbidden_addresses(loop.time()), loopback=self._loopback
        )
        if refusal:
            self._publish_health(state, False, refusal)
            return
        self.probes_sent += 1
        timeout = min(rule.timeout, rule.interval).total_seconds()
        self._probe(target, timeout, lambda failure: self._on_result(state, failure))

    def _on_result(self, state: _TargetState, failure: str) -> None:
        """Record a result, and publish the health if enough in a row, by the rule, differ from it.

        Ignored for a dropped target; while this prober is `isolated`, a failure is not published.
        """
        target = state.probe.target
        if self._targets.get(target) is not state:
            return  # it is no longer desired
        if failure in UNREACHED and target in self._trusted:
            self._unreached.add(target)
        else:
            self._unreached.discard(target)
        if state.record(not failure) and not (failure and self.isolated):
            self._publish_health(state, not failure, failure)

    @property
    def isolated(self) -> bool:
        """Whether the last probes of all targets that are not down, at least two, had no answer."""
        return len(self._trusted) > 1 and len(self._unreached) == len(self._trusted)

    def _publish_health(self, state: _TargetState, up: bool, reason: str) -> None:
        """Set a target's state, and put its fact if `up` or the reason differs from the known one.

        `since` stays while `up` stays the same. Only targets that are not down count for whether
        this prober is isolated.
        """
        state.up = up
        target = state.probe.target
        if up:
            self._trusted.add(target)
        else:
            self._trusted.discard(target)
            self._unreached.discard(target)
        known = self._informers.facts.get(TargetHealth, target)
        if known is None or (known.up, known.reason) != (up, reason):
            since = known.since if known is not None and known.up == up else self._clock.now()
            message = f"{target}: {reason}" if reason else ""
            was_up = known is not None and (known.up or known.was_up)
            self._informers.put_fact(TargetHealth(target, up, since, message, was_up and not up))

    def _forbidden_addresses(self, now: float) -> frozenset[str]:
        """The addresses that any source forbids to probe, computed again after FORBIDDEN_TTL."""
        if now >= self._forbidden_until:
            snapshot = self._informers.snapshot()
            several: Iterable[frozenset[str]] = (
                source.forbidden(snapshot) for source in self._sources.values()
            )
            self._forbidden = frozenset().union(*several)
            self._forbidden_until = now + FORBIDDEN_TTL
        return self._forbidden


def _most_frequent(probes: Iterable[Probe]) -> Probe:
    """The probe with the shortest interval.

    Of equal ones that with the shortest timeout, then that which needs the fewest failures, and
    then successes, in a row.
    """
    return min(probes, key=lambda p: (p.rule.interval, p.rule.timeout, p.rule.down, p.rule.up))


def forbidden_reason(target: ProbeTarget, forbidden: frozenset[str], *, loopback: bool) -> str:
    """Why an address must not be probed; empty if it may.

    It is no IP address, an API server's (`forbidden`), link-local, of no single machine, or
    loopback without `loopback`. NAT64, 6to4, Teredo, ISATAP and mapped addresses are judged by the
    IPv4 address that they lead to, and API servers and metadata services are found behind any
    prefix.
    """
    try:
        found: IPv4Address | IPv6Address = ip_address(target.address)
    except ValueError:
        return f"{target.address!r} is no IP address"
    targets = possible_targets(found)
    if any(str(target) in forbidden for target in targets):
        return "it is an API server's address, which is never tried"
    if any(str(target) in _METADATA for target in targets):
        return "it is a link-local address, which is never tried"
    reached = reached_addresses(found)
    if any(address.is_link_local for address in reached):
        return "it is a link-local address, which is never tried"
    if any(address.is_multicast or address.is_unspecified for address in reached):
        return "it is no address of one machine"
    if any(address.is_loopback for address in reached) and not loopback:
        return "it is a loopback address, which is tried in a local federation alone"
    return ""
