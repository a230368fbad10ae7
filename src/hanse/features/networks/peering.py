"""Two networks that reach each other because the owners of both say so."""

from collections.abc import Iterator

import msgspec

from hanse.features.networks.names import NetworkName, parsed
from hanse.features.networks.sight import PEERINGS, namespaces_of, network_at, tenant_of
from hanse.model.conditions import condition, merged
from hanse.model.keys import Key
from hanse.model.kinds.networks import NetworkPeering
from hanse.model.objects import Place, Wire, ref_of
from hanse.model.plan import Patch, Plan
from hanse.model.snapshot import Snapshot


def own_side(peering: NetworkPeering, seen: Snapshot) -> NetworkName:
    """The network that a consent is given for: one of the namespace's tenant."""
    return NetworkName(tenant_of(peering.metadata.namespace, seen), peering.spec.network)


def is_agreed(peering: NetworkPeering, seen: Snapshot) -> bool:
    """Whether the other side consents too, and both networks exist."""
    mine, theirs = own_side(peering, seen), parsed(peering.spec.peer)
    if not mine.tenant or mine == theirs or _is_leaving(peering):
        return False
    if network_at(mine, seen) is None or network_at(theirs, seen) is None:
        return False
    return any(
        own_side(other, seen) == theirs and not _is_leaving(other)
        for other in seen.by(seen.local, PEERINGS, str(mine))
    )


def peers_agreed(tenant: str, seen: Snapshot) -> list[tuple[str, NetworkName]]:
    """A tenant's networks, each with one that both sides agree to reach."""
    return sorted(
        {
            (peering.spec.network, parsed(peering.spec.peer))
            for space in namespaces_of(tenant, seen)
            for peering in seen.in_namespace(seen.local, NetworkPeering, space.metadata.name)
            if is_agreed(peering, seen)
        }
    )


def plan_peering(key: Key, seen: Snapshot) -> Plan:
    """What a consent is told: whether it holds, or what it still takes."""
    peering = seen.get(seen.local, NetworkPeering, key.name, key.namespace)
    if peering is None:
        return Plan()
    faults = list(_faults(peering, seen))
    agreed = is_agreed(peering, seen)
    waiting = f"waiting for a NetworkPeering of {peering.spec.peer} with {own_side(peering, seen)}"
    phase = "Failed" if faults else "Ready" if agreed else "Pending"
    message = "; ".join(faults) if faults else "" if agreed else waiting
    ready = condition("Ready", agreed and not faults, _REASONS[phase], message)
    conditions = merged(peering.status.conditions, [ready], seen.now, peering.metadata.generation)
    status: Wire = {"phase": phase, "conditions": msgspec.to_builtins(conditions)}
    return Plan(patches=(Patch(Place(seen.local, ref_of(peering)), {"status": status}, "status"),))


_REASONS = {"Failed": "Invalid", "Ready": "Agreed", "Pending": "OneSided"}


def _faults(peering: NetworkPeering, seen: Snapshot) -> Iterator[str]:
    mine, theirs = own_side(peering, seen), parsed(peering.spec.peer)
    if not mine.tenant:
        yield f"namespace {peering.metadata.namespace} is no tenant's; create it in one of yours"
        return
    if network_at(mine, seen) is None:
        yield f"spec.network: {mine.tenant} has no network {mine.network}; create Network {mine}"
    if mine == theirs:
        yield "spec.peer: a network reaches itself anyway; name another"


def _is_leaving(peering: NetworkPeering) -> bool:
    return peering.metadata.deletion_timestamp is not None
