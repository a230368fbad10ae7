"""What the other supervisors of a federation name as its members, read from their Federations."""

from msgspec import Struct

from hanse.features.federation.claims import read_claims
from hanse.model.facts import ClusterDeparted, ClusterState, InvalidConnection, Leadership, Role
from hanse.model.kinds.federation import Federation
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot

FEATURE_NAME = "membership"
"""The name of the feature, which is the source of connections to members."""

DISSOLVE = "hanse.dev/dissolve"
"""Annotation of a Federation: its supervisor withdraws everything from all members."""

LEAVING = "hanse.dev/leaving"
"""Annotation of a Federation: when `hanse leave` of this cluster began, until it has ended."""
LEAVING_SUPERVISORS = "hanse.dev/leaving-supervisors"
"""Annotation of a Federation: the supervisors that cluster leaves, by id, parted by commas."""


class OtherSupervisors(Struct, frozen=True):
    """The members that each of the other supervisors names, as far as that is known."""

    members: dict[ClusterId, frozenset[ClusterId]] = {}
    """By supervisor; those that dissolve the federation name nobody."""
    unknown: tuple[ClusterId, ...] = ()
    """Supervisors whose Federation is not known, or that this cluster does not name."""

    @property
    def named(self) -> frozenset[ClusterId]:
        """The clusters that any of the other supervisors names as members."""
        return frozenset(cluster for members in self.members.values() for cluster in members)


def read_other_supervisors(snapshot: Snapshot, federation: Federation | None) -> OtherSupervisors:
    """The members that each other supervisor names, and the supervisors whose list is not known.

    A supervisor is a cluster that claims to be one, by its last recorded claim while claims cannot
    be read; one that dissolves its Federation names nobody. Unknown are one whose Federations are
    not listed, a cluster without known claim, and a leader that is no member. Clusters that are
    left, have departed or are invalid do not count.
    """
    recorded = {m.cluster_id: m.supervisor for m in federation.status.members} if federation else {}
    listed = [m.cluster_id for m in federation.spec.members] if federation else []
    members: dict[ClusterId, frozenset[ClusterId]] = {}
    unknown: set[ClusterId] = set()
    for cluster in sorted({*snapshot.clusters(Role.MEMBER), *listed, *recorded} - {snapshot.local}):
        if _is_list_read(cluster, snapshot):
            claims = read_claims(snapshot, cluster)
            supervises = claims.supervisor if claims is not None else recorded.get(cluster)
            if supervises and snapshot.listed_or_unserved(cluster, Federation):
                members[cluster] = _named_members(cluster, snapshot)
            elif supervises is not False:
                unknown.add(cluster)
    leaders = {holder_cluster(lead.holder) for lead in snapshot.facts(Leadership) if lead.holder}
    unknown |= leaders - {snapshot.local, *listed, *snapshot.clusters(Role.MEMBER)}
    return OtherSupervisors(members, tuple(sorted(unknown)))


def _is_list_read(cluster: ClusterId, snapshot: Snapshot) -> bool:
    """Whether another cluster's list of members is to be read: it is neither leaving nor departed.

    Without a connection: False if its entry is invalid or it has departed, else True.
    """
    state = snapshot.fact(ClusterState, cluster)
    if state is not None:
        return not state.leaving
    invalid = snapshot.fact(InvalidConnection, (FEATURE_NAME, cluster))
    return invalid is None and snapshot.fact(ClusterDeparted, cluster) is None


def differing_lists(federation: Federation, snapshot: Snapshot) -> list[str]:
    """A message for each member that only one of two supervisors names, with the `hanse join`.

    It compares this supervisor with each other one that names any member; empty if all agree.
    """
    others = read_other_supervisors(snapshot, federation)
    named = {member.cluster_id for member in federation.spec.members}
    name = federation.metadata.name
    found = []
    for supervisor, members in sorted(others.members.items()):
        if not members:
            continue  # it is about to join, or retires
        more, fewer = members - named, named - members
        for has, lacks, missing in (
            (supervisor, snapshot.local, more),
            (snapshot.local, supervisor, fewer),
        ):
            for cluster in sorted(missing):
                by = f"--supervisor {has if has != cluster else lacks}"
                if cluster in (*others.members, snapshot.local):
                    by = f"--supervises {by}"
                found.append(
                    f"{has} names {cluster} and {lacks} does not: hanse join --federation {name} "
                    f"--cluster-id {cluster} --context {cluster} {by}, or let it leave"
                )
    return found


def join_command(cluster: ClusterId, snapshot: Snapshot) -> str:
    """The `hanse join` that renews this supervisor's account and token in a member.

    It names this supervisor's oldest Federation, or NAME without one; it is not run.
    """
    federation = oldest_federation(snapshot.local, snapshot)
    name = federation.metadata.name if federation is not None else "NAME"
    return (
        f"hanse join --federation {name} --cluster-id {cluster} --context {cluster} "
        f"--supervisor {snapshot.local}"
    )


def is_dissolved(federation: Federation) -> bool:
    """Whether the annotation `hanse.dev/dissolve` is set, and not `false`."""
    return federation.metadata.annotations.get(DISSOLVE, "false") != "false"


def oldest_federation(cluster: ClusterId, snapshot: Snapshot) -> Federation | None:
    """The oldest Federation of a cluster that is not being deleted; None where there is none."""
    found = [f for f in snapshot.all(cluster, Federation) if f.metadata.deletion_timestamp is None]
    return min(found, key=_age, default=None)


def _age(federation: Federation) -> tuple[str, str]:
    """Sort key: by creation, then by name; a Federation without creation time comes last."""
    created = federation.metadata.creation_timestamp
    return (created.isoformat() if created is not None else "~", federation.metadata.name)


def _named_members(cluster: ClusterId, snapshot: Snapshot) -> frozenset[ClusterId]:
    """The members in a cluster's oldest Federation; none without one, or if it is dissolved."""
    federation = oldest_federation(cluster, snapshot)
    if federation is None or is_dissolved(federation):
        return frozenset()
    return frozenset(member.cluster_id for member in federation.spec.members)
