"""ServiceCIDRs: ready once they are there, and kept for as long as an address in them is used."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from tinykube.controllers.conditions import condition, status_patch, timed
from tinykube.controllers.controller import SETTLED, Key, Outcome, Patch, View
from tinykube.controllers.objects import is_deleting, name_of, status_of
from tinykube.resources import Object
from tinykube.storage import Change

SERVICE_RANGES = "servicecidrs.networking.k8s.io"
ADDRESSES = "ipaddresses.networking.k8s.io"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
_READY = "Kubernetes Service CIDR is ready"
_ENDING = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
    "ServiceCIDR"
)


class ServiceRanges:
    """Wakes with a range, and with an address that is given back while a range is to go."""

    name = "service-ranges"
    follows = frozenset((SERVICE_RANGES, ADDRESSES))

    def keys_for(self, change: Change, view: View) -> Iterable[Key]:
        if change.store == SERVICE_RANGES:
            if change.type != "DELETED":
                yield Key(SERVICE_RANGES, "", name_of(change.object))
            return
        for one in view.objects(SERVICE_RANGES) if change.type == "DELETED" else ():
            if is_deleting(one):
                yield Key(SERVICE_RANGES, "", name_of(one))

    def reconcile(self, key: Key, view: View) -> Outcome:
        cidr = view.get(SERVICE_RANGES, "", key.name)
        if cidr is None:
            return SETTLED
        held = FINALIZER in (cidr["metadata"].get("finalizers") or ())
        if not is_deleting(cidr):
            return _readied(cidr, view) if held else _finalized(cidr, add=True)
        if held and not _is_used(cidr, view):
            return _finalized(cidr, add=False)
        told = timed(
            status_of(cidr).get("conditions") or (),
            [condition("Ready", False, "Terminating", _ENDING)],
            view.now,
        )
        return Outcome(status_patch(SERVICE_RANGES, cidr, {"conditions": told}))


def _readied(cidr: Object, view: View) -> Outcome:
    standing = status_of(cidr).get("conditions") or ()
    told = timed(standing, [condition("Ready", True, "", _READY)], view.now)
    return Outcome(status_patch(SERVICE_RANGES, cidr, {"conditions": told}))


def _finalized(cidr: Object, *, add: bool) -> Outcome:
    others = [f for f in cidr["metadata"].get("finalizers") or () if f != FINALIZER]
    wanted = [*others, FINALIZER] if add else others
    return Outcome((Patch(SERVICE_RANGES, cidr, {"metadata": {"finalizers": wanted}}),))


def _is_used(cidr: Object, view: View) -> bool:
    """Whether an address is used that no other range has."""
    others = [
        text
        for one in view.objects(SERVICE_RANGES)
        if name_of(one) != name_of(cidr) and not is_deleting(one)
        for text in one["spec"].get("cidrs") or ()
    ]
    own = cidr["spec"].get("cidrs") or ()
    return any(
        _has(own, name_of(used)) and not _has(others, name_of(used))
        for used in view.objects(ADDRESSES)
    )


def _has(ranges: Iterable[str], address: str) -> bool:
    at = ip_address(address)
    return any(at.version == (n := ip_network(r)).version and at in n for r in ranges)
