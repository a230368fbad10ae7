"""Runs the probes that features desire, and publishes the health of their targets as facts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

from hanse.kube.clock import Clock
from hanse.model.addresses import possible_targets, reached_addresses
from hanse.model.plan import Key
from hanse.model.probes import Probe, ProbeSource, ProbeTarget, TargetHealth
from hanse.model.snapshot import Change
from hanse.runtime.reconciler import Reconciler

START_INTERVAL = 0.001
"""Seconds between the first probes of two targets, so that ten thousand do not start at once."""
FORBIDDEN_TTL = 10.0
"""Seconds for which the forbidden addresses are cached."""

_METADATA = frozenset({"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"})
"""Metadata services of clouds."""


class ProbeFunction(Protocol):
    """Probes a target once; calls `done` once, with the failure or an empty string."""

    def __call__(
        self, target: ProbeTarget, timeout: float, done: Callable[[str], None], /
    ) -> None: ...


class _TargetState:
    """One target: the results of its probes, and the timer of the next one."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.owners: set[tuple[str, Key]] = set()
        self.up: bool | None = None
        self.streak = 0
        self._last: bool | None = None
        self.timer: asyncio.TimerHandle | None = None

    def record(self, success: bool) -> bool:
        """Record a result; returns whether so many in a row change the health."""
        if success != self._last:
            self._last, self.streak = success, 0
        self.streak += 1
        needed = self.probe.rule.up if success else self.probe.rule.down
        if self.up == success or self.streak < needed:
            return False
        self.up = success
        return True


class Prober:
    """Runs all probes of one agent, in its active replica only."""

    def __init__(
        self,
        reconciler: Reconciler,
        sources: Sequence[ProbeSource],
        probe: ProbeFunction,
        *,
        clock: Clock,
        loopback: bool = False,
    ) -> None:
        self.probes_sent = 0
        self._reconciler = reconciler
        self._sources = {source.name: source for source in sources}
        self._probe = probe
        self._clock = clock
        self._loopback = loopback
        self._targets: dict[ProbeTarget, _TargetState] = {}
        self._desired: dict[tuple[str, Key], tuple[Probe, ...]] = {}
        self._next_start = 0.0
        self._forbidden: frozenset[str] = frozenset()
        self._forbidden_until = 0.0
        self._running = False

    def __len__(self) -> int:
        return len(self._targets)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Probe while the reconciler is active, until the block ends."""
        self._reconciler.event_handlers.append(self.on_change)
        self._running = True
        self.resync()
        try:
            yield
        finally:
            self._running = False
            self._reconciler.event_handlers.remove(self.on_change)
            self._drop_all()

    def resync(self) -> None:
        """Start all probes or stop them, when this replica may have become active or inactive."""
        if not self._running:
            return
        if not self._reconciler.active:
            self._drop_all()
            return
        snapshot = self._reconciler.snapshot()
        for name, source in self._sources.items():
            for key in list(source.probe_keys(snapshot)):
                self._update_key(name, key)

    def on_change(self, change: Change) -> None:
        """Update the probes of the keys that a change concerns."""
        if not self._reconciler.active:
            return
        snapshot = self._reconciler.snapshot()
        for name, source in self._sources.items():
            for key in list(source.probe_keys_for(change, snapshot)):
                self._update_key(name, key)

    def _update_key(self, name: str, key: Key) -> None:
        """Ask a source for a key's probes.

        Start the new targets and drop those without an owner.
        """
        owner = (name, key)
        desired = tuple(self._sources[name].probes(key, self._reconciler.snapshot()))
        before = self._desired.get(owner, ())
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

    def _add_target(self, probe: Probe, owner: tuple[str, Key]) -> None:
        """Add an owner to a target and set its probe.

        A new target starts at the next free start time.
        """
        state = self._targets.get(probe.target)
        if state is None:
            state = self._targets[probe.target] = _TargetState(probe)
            loop = asyncio.get_running_loop()
            self._next_start = max(loop.time(), self._next_start + START_INTERVAL)
            state.timer = loop.call_at(self._next_start, self._send_probe, state)
        state.probe = probe
        state.owners.add(owner)

    def _remove_owner(self, target: ProbeTarget, owner: tuple[str, Key]) -> None:
        """Remove an owner from a target.

        Without owners the target is dropped with its health fact.
        """
        state = self._targets.get(target)
        if state is None:
            return
        state.owners.discard(owner)
        if not state.owners:
            self._drop_target(state)

    def _drop_target(self, state: _TargetState) -> None:
        """Stop probing a target and drop its `TargetHealth` fact."""
        target = state.probe.target
        if state.timer is not None:
            state.timer.cancel()
        self._targets.pop(target, None)
        self._reconciler.informers.drop_fact(TargetHealth, target)

    def _drop_all(self) -> None:
        self._desired.clear()
        for state in list(self._targets.values()):
            self._drop_target(state)

    def _send_probe(self, state: _TargetState) -> None:
        """Probe a target and set the timer for its next probe; the timeout is at most the interval.

        A forbidden target is not probed: it is published as down with the reason.
        """
        loop = asyncio.get_running_loop()
        rule, target = state.probe.rule, state.probe.target
        state.timer = loop.call_later(rule.interval.total_seconds(), self._send_probe, state)
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
        """Record a result and publish the health if enough results agree.

        Ignored for a dropped target.
        """
        if self._targets.get(state.probe.target) is not state:
            return  # it is no longer desired
        if state.record(not failure):
            self._publish_health(state, not failure, failure)

    def _publish_health(self, state: _TargetState, up: bool, reason: str) -> None:
        """Set a target's state and put its fact if it differs.

        `since` stays while up stays the same.
        """
        state.up = up
        known = self._reconciler.informers.facts.get(TargetHealth, state.probe.target)
        if known is None or (known.up, known.reason) != (up, reason):
            since = known.since if known is not None and known.up == up else self._clock.now()
            message = f"{state.probe.target}: {reason}" if reason else ""
            self._reconciler.informers.put_fact(
                TargetHealth(state.probe.target, up, since, message)
            )

    def _forbidden_addresses(self, now: float) -> frozenset[str]:
        """The addresses that no source lets be probed, computed again after FORBIDDEN_TTL."""
        if now >= self._forbidden_until:
            snapshot = self._reconciler.snapshot()
            several: Iterable[frozenset[str]] = (
                source.forbidden(snapshot) for source in self._sources.values()
            )
            self._forbidden = frozenset().union(*several)
            self._forbidden_until = now + FORBIDDEN_TTL
        return self._forbidden


def forbidden_reason(target: ProbeTarget, forbidden: frozenset[str], *, loopback: bool) -> str:
    """Why an address must not be probed; empty if it may.

    Translation counts: NAT64, 6to4, Teredo, ISATAP and mapped addresses are judged by the IPv4
    address that they lead to, and API servers and metadata services are found behind any prefix.
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
