"""ServiceCIDRs: ready once they are there, and kept for as long as an address in them is used."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from tinykube.controllers.conditions import merge_conditions, new_condition, status_patch
from tinykube.controllers.controller import DONE, Key, Lister, Patch, Result
from tinykube.controllers.objects import is_deleting, name_of, status_of
from tinykube.resources import Object
from tinykube.storage import Change

SERVICE_CIDRS = "servicecidrs.networking.k8s.io"
IP_ADDRESSES = "ipaddresses.networking.k8s.io"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
_READY = "Kubernetes Service CIDR is ready"
_ENDING = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
    "ServiceCIDR"
)


class ServiceCIDRController:
    """Wakes with a range, and with an address that is given back while a range is to go."""

    name = "service-ranges"
    watches = frozenset((SERVICE_CIDRS, IP_ADDRESSES))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        if change.store == SERVICE_CIDRS:
            if change.type != "DELETED":
                yield Key(SERVICE_CIDRS, "", name_of(change.object))
            return
        for one in lister.objects(SERVICE_CIDRS) if change.type == "DELETED" else ():
            if is_deleting(one):
                yield Key(SERVICE_CIDRS, "", name_of(one))

    def reconcile(self, key: Key, lister: Lister) -> Result:
        cidr = lister.get(SERVICE_CIDRS, "", key.name)
        if cidr is None:
            return DONE
        held = FINALIZER in (cidr["metadata"].get("finalizers") or ())
        if not is_deleting(cidr):
            return _readied(cidr, lister) if held else _finalized(cidr, add=True)
        if held and not _is_used(cidr, lister):
            return _finalized(cidr, add=False)
        told = merge_conditions(
            status_of(cidr).get("conditions") or (),
            [new_condition("Ready", False, "Terminating", _ENDING)],
            lister.now,
        )
        return Result(status_patch(SERVICE_CIDRS, cidr, {"conditions": told}))


def _readied(cidr: Object, lister: Lister) -> Result:
    standing = status_of(cidr).get("conditions") or ()
    told = merge_conditions(standing, [new_condition("Ready", True, "", _READY)], lister.now)
    return Result(status_patch(SERVICE_CIDRS, cidr, {"conditions": told}))


def _finalized(cidr: Object, *, add: bool) -> Result:
    others = [f for f in cidr["metadata"].get("finalizers") or () if f != FINALIZER]
    wanted = [*others, FINALIZER] if add else others
    return Result((Patch(SERVICE_CIDRS, cidr, {"metadata": {"finalizers": wanted}}),))


def _is_used(cidr: Object, lister: Lister) -> bool:
    """Whether an address is used that no other range has."""
    others = [
        text
        for one in lister.objects(SERVICE_CIDRS)
        if name_of(one) != name_of(cidr) and not is_deleting(one)
        for text in one["spec"].get("cidrs") or ()
    ]
    own = cidr["spec"].get("cidrs") or ()
    return any(
        _has(own, name_of(used)) and not _has(others, name_of(used))
        for used in lister.objects(IP_ADDRESSES)
    )


def _has(ranges: Iterable[str], address: str) -> bool:
    at = ip_address(address)
    return any(at.version == (n := ip_network(r)).version and at in n for r in ranges)
