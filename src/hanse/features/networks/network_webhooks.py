"""Admission of Networks: who may write them, what never changes, and what others have."""

from collections.abc import Iterator

import msgspec

from hanse.features.networks.addresses import is_in_ranges, parse_address
from hanse.features.networks.admission import evaluate, get_or_read, is_trusted
from hanse.features.networks.feature import Networks
from hanse.features.networks.lookups import ipam_mode
from hanse.features.networks.names import FINALIZER, MAX_NAME_LENGTH, parse_network_name
from hanse.features.networks.ranges import (
    parse_range,
    validate_ranges,
    validate_vpc,
)
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, Deny, WebhookRule
from hanse.model.kinds.networking import IPAddress
from hanse.model.kinds.networks import Network, Tenant, TenantAdmin
from hanse.model.naming import account_user
from hanse.model.objects import Wire
from hanse.model.snapshot import Snapshot

_IMMUTABLE = {"type": "type", "tenant": "tenant", "vpcID": "vpc_id"}


class NetworksHook:
    """Denies invalid Networks, and those that are not the user's to write."""

    name = "networks-networks"
    rules = (WebhookRule((Network.kind.group,), ("networks",), ("CREATE", "UPDATE", "DELETE")),)

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Deny others than trusted users and administrators of the tenant, and invalid Networks.

        May ask for a live read of the Tenant first.
        """
        return evaluate(self._admit, review, snapshot)

    def _admit(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Check the user, and the Network unless it is deleted or its spec is unchanged.

        Only trusted users may remove our finalizer, which keeps what running pods depend on. Raises
        `ReadRequired` if the Tenant has to be read first, `RequestDenied` if that failed.
        """
        if not is_trusted(review, self._feature.options):
            tenant = parse_network_name(review.name).tenant
            if not _is_admin(review, get_or_read(Tenant, tenant, snapshot)):
                return Deny(
                    f"{review.user} is no administrator of tenant {tenant}; name them in "
                    f"spec.admins of Tenant {tenant}, or ask one of those"
                )
            if review.operation == "UPDATE" and FINALIZER in (
                _finalizers(review.before) - _finalizers(review.object)
            ):
                return Deny(
                    f"metadata.finalizers: keep {FINALIZER}; it goes by itself once the network is "
                    "deleted and no pods and Services use it"
                )
        if review.operation == "DELETE":
            return Allow()
        try:
            network = msgspec.convert(review.object, Network, strict=False)
        except msgspec.ValidationError as error:
            return Deny(f"it is not a Network: {error}", 422)
        if network.metadata.deletion_timestamp is not None:
            return Allow()
        before = review.before.get("spec") or {}
        if review.operation == "UPDATE" and before == review.object.get("spec"):
            return Allow()
        errors = [
            *_forbidden_changes(network, before, snapshot),
            *validate_network(network, snapshot),
        ]
        return Deny("; ".join(errors), 422) if errors else Allow()


def _finalizers(wire: Wire) -> set[str]:
    """The finalizers of a wire object; empty if it has none."""
    return set((wire.get("metadata") or {}).get("finalizers") or ())


def _is_admin(review: AdmissionRequest, tenant: Tenant | None) -> bool:
    """Whether the user of a request is named in `spec.admins` of a tenant; False without one."""
    return tenant is not None and any(_names_user(a, review) for a in tenant.spec.admins)


def _names_user(admin: TenantAdmin, review: AdmissionRequest) -> bool:
    """Whether a tenant's administrator is the user of a request, by its kind.

    A Group is if the user is in it; a ServiceAccount is its user name.
    """
    match admin.kind:
        case "User":
            return review.user == admin.name
        case "Group":
            return admin.name in review.groups
        case "ServiceAccount":
            return review.user == account_user(admin.namespace, admin.name)


def _forbidden_changes(network: Network, before: Wire, snapshot: Snapshot) -> Iterator[str]:
    """Messages for changes of immutable fields, and for removed ranges that Services still use.

    Immutable are type, tenant and vpcID, and once they are set subnets and ipam. None for a new
    network, which has no spec before.
    """
    if not before:
        return
    old = msgspec.convert({"type": "", **before}, type(network.spec), strict=False)
    for field, attribute in _IMMUTABLE.items():
        if getattr(old, attribute) != getattr(network.spec, attribute):
            yield f"spec.{field}: it cannot be changed; create another network"
    if old.subnets and old.subnets != network.spec.subnets:
        yield "spec.subnets: they cannot be changed; create another network"
    if old.service.ipam and old.service.ipam != network.spec.service.ipam:
        yield "spec.service.ipam: it cannot be changed; create another network"
    for text in old.service.cidrs:
        if text not in network.spec.service.cidrs and (holder := _range_holder(text, snapshot)):
            yield f"spec.service.cidrs: {text} is in use, by {holder}; keep it, and add others"


def _range_holder(text: str, snapshot: Snapshot) -> str:
    """`Service namespace/name` that has an address of a range, any if there are several.

    An address without a parent is named itself. Empty if none is in use, or the range is invalid.
    """
    range_ = parse_range(text)
    for address in snapshot.all(snapshot.local, IPAddress) if range_ is not None else ():
        at = parse_address(address.metadata.name)
        if range_ is not None and at is not None and is_in_ranges(at, (range_,)):
            by = address.spec.parent_ref
            return f"Service {by.namespace}/{by.name}" if by is not None else f"address {at}"
    return ""


def validate_network(network: Network, snapshot: Snapshot) -> Iterator[str]:
    """Yield a message for each fault for which a network is denied.

    The type is empty; the tenant is not the one in the name (it need not exist); the name within
    the tenant is too long for a label; vpcID or ranges are missing, or are another's; ranges are
    invalid, or overlap those of others, newer or not.
    """
    name = parse_network_name(network.metadata.name)
    if not network.spec.type:
        yield "spec.type: it is needed; flat, vpc or a provider's name"
    if not name.network or network.spec.tenant != name.tenant:
        yield (
            f"spec.tenant: {network.spec.tenant!r} does not agree with the name "
            f"{network.metadata.name}; name it <tenant>.<network>, such as acme.default"
        )
    if len(name.network) > MAX_NAME_LENGTH:
        yield (
            f"metadata.name: {name.network[:10]}… has more than {MAX_NAME_LENGTH} characters, and "
            "labels of pods could not name it; choose a shorter name"
        )
    if network.spec.type == "vpc" and not network.spec.vpc_id:
        yield "spec.vpcID: it is needed for type vpc; set it"
    if ipam_mode(network) == "Arktos" and not network.spec.service.cidrs:
        yield "spec.service.cidrs: ipam Arktos needs at least one range; add one"
    yield from validate_ranges(network, snapshot)
    yield from validate_vpc(network, snapshot)
