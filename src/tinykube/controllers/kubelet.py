"""Pods on simulated nodes: they get an address, start, obey their annotations, and end."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from ipaddress import ip_network

from msgspec import Struct

from tinykube.controllers.conditions import status_patch
from tinykube.controllers.controller import (
    NODES,
    PODS,
    SETTLED,
    Delete,
    Key,
    Outcome,
    Patch,
    Tell,
    View,
)
from tinykube.controllers.objects import (
    annotations_of,
    is_deleting,
    is_finished,
    is_true,
    key_of,
    name_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)
from tinykube.controllers.pod_status import (
    Moment,
    ended_status,
    has_started,
    lifecycle,
    unreachable_status,
)
from tinykube.controllers.simulated_nodes import SIMULATED
from tinykube.resources import Object
from tinykube.storage import Change


class Pace(Struct, frozen=True):
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


class Kubelet:
    """Wakes with pods, and with a node for all pods on it."""

    name = "kubelet"
    follows = frozenset((PODS, NODES))

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._sandboxes: dict[Key, _Sandbox] = {}
        self._promised: dict[str, Key] = {}
        self._cursors: dict[str, int] = {}

    def keys_for(self, change: Change, view: View) -> Iterable[Key]:
        if change.store == PODS:
            if spec_of(change.object).get("nodeName"):
                yield key_of(PODS, change.object)
        elif change.type != "MODIFIED" or _turned(change):
            yield from view.pods_on(name_of(change.object))

    def reconcile(self, key: Key, view: View) -> Outcome:
        pod = view.get(PODS, key.namespace, key.name)
        if pod is None or not spec_of(pod).get("nodeName"):
            self._forget(key)
            return SETTLED
        node = view.get(NODES, "", spec_of(pod)["nodeName"])
        if node is None:
            return Outcome((Delete(PODS, pod, grace_seconds=0),))
        if SIMULATED not in annotations_of(node):
            return SETTLED
        if not is_true(node, "Ready"):
            return Outcome(status_patch(PODS, pod, unreachable_status(pod, view.now)))
        sandbox = self._sandbox(key, pod, view.now)
        if is_deleting(pod):
            return self._stop(pod, node, sandbox, view.now)
        return self._run(key, pod, node, sandbox, view)

    def _run(self, key: Key, pod: Object, node: Object, sandbox: _Sandbox, view: View) -> Outcome:
        if not sandbox.addresses:
            sandbox.addresses = self._addresses(key, pod, node, view)
        if not sandbox.addresses:
            text = "failed to create pod sandbox: no address is left in the node's pod range"
            return Outcome(
                (Tell(pod, "FailedCreatePodSandBox", text, "kubelet", warning=True),),
                timedelta(seconds=10),
            )
        life = lifecycle(pod, self._moment(node, sandbox, view.now))
        young = view.now - sandbox.since < self._pace.fail_after
        if life.status.get("phase") == "Failed" and young and not is_finished(pod):
            return Outcome(requeue_after=sandbox.since + self._pace.fail_after - view.now)
        writes = status_patch(PODS, pod, life.status)
        if writes and life.status.get("phase") == "Running" and not has_started(pod):
            names = ", ".join(one["name"] for one in spec_of(pod).get("containers") or ())
            told = Tell(pod, "Started", f"Started container {names}", "kubelet")
            return Outcome((*writes, told), life.requeue_after)
        return Outcome(writes, life.requeue_after)

    def _stop(self, pod: Object, node: Object, sandbox: _Sandbox, now: datetime) -> Outcome:
        """A pod stays as it was until its containers are stopped, and is then gone."""
        grace = timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        told: tuple[Tell, ...] = ()
        if sandbox.ending is None:
            sandbox.ending = now + min(grace, self._pace.stop_after)
            if status_of(pod).get("phase") == "Running":
                names = ", ".join(one["name"] for one in spec_of(pod).get("containers") or ())
                told = (Tell(pod, "Killing", f"Stopping container {names}", "kubelet"),)
        if now < sandbox.ending:
            return Outcome(told, sandbox.ending - now)
        last: tuple[Patch, ...] = ()
        if pod["metadata"].get("finalizers") and sandbox.addresses:
            moment = self._moment(node, sandbox, now)
            last = status_patch(PODS, pod, ended_status(pod, moment))
        if not grace and pod["metadata"].get("finalizers"):
            return Outcome((*told, *last))
        return Outcome((*told, *last, Delete(PODS, pod, grace_seconds=0)))

    def _moment(self, node: Object, sandbox: _Sandbox, now: datetime) -> Moment:
        return Moment(
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

    def _addresses(self, key: Key, pod: Object, node: Object, view: View) -> tuple[str, ...]:
        """One free address from each of the node's pod ranges; empty when one has none."""
        if spec_of(pod).get("hostNetwork"):
            return (_internal_address(node),)
        taken: list[str] = []
        for pods in spec_of(node).get("podCIDRs") or ():
            start = self._cursors.get(pods, 1)
            found = next_free(pods, start, lambda one: self._is_taken(one, view))
            if found is None:
                return ()
            self._cursors[pods] = found.following
            self._promised[found.address] = key
            taken.append(found.address)
        return tuple(taken)

    def _is_taken(self, address: str, view: View) -> bool:
        """Whether a pod has an address, or was promised it and is still there."""
        holder = self._promised.get(address)
        if holder is None:
            return view.is_used(address)
        pod = view.get(PODS, holder.namespace, holder.name)
        sandbox = self._sandboxes.get(holder)
        return pod is not None and sandbox is not None and sandbox.uid == uid_of(pod)


class Found(Struct, frozen=True):
    """A free address, and where to look for the next."""

    address: str
    following: int


def next_free(pods: str, start: int, used: Callable[[str], bool]) -> Found | None:
    """The next free address of a range after the last given; freed ones come round again late."""
    network = ip_network(pods)
    usable = min(network.num_addresses - 2, 2**20)
    for step in range(usable):
        offset = 1 + (start - 1 + step) % usable
        address = str(network.network_address + offset)
        if not used(address):
            return Found(address, offset + 1)
    return None


def _internal_address(node: Object) -> str:
    addresses = status_of(node).get("addresses") or ()
    found = (one["address"] for one in addresses if one.get("type") == "InternalIP")
    return next(found, "")


def _turned(change: Change) -> bool:
    return change.before is not None and is_true(change.before, "Ready") != is_true(
        change.object, "Ready"
    )
