"""A fleet is judged the same by what `hanse status` reads of it as by all of its objects."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from hanse.app.views import Examination, examine, first_reads
from hanse.cli.fleet import (
    BROKER_READS,
    SAMPLE,
    ClusterRead,
    build_fleet,
    complete,
    read_further,
)
from hanse.features.services.names import (
    DOMAIN,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    TO_CLUSTERS,
)
from hanse.features.services.reading import ALL_IMPORTS, COUNTED
from hanse.kube.client import Client
from hanse.kube.watch_events import Counted, Listed
from hanse.model.conditions import Condition, condition
from hanse.model.findings import Unknown
from hanse.model.kinds.core import Namespace, Service, ServiceSpec
from hanse.model.kinds.discovery import MANAGED_BY, Endpoint, EndpointConditions, EndpointSlice
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ImportedPort,
    ServiceExport,
    ServiceExportStatus,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import Meta, Object
from hanse.model.ownership import OWNER
from tests.support.fleet_reads import NOW, lease, read
from tinykube.selectors import parse_labels

MEMBERS = ("bergen", "lubeck", "riga", "visby")
SPACES = ("bank", "shop")
GOOD = (condition("Valid", True, "Valid"), condition("Ready", True, "Exported"))
CONFLICT = (*GOOD, condition("Conflict", True, "PortConflict", "port 80 differs"))
INVALID = (condition("Valid", False, "NoService", "there is no Service"),)


class Export(Struct, frozen=True):
    ready: bool
    conditions: tuple[Condition, ...]
    to: tuple[str, ...]


class FederatedService(Struct, frozen=True):
    namespace: str
    exports: dict[str, Export]
    foreign: frozenset[str]
    """Members where a ServiceImport of somebody else has its name."""
    missing: frozenset[str]
    """Members that should import it, and do not."""


class Fleet(Struct, frozen=True):
    services: list[FederatedService]
    spaces: dict[str, frozenset[str]]
    publisher: str
    unread: frozenset[str]


exports = st.builds(
    Export,
    ready=st.sampled_from([True, True, False]),
    conditions=st.sampled_from([GOOD, GOOD, GOOD, CONFLICT, INVALID]),
    to=st.sampled_from([(), (), ("riga",), ("lubeck", "visby")]),
)
some = st.frozensets(st.sampled_from(MEMBERS), max_size=1)
services = st.builds(
    FederatedService,
    namespace=st.sampled_from(SPACES),
    exports=st.dictionaries(st.sampled_from(MEMBERS), exports, min_size=1, max_size=2),
    foreign=some,
    missing=some,
)
fleets = st.builds(
    Fleet,
    services=st.lists(services, max_size=6),
    spaces=st.fixed_dictionaries(
        {
            m: st.sampled_from([frozenset(SPACES), frozenset(SPACES), frozenset({"shop"})])
            for m in MEMBERS
        }
    ),
    publisher=st.sampled_from(["", "riga"]),
    unread=some,
)


def objects_of(fleet: Fleet) -> dict[str, list[Object]]:
    """The objects of each cluster, as agents write them."""
    found: dict[str, list[Object]] = {
        m: [Namespace(metadata=Meta(name=s)) for s in sorted(fleet.spaces[m])] for m in MEMBERS
    }
    found["broker"] = [
        ClusterSet(metadata=Meta(name="hanse")),
        *(lease(m, "hanse-broker", m) for m in MEMBERS),
    ]
    for number, service in enumerate(fleet.services):
        name = f"web{number}"
        meta = Meta(name=name, namespace=service.namespace, creation_timestamp=NOW)
        made = {m: e for m, e in service.exports.items() if service.namespace in fleet.spaces[m]}
        valid = {m: e for m, e in made.items() if e.conditions != INVALID}
        for member, export in made.items():
            annotations = {TO_CLUSTERS: ",".join(export.to)} if export.to else {}
            status = ServiceExportStatus(conditions=export.conditions)
            found[member] += [
                ServiceExport(metadata=replace(meta, annotations=annotations), status=status),
                Service(metadata=meta, spec=ServiceSpec(selector={"app": name})),
            ]
        for member, export in valid.items():
            found["broker"].append(
                slice_of(name, service.namespace, member, export, "hanse-broker")
            )
        for member in MEMBERS:
            found[member] += imported(fleet, service, name, member, valid)
    return found


def imported(
    fleet: Fleet, service: FederatedService, name: str, member: str, valid: dict[str, Export]
) -> list[Object]:
    """What a member has of a service that others export."""
    meta = Meta(name=name, namespace=service.namespace, creation_timestamp=NOW)
    visible = [m for m, e in valid.items() if not e.to or member in e.to or m == member]
    if service.namespace not in fleet.spaces[member]:
        return []
    if member in service.foreign:
        return [ServiceImport(metadata=meta, spec=ServiceImportSpec(type="Headless", ports=()))]
    if not visible or member in service.missing:
        return []
    published = [condition("Published", name != "web0", "Foreign", "it is another's")]
    return [
        ServiceImport(
            metadata=replace(meta, labels={OWNER: "services"}),
            spec=ServiceImportSpec(type="ClusterSetIP", ports=(ImportedPort(port=80),)),
            status=ServiceImportStatus(
                clusters=tuple(ExportingCluster(cluster=m) for m in visible),
                conditions=tuple(published if member == fleet.publisher else ()),
            ),
        ),
        Service(
            metadata=Meta(
                name=f"derived-{name}", namespace=service.namespace, labels={SERVICE_NAME: name}
            )
        ),
        *(slice_of(name, service.namespace, m, valid[m], service.namespace) for m in visible),
    ]


def slice_of(name: str, space: str, source: str, export: Export, where: str) -> EndpointSlice:
    labels = {SERVICE_NAME: name, SOURCE_CLUSTER: source, MANAGED_BY: DOMAIN}
    if where == "hanse-broker":
        labels[SERVICE_NAMESPACE] = space
    endpoint = Endpoint(addresses=("10.0.0.1",), conditions=EndpointConditions(ready=export.ready))
    meta = Meta(name=f"{name}-{source}", namespace=where, labels=labels)
    return EndpointSlice(metadata=meta, address_type="IPv4", endpoints=(endpoint,))


class Server:
    """Lists and counts objects as an API server does."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self._objects = objects
        self.listed = 0

    async def list(
        self, kind: type[Any], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Listed[Any]:
        _, _, name = fields.partition("metadata.name=")
        terms = parse_labels(labels)
        found = tuple(
            one
            for one in self._objects
            if type(one) is kind
            and namespace in ("", one.namespace)
            and name in ("", one.name)
            and all(term.holds(one.metadata.labels) for term in terms)
        )
        self.listed += len(found)
        return Listed(found, "1")

    async def count(self, kind: type[Any], *, first: int) -> Counted[Any]:
        found = tuple(one for one in self._objects if type(one) is kind)
        return Counted(found[:first], len(found))


async def narrowed(
    objects: dict[str, list[Object]], unread: Iterable[str]
) -> dict[str, ClusterRead]:
    """The clusters as `hanse status` reads them."""
    servers = {name: Server(found) for name, found in objects.items()}
    reads = {}
    for name, server in servers.items():
        watches = dict.fromkeys((*first_reads(), *BROKER_READS))
        lists = {
            w: await server.list(w.kind, namespace=w.namespace, labels=w.labels) for w in watches
        }
        counts = {k.kind: await server.count(k, first=SAMPLE) for k in COUNTED}
        reads[name] = ClusterRead(name, lists, counts)
    for name in unread:
        reads[name] = ClusterRead(name, failure="no answer")
    return await complete(reads, cast("dict[str, Client]", servers))


def judged(reads: Iterable[ClusterRead]) -> Examination:
    return examine(build_fleet(reads, NOW))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(fleets)
def test_what_is_wrong_is_found_by_the_narrowed_reading(fleet: Fleet) -> None:
    objects = objects_of(fleet)
    for member in MEMBERS:
        objects[member].append(lease("hanse-agent", "hanse-system", f"{member}_0"))
    whole = judged(
        ClusterRead(name, failure="no answer")
        if name in fleet.unread
        else read(name, *found, agent=None)
        for name, found in objects.items()
    )

    few = judged(asyncio.run(narrowed(objects, fleet.unread)).values())

    assert few.findings == whole.findings
    for view, items in whole.items.items():
        if view != "services":
            assert few.items[view] == items, view
    assert few.items["services"].keys() == whole.items["services"].keys()
    unknown: dict[str, Any] = {"addresses": {}}  # each member has its own
    if fleet.unread or any(one.missing for one in fleet.services):
        unknown["importers"] = ()  # one import too few and another too many are the same number
    for key, item in whole.items["services"].items():
        assert replace(few.items["services"][key], **unknown) == replace(item, **unknown)


def test_members_with_the_same_imports_are_counted_and_not_listed() -> None:
    good = Export(ready=True, conditions=GOOD, to=())
    service = FederatedService("shop", {"bergen": good}, frozenset(), frozenset())
    fleet = Fleet([service] * 5, dict.fromkeys(MEMBERS, frozenset(SPACES)), "", frozenset())
    objects = objects_of(fleet)
    for member in MEMBERS:
        objects[member].append(lease("hanse-agent", "hanse-system", f"{member}_0"))

    reads = asyncio.run(narrowed(objects, ()))

    listed = {name: len(one.objects(ServiceImport)) for name, one in reads.items()}
    assert listed == {"bergen": 5, "broker": 0, "lubeck": 0, "riga": 0, "visby": 0}
    items = judged(reads.values()).items["services"].values()
    assert {one.importers for one in items} == {MEMBERS}


async def test_a_further_list_that_fails_is_said_to_be_unknown() -> None:
    class Cut(Server):
        async def list(self, *_: Any, **__: Any) -> Listed[Any]:
            raise TimeoutError

    read_first = read("riga", Namespace(metadata=Meta(name="shop")))

    found = await read_further(read_first, cast("Client", Cut(())), [ALL_IMPORTS])

    (unknown,) = [f for f in judged([found]).findings if f.code == "NotReadable"]
    assert unknown.certainty == Unknown("no answer in time")
    assert ALL_IMPORTS in found.failed
