"""Builders of Federations, claims, Secrets and snapshots."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from msgspec.structs import replace

from hanse.features.federation.feature import Membership
from hanse.model.facts import ClusterState, Fact, Role
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import (
    CLUSTER_ID,
    SUPERVISOR,
    SYSTEM,
    ClusterClaim,
    Federation,
    FederationSpec,
    FederationStatus,
    Member,
)
from hanse.model.objects import Meta, Object
from hanse.model.snapshot import Snapshot
from tests.support.builders import cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

FEATURE = Membership()
HERE = "lubeck"
PEM = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


def claim(name: str, value: str, about: str = "") -> ClusterClaim:
    return ClusterClaim(metadata=Meta(name=name), value=value, claim=about)


def member(name: str, server: str = "") -> Member:
    server = server or f"https://{name}.example:6443"
    return Member(id_as_written=name, server=server, secret=f"member-{name}")


def federation(*members: str, status: FederationStatus | None = None) -> Federation:
    spec = FederationSpec(members=tuple(member(m) for m in members))
    made = Federation(metadata=Meta(name="league", generation=1), spec=spec)
    return replace(made, status=status) if status is not None else made


def secret(name: str, token: bytes = b"t", **data: bytes) -> Secret:
    meta = Meta(name=f"member-{name}", namespace=SYSTEM)
    return Secret(metadata=meta, data={"token": token, "ca.crt": PEM, **data})


SUPERVISES = (claim(CLUSTER_ID, HERE), claim(SUPERVISOR, "true"))


def observed(
    *here: Object,
    clusters: Iterable[ClusterState] = (),
    objects: Mapping[str, tuple[Object, ...]] | None = None,
    facts: Iterable[Fact] = (),
    after: timedelta = timedelta(0),
) -> Snapshot:
    """The snapshot of the agent of lubeck: local objects, and those of connected members."""
    known = {HERE: tuple(stored(o) for o in here), **(objects or {})}
    states = [*clusters]
    if HERE not in {s.cluster for s in states}:
        states.append(cluster(HERE, Role.LOCAL, Role.MEMBER))
    return snapshot(FEATURE, HERE, states, known, facts, EPOCH + after)
