"""The simulated kubelet: pods on simulated nodes get addresses, start, and terminate."""

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
    has_started,
    pod_status_at,
    terminated_status,
    time_left,
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
    """The minimum age of a failing pod, so that its controller does not spin."""


class _Sandbox(Struct):
    """The state of one pod on its node."""

    uid: str
    started_at: datetime
    addresses: tuple[str, ...] = ()
    stops_at: datetime | None = None


class SimulatedKubelet:
    """The kubelet of all simulated nodes; a change of a node enqueues all its pods."""

    name = "kubelet"
    watches = frozenset((PODS, NODES))

    def __init__(self, timing: PodTiming | None = None) -> None:
        """No pod has a sandbox yet; `timing` says how long pods take to start and stop."""
        self._timing = timing or PodTiming()
        self._sandboxes: dict[Key, _Sandbox] = {}
        self._reserved: dict[str, Key] = {}
        self._next_offsets: dict[str, int] = {}

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The key of an assigned pod, or those of all pods of a changed node.

        A modified node counts only if its readiness has changed.
        """
        if change.store == PODS:
            if spec_of(change.object).get("nodeName"):
                yield key_of(PODS, change.object)
        elif change.type != "MODIFIED" or _readiness_changed(change):
            yield from lister.pods_on(name_of(change.object))

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that run or terminate a pod; drops the sandbox of an absent or unassigned one.

        Deletes a pod of an absent node; on an unready node it only becomes not ready; ignores
        nodes without the annotation of simulated ones.
        """
        pod = lister.get(PODS, key.namespace, key.name)
        if pod is None or not spec_of(pod).get("nodeName"):
            self._remove_sandbox(key)
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
            return self._terminate(pod, node, sandbox, lister.now)
        return self._run(key, pod, node, sandbox, lister)

    def _run(
        self, key: Key, pod: Object, node: Object, sandbox: _Sandbox, lister: Lister
    ) -> Result:
        """The patch of the pod's status, and the Event Started when its phase becomes Running.

        Allocates addresses first. Without a free one it records a warning and retries after 10 s; a
        failure is written only after `fail_after`.
        """
        if not sandbox.addresses:
            sandbox.addresses = self._allocate_addresses(key, pod, node, lister)
        if not sandbox.addresses:
            text = "failed to create pod sandbox: no address is left in the node's pod range"
            return Result(
                (RecordEvent(pod, "FailedCreatePodSandBox", text, "kubelet", warning=True),),
                timedelta(seconds=10),
            )
        pod_status = pod_status_at(pod, self._pod_context(node, sandbox, lister.now))
        young_for = time_left(sandbox.started_at, self._timing.fail_after, lister.now)
        if pod_status.status.get("phase") == "Failed" and young_for and not is_finished(pod):
            return Result(requeue_after=young_for)
        writes = status_patch(PODS, pod, pod_status.status)
        if writes and pod_status.status.get("phase") == "Running" and not has_started(pod):
            names = ", ".join(one["name"] for one in spec_of(pod).get("containers") or ())
            started = RecordEvent(pod, "Started", f"Started container {names}", "kubelet")
            return Result((*writes, started), pod_status.requeue_after)
        return Result(writes, pod_status.requeue_after)

    def _terminate(self, pod: Object, node: Object, sandbox: _Sandbox, now: datetime) -> Result:
        """The deletion of a terminating pod once its containers are stopped; a requeue until then.

        They stop after the grace period or, if that is shorter, `stop_after`. Records Killing once,
        for a Running pod. A pod with finalizers gets its final status first, and is not deleted
        again once its grace period is 0.
        """
        grace = timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        events: tuple[RecordEvent, ...] = ()
        if sandbox.stops_at is None:
            sandbox.stops_at = now + min(grace, self._timing.stop_after)
            if status_of(pod).get("phase") == "Running":
                names = ", ".join(one["name"] for one in spec_of(pod).get("containers") or ())
                events = (RecordEvent(pod, "Killing", f"Stopping container {names}", "kubelet"),)
        if now < sandbox.stops_at:
            return Result(events, sandbox.stops_at - now)
        final_status: tuple[Patch, ...] = ()
        if pod["metadata"].get("finalizers") and sandbox.addresses:
            context = self._pod_context(node, sandbox, now)
            final_status = status_patch(PODS, pod, terminated_status(pod, context))
        if not grace and pod["metadata"].get("finalizers"):
            return Result((*events, *final_status))
        return Result((*events, *final_status, Delete(PODS, pod, grace_seconds=0)))

    def _pod_context(self, node: Object, sandbox: _Sandbox, now: datetime) -> PodContext:
        """What a pod's status depends on: the time, its sandbox, the node's internal address."""
        return PodContext(
            now,
            sandbox.started_at,
            self._timing.start_after,
            sandbox.addresses,
            _internal_address(node),
        )

    def _sandbox(self, key: Key, pod: Object, now: datetime) -> _Sandbox:
        """The sandbox of a pod, made if it has none.

        A new one has the startTime, or else now, and the addresses of the pod's status. For a new
        uid it replaces the old one and releases the addresses of that.
        """
        found = self._sandboxes.get(key)
        if found is not None and found.uid == uid_of(pod):
            return found
        self._remove_sandbox(key)
        started_at = parse_time(status_of(pod).get("startTime")) or now
        addresses = tuple(one["ip"] for one in status_of(pod).get("podIPs") or ())
        created = _Sandbox(uid_of(pod), started_at, addresses)
        self._sandboxes[key] = created
        return created

    def _remove_sandbox(self, key: Key) -> None:
        """Remove the sandbox of a pod and release its reserved addresses."""
        sandbox = self._sandboxes.pop(key, None)
        for address in sandbox.addresses if sandbox is not None else ():
            self._reserved.pop(address, None)

    def _allocate_addresses(
        self, key: Key, pod: Object, node: Object, lister: Lister
    ) -> tuple[str, ...]:
        """Reserve one address of each pod CIDR of the node; empty if one of them is exhausted.

        Then nothing is reserved. Empty also for a node without CIDR. A pod on the host network has
        the node's internal address.
        """
        if spec_of(pod).get("hostNetwork"):
            return (_internal_address(node),)
        allocated: dict[str, AddressAllocation] = {}
        for cidr in spec_of(node).get("podCIDRs") or ():
            start = self._next_offsets.get(cidr, 1)
            found = next_free_address(cidr, start, lambda one: self._is_allocated(one, lister))
            if found is None:
                return ()
            allocated[cidr] = found
        for cidr, found in allocated.items():
            self._next_offsets[cidr] = found.next_offset
            self._reserved[found.address] = key
        return tuple(found.address for found in allocated.values())

    def _is_allocated(self, address: str, lister: Lister) -> bool:
        """Whether a pod that has not finished has the address.

        A reserved address is allocated as long as the pod of the reservation exists, and only then.
        """
        owner = self._reserved.get(address)
        if owner is None:
            return lister.is_pod_ip_used(address)
        pod = lister.get(PODS, owner.namespace, owner.name)
        sandbox = self._sandboxes.get(owner)
        return pod is not None and sandbox is not None and sandbox.uid == uid_of(pod)


class AddressAllocation(Struct, frozen=True):
    """A free address, and the offset of the next candidate."""

    address: str
    next_offset: int


def next_free_address(
    cidr: str, start: int, is_used: Callable[[str], bool]
) -> AddressAllocation | None:
    """The next unused address of a range from offset `start` on; it is not reserved.

    At the end it goes on at offset 1, so that freed ones are reused late. The first and last
    address of the range are never taken. None if all are used; only the first 2**20 addresses are
    tried.
    """
    network = ip_network(cidr)
    usable = min(network.num_addresses - 2, 2**20)
    for step in range(usable):
        offset = 1 + (start - 1 + step) % usable
        address = str(network.network_address + offset)
        if not is_used(address):
            return AddressAllocation(address, offset + 1)
    return None


def _internal_address(node: Object) -> str:
    """The first InternalIP of a node; empty if it has none."""
    addresses = status_of(node).get("addresses") or ()
    found = (one["address"] for one in addresses if one.get("type") == "InternalIP")
    return next(found, "")


def _readiness_changed(change: Change) -> bool:
    """Whether a node's condition Ready differs before and after a change; False for a new node."""
    return change.before is not None and is_condition_true(
        change.before, "Ready"
    ) != is_condition_true(change.object, "Ready")
