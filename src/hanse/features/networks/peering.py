"""Peering: two networks reach each other if the owners of both agree."""

from collections.abc import Iterator

import msgspec

from hanse.features.networks.lookups import (
    PEERINGS_BY_PEER,
    find_network,
    namespace_tenant,
    tenant_namespaces,
)
from hanse.features.networks.names import NetworkName, parse_network_name
from hanse.model.conditions import condition, merge_conditions
from hanse.model.kinds.networks import NetworkPeering, Tenant
from hanse.model.objects import ClusterObjectRef, Wire, object_ref
from hanse.model.plan import Key, Patch, Plan
from hanse.model.snapshot import Snapshot


def own_network(peering: NetworkPeering, snapshot: Snapshot) -> NetworkName:
    """The name of the peering's own network: its namespace's tenant and `spec.network`.

    The tenant is empty if the namespace has none; the Network need not exist.
    """
    return NetworkName(namespace_tenant(peering.metadata.namespace, snapshot), peering.spec.network)


def is_agreed(peering: NetworkPeering, snapshot: Snapshot) -> bool:
    """Whether two networks exist, and each has a NetworkPeering that names the other as peer.

    Those that are being deleted do not count, nor those that were made under, or with, an earlier
    tenant of that name. A network never agrees with itself.
    """
    own, theirs = own_network(peering, snapshot), parse_network_name(peering.spec.peer)
    if not own.tenant or own == theirs or _is_deleting(peering):
        return False
    if find_network(own, snapshot) is None or find_network(theirs, snapshot) is None:
        return False
    return _is_consent(peering, snapshot) and any(
        own_network(other, snapshot) == theirs
        and not _is_deleting(other)
        and _is_consent(other, snapshot)
        for other in snapshot.by(snapshot.local, PEERINGS_BY_PEER, str(own))
    )


def _is_consent(peering: NetworkPeering, snapshot: Snapshot) -> bool:
    """Whether a peering holds for both present tenants: its status has recorded their uids.

    False if one is not recorded or another's, or the peering is older than its own tenant.
    """
    recorded = (peering.status.tenant_uid, peering.status.peer_tenant_uid)
    is_same = all(recorded) and recorded == _tenant_uids(peering, snapshot)
    return is_same and not _is_earlier(peering, snapshot)


def _is_earlier(peering: NetworkPeering, snapshot: Snapshot) -> bool:
    """Whether a NetworkPeering is older than its own tenant: an earlier one of its name made it.

    False if the tenant does not exist or a time is missing.
    """
    tenant = snapshot.get(snapshot.local, Tenant, own_network(peering, snapshot).tenant)
    made = peering.metadata.creation_timestamp
    since = tenant.metadata.creation_timestamp if tenant is not None else None
    return made is not None and since is not None and made < since


def _tenant_uids(peering: NetworkPeering, snapshot: Snapshot) -> tuple[str, str]:
    """The uids of the tenant and the peer's tenant; empty for one that does not exist."""
    names = (own_network(peering, snapshot).tenant, parse_network_name(peering.spec.peer).tenant)
    own, peer = (snapshot.get(snapshot.local, Tenant, name) for name in names)
    return own.metadata.uid if own else "", peer.metadata.uid if peer else ""


def agreed_peers(tenant: str, snapshot: Snapshot) -> list[tuple[str, NetworkName]]:
    """Pairs of a tenant's network, by its short name, and a peer that both sides agreed on.

    Sorted, each once; namespaces that are terminating do not count.
    """
    return sorted(
        {
            (peering.spec.network, parse_network_name(peering.spec.peer))
            for namespace in tenant_namespaces(tenant, snapshot)
            for peering in snapshot.in_namespace(
                snapshot.local, NetworkPeering, namespace.metadata.name
            )
            if is_agreed(peering, snapshot)
        }
    )


def plan_peering(key: Key, snapshot: Snapshot) -> Plan:
    """The status patch of a NetworkPeering: Ready, Pending or Failed, and both tenants' uids.

    The uids are recorded once both tenants exist, and then kept. It fails if it is invalid, or was
    for an earlier tenant. An empty plan if it is gone.
    """
    peering = snapshot.get(snapshot.local, NetworkPeering, key.name, key.namespace)
    if peering is None:
        return Plan()
    current = _tenant_uids(peering, snapshot)
    recorded = (peering.status.tenant_uid, peering.status.peer_tenant_uid)
    kept = recorded if all(recorded) else current if all(current) else ("", "")
    errors = list(_validate(peering, snapshot))
    if _is_earlier(peering, snapshot) or (all(kept) and all(current) and kept != current):
        errors.append("it was for an earlier tenant of that name; delete it and create it anew")
    agreed = is_agreed(peering, snapshot)
    waiting = (
        f"waiting for a NetworkPeering of {peering.spec.peer} with {own_network(peering, snapshot)}"
    )
    phase = "Failed" if errors else "Ready" if agreed else "Pending"
    message = "; ".join(errors) if errors else "" if agreed else waiting
    ready = condition("Ready", agreed and not errors, _REASONS[phase], message)
    conditions = merge_conditions(
        peering.status.conditions, [ready], snapshot.now, peering.metadata.generation
    )
    status: Wire = {
        "phase": phase,
        "conditions": msgspec.to_builtins(conditions),
        "tenantUID": kept[0] or None,
        "peerTenantUID": kept[1] or None,
    }
    return Plan(
        patches=(
            Patch(
                ClusterObjectRef(snapshot.local, object_ref(peering)), {"status": status}, "status"
            ),
        )
    )


_REASONS = {"Failed": "Invalid", "Ready": "Agreed", "Pending": "OneSided"}


def _validate(peering: NetworkPeering, snapshot: Snapshot) -> Iterator[str]:
    """Messages for a namespace without tenant, a missing own network, or a peer that is itself.

    The peer need not exist.
    """
    own, theirs = own_network(peering, snapshot), parse_network_name(peering.spec.peer)
    if not own.tenant:
        yield f"namespace {peering.metadata.namespace} is no tenant's; create it in one of yours"
        return
    if find_network(own, snapshot) is None:
        yield f"spec.network: {own.tenant} has no network {own.network}; create Network {own}"
    if own == theirs:
        yield "spec.peer: a network reaches itself anyway; name another"


def _is_deleting(peering: NetworkPeering) -> bool:
    """Whether a NetworkPeering has a deletionTimestamp."""
    return peering.metadata.deletion_timestamp is not None
