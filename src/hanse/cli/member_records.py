"""The records of members on a broker, and what a broker has for one member."""

from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from hanse.cli.errors import CommandFailed
from hanse.features.services.names import SOURCE_CLUSTER
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.kube.optional_reads import list_or_empty, read_or_none
from hanse.kube.requests import delete, resource_path
from hanse.kube.transport import Request
from hanse.model.broker_namespace import MEMBER, accounts_namespace
from hanse.model.clusterset import agreed_rules
from hanse.model.json_input import decode_json
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterMember, ClusterSetSpec, MemberPhase
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.manifests import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
)
from hanse.model.objects import ClusterId, Kind, Wire

_LEGACY_SOURCE = "lighthouse.submariner.io/sourceCluster"


class MemberPlace(Struct, frozen=True):
    """A member, the namespace in which it shares, and the name of the broker."""

    broker: str
    namespace: str
    cluster: ClusterId


class BrokerObject(Struct, frozen=True):
    """An object of one member on a broker."""

    kind: Kind
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """`Kind namespace/name`, or `Kind name` without a namespace."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.name} {place}"


async def find_record(broker: Client, place: MemberPlace) -> ClusterMember | None:
    """Read a member's ClusterMember on the broker; None if it, or the kind, does not exist."""
    return await read_or_none(broker, ClusterMember, place.cluster, place.namespace)


async def recorded_rules(broker: Client, namespace: str) -> ClusterSetSpec | None:
    """The rules of a ClusterSet that more than half of the ClusterMembers with rules have kept.

    Members keep them in `status.rules`; those that have left do not count. None if no member has
    any; raises `CommandFailed` if some have, and no majority has the same.
    """
    records = await list_or_empty(broker, ClusterMember, namespace)
    kept = sorted(r.name for r in records if r.status.rules is not None and not r.has_left)
    rules = agreed_rules(records)
    if kept and rules is None:
        raise CommandFailed(
            f"there is no ClusterSet, and {', '.join(kept)} have kept different rules "
            f"(`kubectl -n {namespace} get clustermembers -o yaml`, status.rules); create the "
            "ClusterSet default with the right ones, then run this again"
        )
    return rules


async def set_phase(
    broker: Client,
    record: ClusterMember,
    phase: MemberPhase,
    *,
    epoch: int = 0,
    abandoned: bool = False,
) -> ClusterMember:
    """Patch the status of a record: phase, `since` (now), epoch, abandoned; returns it as stored.

    With the epoch 0 the record's own stays; `abandoned` is always written, False by default.
    """
    since = msgspec.to_builtins(datetime.now(UTC).replace(microsecond=0))
    status: Wire = {
        "phase": phase,
        "since": since,
        "epoch": epoch or record.status.epoch,
        "abandoned": abandoned,
    }
    return await broker.patch(
        ClusterMember, record.name, record.namespace, {"status": status}, subresource="status"
    )


async def list_published(broker: Client, place: MemberPlace) -> list[BrokerObject]:
    """List what a member published in the broker's namespace, as references.

    EndpointSlices and ServiceImports by their labels with the source cluster, StatefulSetParts by
    `spec.cluster`; none of kinds that are not served.
    """
    cluster, namespace = place.cluster, place.namespace
    own = f"{SOURCE_CLUSTER}={cluster}"
    legacy = f"{_LEGACY_SOURCE}={cluster}"
    parts = await _listed(broker, StatefulSetPart.kind, namespace)
    return [
        *_references(EndpointSlice.kind, await _listed(broker, EndpointSlice.kind, namespace, own)),
        *_references(
            ServiceImport.kind, await _listed(broker, ServiceImport.kind, namespace, legacy)
        ),
        *_references(
            StatefulSetPart.kind, [p for p in parts if p.get("spec", {}).get("cluster") == cluster]
        ),
    ]


async def list_prepared(broker: Client, place: MemberPlace) -> list[BrokerObject]:
    """List what `hanse join` made for a member on a broker, except its record; bindings come first.

    ClusterRoleBindings and RoleBindings by the member's label and by name, ClusterRoles and Roles
    by name, then Leases and the ServiceAccount by label in the broker's namespace or that of
    accounts.
    """
    labelled, own_role = f"{MEMBER}={place.cluster}", f"{place.namespace}:{place.cluster}"
    spaces = (place.namespace, accounts_namespace(place.namespace))
    found: list[BrokerObject] = []
    for kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING):
        bound = _references(kind, await _listed(broker, kind, "", labelled))
        found += [one for one in bound if f"{one.name}:".startswith(f"{own_role}:")]
    for kind in (CLUSTER_ROLE, ROLE):
        roles = _references(kind, await _listed(broker, kind, ""))
        found += [one for one in roles if one.name == own_role]
    for kind in (Lease.kind, SERVICE_ACCOUNT):
        made = _references(kind, await _listed(broker, kind, "", labelled))
        found += [one for one in made if one.namespace in spaces]
    return found


async def has_share(broker: Client, cluster: ClusterId) -> bool:
    """Whether a StatefulSetShares of any namespace on the broker has a share for a cluster."""
    sets = await _listed(broker, StatefulSetShares.kind, "")
    shares = (share for one in sets for share in one.get("spec", {}).get("shares") or ())
    return any(share.get("name") == cluster for share in shares)


async def delete_objects(broker: Client, objects: list[BrokerObject]) -> None:
    """Delete objects in order, ignoring those that are gone; other errors end it."""
    for one in objects:
        try:
            await broker.send(delete(one.kind, one.name, one.namespace))
        except NotFound:
            continue


async def _listed(broker: Client, kind: Kind, namespace: str, labels: str = "") -> list[Wire]:
    """List objects as JSON values, in one namespace, or in all for "", by a label selector.

    Empty where the kind is not served; other errors are raised.
    """
    query = (("labelSelector", labels),) if labels else ()
    try:
        answer = await broker.send(Request("GET", resource_path(kind, namespace), query))
    except NotFound:
        return []
    found: Wire = decode_json(answer.body)
    return list(found.get("items") or ())


def _references(kind: Kind, wires: list[Wire]) -> list[BrokerObject]:
    """Kind, name and namespace of each listed object."""
    return [
        BrokerObject(kind, one["metadata"]["name"], one["metadata"].get("namespace", ""))
        for one in wires
    ]
