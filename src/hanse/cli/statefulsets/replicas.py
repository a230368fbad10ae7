"""Where the replicas of federated sets are, read from the broker."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import CommandFailed
from hanse.cli.reaching import reached
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.statefulsets.names import replica_name
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.kube.client import Client
from hanse.kube.errors import BadCredentials, KubeError, NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.stateful import (
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    newer_schema_message,
)
from hanse.model.objects import ClusterId

PATIENCE = 10.0


class ReplicaView(Struct, frozen=True, rename="camel"):
    """One replica: where it is, whether it is ready, and by which names it is known."""

    name: str
    cluster: ClusterId
    state: str
    """`ready`, `not ready`, `missing`, `away` with its cluster, or `unknown`: not ours to read."""
    addresses: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class SetView(Struct, frozen=True, rename="camel"):
    """One set over all clusters."""

    namespace: str
    name: str
    service: str
    replicas: tuple[ReplicaView, ...]
    trouble: tuple[str, ...] = ()

    @property
    def ready(self) -> int:
        return sum(replica.state == "ready" for replica in self.replicas)


async def read_sets(
    ways: Sequence[ClusterAccess], namespace: str, names: StatefulSetOptions
) -> list[SetView]:
    """Every set of a namespace, or of all; raises `CommandFailed` where there is no broker to ask."""
    way = await broker_among(ways)
    async with reached(way) as client:
        try:
            shares = (await client.list(StatefulSetShares, namespace=namespace)).objects
            parts = (await client.list(StatefulSetPart, namespace=BROKER_NAMESPACE)).objects
        except NotFound:
            raise CommandFailed(
                f"{way.name} does not serve StatefulSetShares; see `hanse broker init`"
            ) from None
        leases = (await client.list(Lease, namespace=BROKER_NAMESPACE)).objects
    silent = _silent(leases, datetime.now(UTC))
    reports = [p.spec for p in parts if namespace in ("", p.spec.namespace)]
    known = [set_view(s, reports, silent, names) for s in shares]
    return [*known, *sets_without_shares(shares, reports)]


def sets_without_shares(
    shares: Iterable[StatefulSetShares], parts: Iterable[StatefulSetPartSpec]
) -> list[SetView]:
    """Sets that clusters run and the federation does not know: lost with a broker, or back."""
    known = {(s.metadata.namespace, s.metadata.name) for s in shares}
    trouble: dict[tuple[str, str], list[str]] = {}
    for part in sorted(parts, key=lambda p: (p.namespace, p.name, p.cluster)):
        if (part.namespace, part.name) not in known and part.ended is None and _trouble(part):
            told = trouble.setdefault((part.namespace, part.name), [])
            told.append(f"{part.cluster}: {_trouble(part)}")
    return [SetView(space, name, "", (), tuple(told)) for (space, name), told in trouble.items()]


async def broker_among(ways: Sequence[ClusterAccess]) -> ClusterAccess:
    """The way that leads to a broker; raises `CommandFailed` where none does."""
    found = await asyncio.gather(*(_is_broker(way) for way in ways))
    told = list(zip(ways, found, strict=True))
    for way, answer in told:
        if answer is True:
            return way
    silent = [f"{way.name} does not answer ({why})" for way, why in told if isinstance(why, str)]
    if silent:
        raise CommandFailed(
            f"no broker was found: {', '.join(silent)}; start it, see `hanse doctor`"
        )
    listed = ", ".join(way.name for way in ways)
    raise CommandFailed(f"none of {listed} is a broker; name its context with --context")


async def _is_broker(way: ClusterAccess) -> bool | str:
    """Whether a way leads to a broker, or why it cannot be said."""
    client = Client(HttpTransport(way.credentials))
    try:
        async with asyncio.timeout(PATIENCE):
            return bool((await client.list(ClusterSet)).objects)
    except NotFound:
        return False
    except TimeoutError:
        return f"nothing within {PATIENCE:.0f} s"
    except (KubeError, BadCredentials) as error:
        return str(error)
    finally:
        await client.close()


def set_view(
    record: StatefulSetShares,
    parts: Iterable[StatefulSetPartSpec],
    silent: frozenset[ClusterId],
    names: StatefulSetOptions,
) -> SetView:
    """One set as its shares and its clusters' reports have it."""
    meta, spec = record.metadata, record.spec
    own = {p.cluster: p for p in parts if (p.namespace, p.name) == (meta.namespace, meta.name)}
    if spec.newer:
        return SetView(
            meta.namespace, meta.name, "", (), (f"shares: {newer_schema_message(spec.schema)}",)
        )
    return SetView(
        meta.namespace,
        meta.name,
        spec.service,
        tuple(
            _replica(record, share.name, ordinal, own.get(share.name), silent, names)
            for share in spec.shares
            for ordinal in range(spec.first_ordinal, spec.first_ordinal + share.replicas)
        ),
        tuple(f"{c}: {told}" for c, p in sorted(own.items()) if (told := _trouble(p))),
    )


def _trouble(part: StatefulSetPartSpec) -> str:
    return f"its report: {newer_schema_message(part.schema)}" if part.newer else part.trouble


def _replica(
    record: StatefulSetShares,
    cluster: ClusterId,
    ordinal: int,
    part: StatefulSetPartSpec | None,
    silent: frozenset[ClusterId],
    options: StatefulSetOptions,
) -> ReplicaView:
    meta, spec = record.metadata, record.spec
    name = replica_name(meta.name, cluster, ordinal)
    unread = part is not None and part.newer
    replicas = part.replicas if part is not None and not part.newer else ()
    told = next((r for r in replicas if r.name == name), None)
    state = "missing" if told is None else "ready" if told.ready else "not ready"
    below = f"{spec.service}.{meta.namespace}"
    known = [f"{name}.{below}.svc.{options.zone}"] if spec.service else []
    if spec.service and spec.load_balanced:
        known.append(f"{name}.{below}.{options.federation}.svc.{options.zone}")
    addresses = told.addresses if told is not None else ()
    state = "away" if cluster in silent else "unknown" if unread else state
    return ReplicaView(name, cluster, state, addresses, tuple(known))


def _silent(leases: Iterable[Lease], now: datetime) -> frozenset[ClusterId]:
    """Clusters whose sign of life is too old."""
    return frozenset(
        lease.metadata.name
        for lease in leases
        if lease.spec.renew_time
        and now - datetime.fromisoformat(lease.spec.renew_time)
        > timedelta(seconds=lease.spec.lease_duration_seconds)
    )
