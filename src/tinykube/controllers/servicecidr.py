"""The ServiceCIDR controller: sets Ready, and protects CIDRs with allocated addresses."""

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
_READY_MESSAGE = "Kubernetes Service CIDR is ready"
_IN_USE_MESSAGE = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
    "ServiceCIDR"
)


class ServiceCIDRController:
    """Enqueues a ServiceCIDR, and terminating ones when an IPAddress is released."""

    name = "service-ranges"
    watches = frozenset((SERVICE_CIDRS, IP_ADDRESSES))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The key of an added or modified ServiceCIDR.

        After the deletion of an IPAddress, those of all terminating ones.
        """
        if change.store == SERVICE_CIDRS:
            if change.type != "DELETED":
                yield Key(SERVICE_CIDRS, "", name_of(change.object))
            return
        for one in lister.objects(SERVICE_CIDRS) if change.type == "DELETED" else ():
            if is_deleting(one):
                yield Key(SERVICE_CIDRS, "", name_of(one))

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The patch that adds the finalizer to a ServiceCIDR or, if it has it, sets Ready to True.

        Of a terminating one it removes the finalizer if no address needs the ServiceCIDR, and else
        sets Ready to False. Nothing for an absent one, or if all is so.
        """
        cidr = lister.get(SERVICE_CIDRS, "", key.name)
        if cidr is None:
            return DONE
        has_finalizer = FINALIZER in (cidr["metadata"].get("finalizers") or ())
        if not is_deleting(cidr):
            return _set_ready(cidr, lister) if has_finalizer else _set_finalizer(cidr, add=True)
        if has_finalizer and not _is_used(cidr, lister):
            return _set_finalizer(cidr, add=False)
        conditions = merge_conditions(
            status_of(cidr).get("conditions") or (),
            [new_condition("Ready", False, "Terminating", _IN_USE_MESSAGE)],
            lister.now,
        )
        return Result(status_patch(SERVICE_CIDRS, cidr, {"conditions": conditions}))


def _set_ready(cidr: Object, lister: Lister) -> Result:
    """The patch of the condition Ready to True; none if it is so already."""
    existing = status_of(cidr).get("conditions") or ()
    conditions = merge_conditions(
        existing, [new_condition("Ready", True, "", _READY_MESSAGE)], lister.now
    )
    return Result(status_patch(SERVICE_CIDRS, cidr, {"conditions": conditions}))


def _set_finalizer(cidr: Object, *, add: bool) -> Result:
    """The patch that adds the ServiceCIDR finalizer or, without `add`, removes it."""
    others = [f for f in cidr["metadata"].get("finalizers") or () if f != FINALIZER]
    finalizers = [*others, FINALIZER] if add else others
    return Result((Patch(SERVICE_CIDRS, cidr, {"metadata": {"finalizers": finalizers}}),))


def _is_used(cidr: Object, lister: Lister) -> bool:
    """Whether an IPAddress in this ServiceCIDR is in no other.

    Other ServiceCIDRs that are terminating do not count.
    """
    others = [
        text
        for one in lister.objects(SERVICE_CIDRS)
        if name_of(one) != name_of(cidr) and not is_deleting(one)
        for text in one["spec"].get("cidrs") or ()
    ]
    own = cidr["spec"].get("cidrs") or ()
    return any(
        _any_contains(own, name_of(used)) and not _any_contains(others, name_of(used))
        for used in lister.objects(IP_ADDRESSES)
    )


def _any_contains(ranges: Iterable[str], address: str) -> bool:
    """Whether an address is in one of the ranges."""
    parsed = ip_address(address)
    return any(parsed.version == (n := ip_network(r)).version and parsed in n for r in ranges)
