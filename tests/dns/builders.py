"""Builders of imported services, and a resolver that answers from them without a network."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
from msgspec import Struct

from hanse.dns.responder import respond
from hanse.dns.table import Table
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.facts import ClusterState, Fact, Phase, Role
from hanse.model.kinds.discovery import (
    AddressType,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec, MemberSettings, Profile
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ImportedPort,
    ImportType,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, Snapshot
from tests.support.builders import cluster, snapshot, stored
from tests.support.zones import compiled

ZONE = "clusterset.local"
WEB = f"web.shop.svc.{ZONE}"
HTTP = ("http", 80)


class ZoneWatcher:
    """A feature that only looks, so that snapshots hold what zones watch."""

    name = "dns"
    watches = ServiceZone(View("any")).watches

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return ()

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        return Plan()


def imported(
    name: str = "web",
    *,
    ports: Sequence[tuple[str, int]] = (HTTP,),
    type_: ImportType = "ClusterSetIP",
    ips: tuple[str, ...] = (),
    clusters: Sequence[str] = (),
    namespace: str = "shop",
) -> ServiceImport:
    """A service as its importing cluster has it."""
    imported_ports = tuple(ImportedPort(name=n, port=p) for n, p in ports)
    exporting = tuple(ExportingCluster(cluster=c) for c in clusters)
    return ServiceImport(
        metadata=Meta(name=name, namespace=namespace),
        spec=ServiceImportSpec(type=type_, ports=imported_ports, ips=ips),
        status=ServiceImportStatus(clusters=exporting),
    )


def pod(*addresses: str, hostname: str = "", ready: bool = True) -> Endpoint:
    """One endpoint."""
    return Endpoint(
        addresses=addresses, hostname=hostname, conditions=EndpointConditions(ready=ready)
    )


def endpoint_slice(
    source: str,
    *endpoints: Endpoint | str,
    service: str = "web",
    ports: Sequence[tuple[str, int]] = (HTTP,),
    weight: int | None = None,
    namespace: str = "shop",
    slot: str = "",
) -> EndpointSlice:
    """A slice that came from a cluster; an address stands for a ready endpoint."""
    several = tuple(pod(e) if isinstance(e, str) else e for e in endpoints)
    first = several[0].addresses[0] if several else ""
    family: AddressType = "IPv6" if ":" in first else "IPv4"
    return EndpointSlice(
        metadata=Meta(
            name=f"{service}-{source}-{family.lower()}{slot}",
            namespace=namespace,
            labels={
                "multicluster.kubernetes.io/service-name": service,
                "multicluster.kubernetes.io/source-cluster": source,
            },
            annotations={} if weight is None else {"services.hanse.dev/weight": str(weight)},
        ),
        address_type=family,
        endpoints=several,
        ports=tuple(EndpointPort(name=n, port=p) for n, p in ports),
    )


def rules(profile: Profile = "lighthouse", **weights: int) -> ClusterSet:
    """The fleet's rules."""
    members = tuple(MemberSettings(id=c, weight=w) for c, w in weights.items())
    return ClusterSet(
        metadata=Meta(name="fleet"), spec=ClusterSetSpec(profile=profile, clusters=members)
    )


def cluster_snapshot(
    local: str,
    *objects: Object,
    fleet: ClusterSet | None = None,
    facts: Iterable[Fact] = (),
    phase: Phase = Phase.SYNCED,
    broker: Phase = Phase.SYNCED,
) -> Snapshot:
    """What an agent of a cluster sees."""
    clusters: list[ClusterState] = [
        cluster(local, Role.LOCAL, phase=phase),
        cluster("broker", Role.BROKER, phase=broker),
    ]
    here: Mapping[str, Sequence[Object]] = {
        local: [stored(o) for o in objects],
        "broker": [stored(fleet)] if fleet is not None else [],
    }
    return snapshot(ZoneWatcher(), local, clusters, here, facts)


class DnsAnswer(Struct, frozen=True):
    """An answer as people would write it down."""

    code: str
    records: tuple[str, ...] = ()
    authority: tuple[str, ...] = ()
    message: dns.message.Message | None = None


NXDOMAIN, NODATA = "NXDOMAIN", "NODATA"


def parse_answer(message: dns.message.Message) -> DnsAnswer:
    """What a message says; an empty answer without an error is NODATA."""
    records = tuple(sorted(str(rdata) for rrset in message.answer for rdata in rrset))
    authority = tuple(dns.rdatatype.to_text(rrset.rdtype) for rrset in message.authority)
    code = dns.rcode.to_text(message.rcode())
    cut = bool(message.flags & dns.flags.TC)
    empty = code == "NOERROR" and not records and not cut
    return DnsAnswer(NODATA if empty else code, records, authority, message)


class ZoneResolver:
    """The names of one view, asked in wire format without a network."""

    def __init__(
        self,
        snapshot: Snapshot,
        view: View | None = None,
        source: Callable[[View], ZoneSource] = ServiceZone,
    ) -> None:
        view = view or View("test")
        self.table = Table(view.name, Random(1))
        self.table.apply(compiled(view, [source(view)], snapshot))

    def __call__(self, name: str = WEB, rtype: str = "A") -> DnsAnswer:
        query = dns.message.make_query(name, rtype)
        answer = respond(query.to_wire(), self.table, stream=True)
        assert answer is not None
        message = dns.message.from_wire(answer)
        assert query.is_response(message)
        return parse_answer(message)
