"""The feature `membership`: its watches, connections to members, affected keys, and plans."""

from collections.abc import Iterable, Iterator

from hanse.features.federation.inventory import known_clusters, plan_profile, plan_properties
from hanse.features.federation.members import connection_intents
from hanse.features.federation.other_supervisors import FEATURE_NAME
from hanse.features.federation.refusals import is_refusal
from hanse.features.federation.status import plan_status
from hanse.features.federation.tokens import plan_token
from hanse.model.connections import ConnectionIntent
from hanse.model.facts import (
    ClusterAbandoned,
    ClusterState,
    ElectionFailure,
    InvalidConnection,
    KindServed,
    Leadership,
    LeaseLiveness,
    Role,
    WriteOutcome,
)
from hanse.model.kinds.about import ClusterProperty
from hanse.model.kinds.clusterprofile import ClusterProfile
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Node, Secret
from hanse.model.kinds.federation import SYSTEM, ClusterClaim, Federation
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.kinds.submariner import GlobalIngressIP
from hanse.model.member_ranges import changes_ranges
from hanse.model.objects import Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes

FEDERATION, PROFILE, TOKEN = "federation", "profile", "token"
PROPERTIES = Key("properties")
_FACTS = (
    ClusterAbandoned,
    ClusterState,
    ElectionFailure,
    InvalidConnection,
    Leadership,
    LeaseLiveness,
)


_IDENTITY = "the id of a cluster, and its cluster set"


class Membership:
    """Status of the Federation, connections to its members, their tokens, and an inventory."""

    name = FEATURE_NAME
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, Federation, writes=Writes.STATUS, reason="the members, and their state"),
        Watch(Role.LOCAL, ClusterClaim, reason=_IDENTITY),
        Watch(Role.LOCAL, ClusterProperty, writes=Writes.OBJECTS, reason=_IDENTITY),
        Watch(
            Role.LOCAL,
            ClusterProfile,
            namespace=SYSTEM,
            writes=Writes.OBJECTS | Writes.STATUS,
            reason="the inventory of members, for other tools",
        ),
        Watch(
            Role.LOCAL,
            Secret,
            namespace=SYSTEM,
            writes=Writes.FIELDS,
            reason="tokens for members, which a supervisor renews",
        ),
        Watch(Role.LOCAL, Lease, namespace=SYSTEM, reason="which supervisor leads a member"),
        Watch(Role.LOCAL, Node, optional=True, reason="the address ranges of its pods"),
        Watch(Role.LOCAL, ServiceCIDR, optional=True, reason="the address ranges of its Services"),
        Watch(Role.MEMBER, ClusterClaim, reason=_IDENTITY),
        Watch(Role.MEMBER, ClusterProperty, reason=_IDENTITY),
        Watch(Role.MEMBER, Federation, reason="members that others name, and address ranges"),
    )
    source_kinds: tuple[type[Object], ...] = (Federation, ClusterClaim, Secret)

    def connection_intents(self, snapshot: Snapshot) -> tuple[ConnectionIntent, ...]:
        """What should become of each connection to a member: kept, left, released or abandoned."""
        return connection_intents(snapshot)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """Every key for most changes of objects; for a Lease only if its holder changed.

        Only the keys of Federations for writes that are or were refused, and for changed address
        ranges of a local Node or ServiceCIDR. Every key for facts in `_FACTS` and for a kind that
        it reads; none for other facts.
        """
        match change:
            case ObjectChange(_, before, after) if isinstance(change.object, Lease):
                return _all_keys(snapshot) if _lease_holder(before) != _lease_holder(after) else ()
            case ObjectChange(where) if isinstance(change.object, Node | ServiceCIDR):
                concerns = where == snapshot.local and changes_ranges(change)
                return _federation_keys(snapshot) if concerns else ()
            case ObjectChange(_, before, after):
                return {*_all_keys(snapshot), *_named_keys(before), *_named_keys(after)}
            case FactChange(before, after) if isinstance(change.fact, WriteOutcome):
                sides = (before, after)
                refused = any(isinstance(s, WriteOutcome) and is_refusal(s) for s in sides)
                return _federation_keys(snapshot) if refused else ()
            case FactChange() if isinstance(change.fact, KindServed):
                return _all_keys(snapshot) if change.fact.kind in _READ_KINDS else ()
            case FactChange():
                return _all_keys(snapshot) if isinstance(change.fact, _FACTS) else ()

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The plan of properties, a profile, a token or a Federation's status, by the key's topic.

        The plan of a Federation that is missing or being deleted is empty.
        """
        match key.topic:
            case "properties":
                return plan_properties(snapshot)
            case "profile":
                return plan_profile(key.name, snapshot)
            case "token":
                return plan_token(key.name, snapshot)
            case _:
                federation = snapshot.get(snapshot.local, Federation, key.name)
                if federation is None or federation.metadata.deletion_timestamp is not None:
                    return Plan()
                return plan_status(federation, snapshot)


_READ_KINDS = {watch.kind.kind for watch in Membership.watches} | {GlobalIngressIP.kind}


def _all_keys(snapshot: Snapshot) -> set[Key]:
    """Every key of the feature: properties, all local Federations, profiles, and tokens of members.

    Profiles are those of the local cluster and the members of the current Federation.
    """
    return {
        PROPERTIES,
        *_federation_keys(snapshot),
        *(Key(PROFILE, cluster) for cluster in known_clusters(snapshot)),
        *(
            Key(TOKEN, member.cluster_id)
            for federation in snapshot.all(snapshot.local, Federation)
            for member in federation.spec.members
        ),
    }


def _federation_keys(snapshot: Snapshot) -> set[Key]:
    """The keys of all Federations of the local cluster."""
    return {Key(FEDERATION, f.metadata.name) for f in snapshot.all(snapshot.local, Federation)}


def _named_keys(obj: Object | None) -> Iterator[Key]:
    """The key of a Federation, and profile and token keys of its members; else none."""
    if isinstance(obj, Federation):
        yield Key(FEDERATION, obj.metadata.name)
        for member in obj.spec.members:
            yield Key(PROFILE, member.cluster_id)
            yield Key(TOKEN, member.cluster_id)


def _lease_holder(obj: Object | None) -> str | None:
    """The holder of a Lease; None for any other object."""
    return obj.spec.holder_identity if isinstance(obj, Lease) else None
