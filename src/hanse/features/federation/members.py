"""The connections to members, from the Federation and the members' Secrets."""

from collections.abc import Iterable, Iterator
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from hanse.features.federation.claims import possible_supervisors, read_claims
from hanse.features.federation.other_supervisors import (
    FEATURE_NAME,
    OtherSupervisors,
    is_dissolved,
    oldest_federation,
    read_other_supervisors,
)
from hanse.model.addresses import is_loopback_host
from hanse.model.connections import (
    AbandonedCluster,
    ClusterConnection,
    ConnectionIntent,
    LeavingCluster,
    ReleasedCluster,
    ServerCredentials,
    UnknownClusters,
)
from hanse.model.facts import ClusterDeparted, InvalidConnection, Role
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import SYSTEM, Federation, Member, MemberState
from hanse.model.naming import CLUSTER_ID
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot

TOKEN = "token"  # noqa: S105 - the name of a key
CA = "ca.crt"
ABANDONED = "hanse.dev/abandoned"
"""Annotation of a Federation: comma-joined clusters that are lost and no longer cleaned up."""

_PEM = b"-----BEGIN CERTIFICATE-----"


def token_of(secret: Secret) -> str:
    """The token in the Secret of a member, without blanks around it; empty if it has none."""
    return secret.data.get(TOKEN, b"").decode("ascii", "replace").strip()


class MemberFault(Struct, frozen=True):
    """What is wrong with a member's entry in the Federation, and how to fix it."""

    field: str
    reason: str
    message: str


def current_federation(snapshot: Snapshot) -> Federation | None:
    """The oldest Federation of this cluster that is not being deleted; None where there is none."""
    return oldest_federation(snapshot.local, snapshot)


def connection_intents(snapshot: Snapshot) -> tuple[ConnectionIntent, ...]:
    """What should become of the connection to each member: kept, left, released or abandoned.

    Members of the Federation are connected or invalid, and left once it is dissolved; former ones
    are left, or kept while undecided; those that only others name are released; annotated ones
    abandoned. UnknownClusters is added while the list of another supervisor is not known. Where the
    kind is not served every connection is kept. A cluster without Federation or listed claims, that
    is no supervisor, or names no member, releases those that others name, and keeps the rest unless
    it is dissolved. While the local id is wrong, all connections are invalid, and kept.
    """
    if snapshot.serves(snapshot.local, Federation) is False:
        return tuple(_kind_not_served_intents(snapshot))
    federation = current_federation(snapshot)
    claims = read_claims(snapshot, snapshot.local)
    others = read_other_supervisors(snapshot, federation)
    if federation is None or claims is None:
        return tuple(_retirement_intents(federation, others, snapshot))
    members = federation.spec.members
    if claims.cluster_id not in ("", snapshot.local):
        text = f"ClusterClaim id.k8s.io says {claims.cluster_id!r}, the agent is {snapshot.local!r}"
        here = [member.cluster_id for member in members]
        before = [state.cluster_id for state in federation.status.members]
        clusters = dict.fromkeys((*here, *before, *sorted(others.named)))
        invalid = [
            InvalidConnection(FEATURE_NAME, c, "spec.members", "ClusterIDMismatch", text)
            for c in clusters
        ]
        return (*invalid, UnknownClusters())
    if not members or not claims.supervisor:  # nobody takes all members away by one edit
        retirement = _retirement_intents(federation, others, snapshot)
        return (*retirement, *_former_connections(federation, snapshot))
    named = {member.cluster_id for member in members}
    given_up = [c for c in abandoned_clusters(federation) if c not in named]
    abandoned = [AbandonedCluster(c) for c in given_up]
    order = _leader_preference(snapshot, tuple(sorted(named)))
    connections = [
        _member_connection(i, m, members, snapshot, order) for i, m in enumerate(members)
    ]
    if is_dissolved(federation):
        return (*_dissolved_connections(connections, snapshot), *abandoned)
    released = [ReleasedCluster(c) for c in sorted(others.named - named - {*given_up})]
    unknown = [UnknownClusters()] if others.unknown else []
    former = _former_connections(federation, snapshot)
    return (*connections, *former, *released, *abandoned, *unknown)


def _dissolved_connections(
    connections: Iterable[ClusterConnection | InvalidConnection], snapshot: Snapshot
) -> Iterator[LeavingCluster]:
    """A LeavingCluster for each valid connection to a member that has not departed yet."""
    for connection in connections:
        departed = snapshot.fact(ClusterDeparted, connection.cluster) is not None
        if isinstance(connection, ClusterConnection) and not departed:
            yield LeavingCluster(connection)


class FormerMember(Struct, frozen=True):
    """A cluster in the status that is no longer named, and what is to become of it."""

    state: MemberState
    fate: Literal["leaving", "undecided", "released"]


def former_members(federation: Federation, snapshot: Snapshot) -> Iterator[FormerMember]:
    """Members in the status that the spec names no longer, with what becomes of each.

    A cluster that does not supervise names nobody. `released`: another supervisor names it;
    `undecided`: that is not known, or nobody is named; else `leaving`, as are all once the cluster
    does not supervise and its Federation is dissolved. Left out are abandoned ones, those without a
    Secret, and departed ones that no other supervisor names. One that is `leaving` stays so while
    the lists of others are not known.
    """
    claims = read_claims(snapshot, snapshot.local)
    supervises = claims is None or claims.supervisor
    ends = not supervises and is_dissolved(federation)
    named = {member.cluster_id for member in federation.spec.members if supervises}
    abandoned = abandoned_clusters(federation)
    others = read_other_supervisors(snapshot, federation)
    for state in federation.status.members:
        cluster = state.cluster_id
        if cluster in named or cluster in abandoned or not state.secret:
            continue
        if cluster in others.named:
            yield FormerMember(state, "released")
        elif snapshot.fact(ClusterDeparted, cluster) is None:
            undecided = not named or (others.unknown and not state.leaving)
            yield FormerMember(state, "undecided" if undecided and not ends else "leaving")


def _former_connections(
    federation: Federation, snapshot: Snapshot
) -> Iterator[LeavingCluster | ClusterConnection]:
    """Valid connections to former members: LeavingCluster if leaving, as they are if undecided.

    None for released ones, nor for those whose entry or Secret is invalid.
    """
    for former in former_members(federation, snapshot):
        state = former.state
        entry = Member(id_as_written=state.cluster_id, server=state.server, secret=state.secret)
        connection = _member_connection(0, entry, (), snapshot, {state.cluster_id: ()})
        if isinstance(connection, ClusterConnection) and former.fate == "leaving":
            yield LeavingCluster(connection)
        elif isinstance(connection, ClusterConnection) and former.fate == "undecided":
            yield connection


def abandoned_clusters(federation: Federation) -> tuple[ClusterId, ...]:
    """The clusters in the annotation `hanse.dev/abandoned`, in its order; empty without it."""
    value = federation.metadata.annotations.get(ABANDONED, "")
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _kind_not_served_intents(snapshot: Snapshot) -> Iterator[InvalidConnection]:
    """An InvalidConnection for every connected member, so that the runtime keeps the connection."""
    text = "the kind Federation is served no longer; apply the definitions of Hanse again"
    for cluster in snapshot.clusters(Role.MEMBER):
        yield InvalidConnection(FEATURE_NAME, cluster, "kind", "KindNotServed", text)


def _retirement_intents(
    federation: Federation | None, others: OtherSupervisors, snapshot: Snapshot
) -> Iterator[ReleasedCluster | InvalidConnection]:
    """ReleasedCluster for members that other supervisors name, InvalidConnection for the rest.

    For a cluster that supervises no longer, or names nobody. InvalidConnection keeps the
    connection: the last supervisor of a member keeps it, unless its Federation is dissolved; then
    the rest has no intent, and is left.
    """
    dissolved = federation is not None and is_dissolved(federation)
    text = "no other supervisor names it; let one, or end the federation: hanse dissolve"
    for cluster in snapshot.clusters(Role.MEMBER):
        if cluster in others.named:
            yield ReleasedCluster(cluster)
        elif not dissolved:
            yield InvalidConnection(FEATURE_NAME, cluster, "spec.members", "NoSuccessor", text)


def _member_connection(
    index: int,
    member: Member,
    members: tuple[Member, ...],
    snapshot: Snapshot,
    order: dict[ClusterId, tuple[ClusterId, ...]],
) -> ClusterConnection | InvalidConnection:
    """The connection to one member, or the fault of its entry or its Secret.

    The local cluster needs no Secret; no election is run for a cluster that claims another id. The
    leaders preferred to this cluster are those before it in `order`, all if it is not in it.
    """
    cluster, field = member.cluster_id, f"spec.members[{index}]"
    fault = entry_fault(index, member, members)
    secret = snapshot.get(snapshot.local, Secret, member.secret, SYSTEM)
    if fault is None and cluster != snapshot.local:  # the local cluster needs no Secret
        fault = secret_fault(index, member, secret)
    if fault is not None:
        return InvalidConnection(FEATURE_NAME, cluster, fault.field, fault.reason, fault.message)
    data = secret.data if secret is not None else {}
    token = data.get(TOKEN, b"").decode("ascii", "replace").strip()
    claims = read_claims(snapshot, cluster)
    preference = order[cluster]
    return ClusterConnection(
        cluster,
        frozenset({Role.MEMBER}),
        ServerCredentials(member.server, data.get(CA, b""), token),
        field=field,
        runs_election=claims is None
        or claims.cluster_id in ("", cluster),  # never lead another cluster
        preferred_leaders=preference[: preference.index(snapshot.local)]
        if snapshot.local in preference
        else preference,
    )


def entry_fault(index: int, member: Member, members: tuple[Member, ...]) -> MemberFault | None:
    """The first fault of a member's entry: an id or server that is invalid or an earlier entry's.

    None if there is no fault.
    """
    field = f"spec.members[{index}]"
    earlier = members[:index]
    if not CLUSTER_ID.fullmatch(member.cluster_id):
        text = f"{member.cluster_id[:70]!r} is no DNS label; use small letters, digits and dashes"
        return MemberFault(f"{field}.clusterID", "InvalidClusterID", text)
    if member.cluster_id in {m.cluster_id for m in earlier}:
        text = f"{member.cluster_id!r} is named twice; give each member an id of its own"
        return MemberFault(f"{field}.clusterID", "DuplicateClusterID", text)
    if why := server_url_error(member.server):
        return MemberFault(f"{field}.server", "InvalidServer", f"{member.server[:100]!r} {why}")
    twin = next((m for m in earlier if m.server.rstrip("/") == member.server.rstrip("/")), None)
    if twin is not None:
        text = f"{member.server!r} is also the server of {twin.cluster_id!r}; each has its own"
        return MemberFault(f"{field}.server", "DuplicateServer", text)
    return None


def server_url_error(server: str) -> str:
    """Why a URL cannot be that of an API server; empty when it can.

    It has a scheme, host, and maybe a port and path, but no user, query or fragment. Plain http is
    accepted for loopback hosts only.
    """
    try:
        parts = urlsplit(server)
        port = parts.port
    except ValueError:
        return "is not a URL with a port from 1 to 65535; write https://HOST:6443"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "is not the URL of an API server; write https://HOST:6443"
    if parts.username is not None or parts.query or parts.fragment:
        return "carries more than a host and a path; write https://HOST:6443"
    if parts.scheme == "http" and not is_loopback_host(parts.hostname):
        return "would show the token to everybody; use https"
    return ""


def secret_fault(index: int, member: Member, secret: Secret | None) -> MemberFault | None:
    """The first fault of a member's Secret: it is missing, or its token or its CA is invalid.

    None if there is no fault. A token is needed, of one line of ASCII; a CA is not.
    """
    field, name = f"spec.members[{index}].secret", f"Secret {SYSTEM}/{member.secret}"
    if secret is None:
        text = f"{name} does not exist; make it with the keys {TOKEN} and {CA}"
        return MemberFault(field, "SecretMissing", text)
    token = secret.data.get(TOKEN, b"").strip()
    if not token:
        text = f"{name} has no key {TOKEN}; put the token of the member's ServiceAccount there"
        return MemberFault(field, "TokenMissing", text)
    if not token.isascii() or not token.decode("ascii").isprintable():
        return MemberFault(field, "InvalidToken", f"{TOKEN} in {name} is not one line of text")
    ca = secret.data.get(CA, b"")
    if ca and _PEM not in ca:
        return MemberFault(
            field, "InvalidCertificate", f"{CA} in {name} holds no certificate in PEM"
        )
    return None


def _leader_preference(
    snapshot: Snapshot, members: tuple[ClusterId, ...]
) -> dict[ClusterId, tuple[ClusterId, ...]]:
    """For each member its leaders by preference: a supervisor itself first, then the others.

    Leaders are the members that claim to supervise, or whose claims are not listed, in a cycle. The
    first leaders of members that are no supervisors rotate over them.
    """
    supervisors = possible_supervisors(snapshot, members)
    order: dict[ClusterId, tuple[ClusterId, ...]] = {}
    children = 0
    for member in members:
        if member in supervisors:
            start = supervisors.index(member)
        else:
            start = children
            children += 1
        turn = start % len(supervisors) if supervisors else 0
        order[member] = (*supervisors[turn:], *supervisors[:turn])
    return order
