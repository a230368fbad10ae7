"""Pods on simulated nodes: they get an address, start, obey their annotations, and end."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from ipaddress import ip_network

from msgspec import Struct

from tinykube.controllers.conditions import status_patch
from tinykube.controllers.controller import (
    DONE,
    NODES,
    PODS,
    Delete,
    Key,
    Lister,
    Patch,
    RecordEvent,
    Result,
)
from tinykube.controllers.objects import (
    annotations_of,
    is_condition_true,
    is_deleting,
    is_finished,
    key_of,
    name_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)
from tinykube.controllers.pod_status import (
    PodContext,
    ended_status,
    has_started,
    lifecycle,
    unreachable_status,
)
from tinykube.controllers.simulated_nodes import SIMULATED
from tinykube.resources import Object
from tinykube.storage import Change


class PodTiming(Struct, frozen=True):
    """How long pods take to start and to stop."""

    start_after: timedelta = timedelta(milliseconds=100)
    stop_after: timedelta = timedelta(milliseconds=100)
    fail_after: timedelta = timedelta(seconds=1)
    """The least age of a pod that fails: whoever replaces it must not spin."""


class _Sandbox(Struct):
    """What a node remembers of one pod."""

    uid: str
    since: datetime
    addresses: tuple[str, ...] = ()
    ending: datetime | None = None


class SimulatedKubelet:
    """Wakes with pods, and with a node for all pods on it."""

    name = "kubelet"
    watches = frozenset((PODS, NODES))

    def __init__(self, pace: PodTiming | None = None) -> None:
        self._pace = pace or PodTiming()
        self._sandboxes: dict[Key, _Sandbox] = {}
        self._promised: dict[str, Key] = {}
        self._cursors: dict[str, int] = {}

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        if change.store == PODS:
            if spec_of(change.object).get("nodeName"):
                yield key_of(PODS, change.object)
        elif change.type != "MODIFIED" or _turned(change):
            yield from lister.pods_on(name_of(change.object))

    def reconcile(self, key: Key, lister: Lister) -> Result:
        pod = lister.get(PODS, key.namespace, key.name)
        if pod is None or not spec_of(pod).get("nodeName"):
            self._forget(key)
            return DONE
        node = lister.get(NODES, "", spec_of(pod)["nodeName"])
        if node is None:
            return Result((Delete(PODS, pod, grace_seconds=0),))
        if SIMULATED not in annotations_of(node):
            return DONE
        if not is_condition_true(node, "Ready"):
            return Result(status_patch(PODS, pod, unreachable_status(pod, lister.now)))
        sandbox = self._sandbox(key, pod, lister.now)
        if is_deleting(pod):
            return self._stop(pod, node, sandbox, lister.now)
        return self._run(key, pod, node, sandbox, lister)

    def _run(
        self, key: Key, pod: Object, node: Object, sandbox: _Sandbox, lister: Lister
    ) -> Result:
        if not sandbox.addresses:
            sandbox.addresses = self._addresses(key, pod, node, lister)
        if not sandbox.addresses:
            text = "failed to create pod sandbox: no address is left in the node's pod range"
            return Result(
                (RecordEvent(pod, "FailedCreatePodSandBox", text, "kubelet", warning=True),),
                timedelta(seconds=10),
            )
        life = lifecycle(pod, self._moment(node, sandbox, lister.now))
        young = lister.now - sandbox.since < self._pace.fail_after
        if life.status.get("phase") == "Failed" and young and not is_finished(pod):
            return Result(requeue_after=sandbox.since + self._pace.fail_after - lister.now)
        writes = status_patch(PODS, pod, life.status)
        if writes and life.status.get("phase") == "Running" and not has_started(pod):
            names = ", ".join(one["name"] for one in spec_of(pod).get("containers") or ())
            told = RecordEvent(pod, "Started", f"Started container {names}", "kubelet")
            return Result((*writes, told), life.requeue_after)
        return Result(writes, life.requeue_after)

    def _stop(self, pod: Object, node: Object, sandbox: _Sandbox, now: datetime) -> Result:
        """A pod stays as it was until its containers are stopped, and is then gone."""
        grace = timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        told: tuple[RecordEvent, ...] = ()
        if sandbox.ending is None:
            sandbox.ending = now + min(grace, self._pace.stop_after)
            if status_of(pod).get("phase") == "Running":
                names = ", ".join(one["name"] for one in spec_of(pod).get("containers") or ())
                told = (RecordEvent(pod, "Killing", f"Stopping container {names}", "kubelet"),)
        if now < sandbox.ending:
            return Result(told, sandbox.ending - now)
        last: tuple[Patch, ...] = ()
        if pod["metadata"].get("finalizers") and sandbox.addresses:
            moment = self._moment(node, sandbox, now)
            last = status_patch(PODS, pod, ended_status(pod, moment))
        if not grace and pod["metadata"].get("finalizers"):
            return Result((*told, *last))
        return Result((*told, *last, Delete(PODS, pod, grace_seconds=0)))

    def _moment(self, node: Object, sandbox: _Sandbox, now: datetime) -> PodContext:
        return PodContext(
            now, sandbox.since, self._pace.start_after, sandbox.addresses, _internal_address(node)
        )

    def _sandbox(self, key: Key, pod: Object, now: datetime) -> _Sandbox:
        found = self._sandboxes.get(key)
        if found is not None and found.uid == uid_of(pod):
            return found
        self._forget(key)
        since = parse_time(status_of(pod).get("startTime")) or now
        addresses = tuple(one["ip"] for one in status_of(pod).get("podIPs") or ())
        made = _Sandbox(uid_of(pod), since, addresses)
        self._sandboxes[key] = made
        return made

    def _forget(self, key: Key) -> None:
        sandbox = self._sandboxes.pop(key, None)
        for address in sandbox.addresses if sandbox is not None else ():
            self._promised.pop(address, None)

    def _addresses(self, key: Key, pod: Object, node: Object, lister: Lister) -> tuple[str, ...]:
        """One free address from each of the node's pod ranges; empty when one has none."""
        if spec_of(pod).get("hostNetwork"):
            return (_internal_address(node),)
        taken: list[str] = []
        for pods in spec_of(node).get("podCIDRs") or ():
            start = self._cursors.get(pods, 1)
            found = next_free_address(pods, start, lambda one: self._is_taken(one, lister))
            if found is None:
                return ()
            self._cursors[pods] = found.following
            self._promised[found.address] = key
            taken.append(found.address)
        return tuple(taken)

    def _is_taken(self, address: str, lister: Lister) -> bool:
        """Whether a pod has an address, or was promised it and is still there."""
        holder = self._promised.get(address)
        if holder is None:
            return lister.is_pod_ip_used(address)
        pod = lister.get(PODS, holder.namespace, holder.name)
        sandbox = self._sandboxes.get(holder)
        return pod is not None and sandbox is not None and sandbox.uid == uid_of(pod)


class AddressAllocation(Struct, frozen=True):
    """A free address, and where to look for the next."""

    address: str
    following: int


def next_free_address(
    pods: str, start: int, used: Callable[[str], bool]
) -> AddressAllocation | None:
    """The next free address of a range after the last given; freed ones come round again late."""
    network = ip_network(pods)
    usable = min(network.num_addresses - 2, 2**20)
    for step in range(usable):
        offset = 1 + (start - 1 + step) % usable
        address = str(network.network_address + offset)
        if not used(address):
            return AddressAllocation(address, offset + 1)
    return None


def _internal_address(node: Object) -> str:
    addresses = status_of(node).get("addresses") or ()
    found = (one["address"] for one in addresses if one.get("type") == "InternalIP")
    return next(found, "")


def _turned(change: Change) -> bool:
    return change.before is not None and is_condition_true(
        change.before, "Ready"
    ) != is_condition_true(change.object, "Ready")
