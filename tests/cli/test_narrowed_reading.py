"""A fleet is judged the same by what `hanse status` reads of it as by all of its objects."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from hanse.app.views import Examination, examine, first_reads
from hanse.cli.clusters import ClusterAccess, ReadFailure
from hanse.cli.console.poller import FleetPoller
from hanse.cli.doctor.examination import examine_clusters
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.cli.fleet_lists import BROKER_READS, SAMPLE, complete, read_further, read_objects
from hanse.cli.inventory import (
    AccessAnswer,
    ClusterInventory,
    VersionAnswer,
    service_inventory,
)
from hanse.cli.status import clusters
from hanse.cli.status.local import LocalFederationState
from hanse.cli.status.services import json_document, print_table
from hanse.features.services import reading
from hanse.features.services.clusters import source_cluster
from hanse.features.services.names import (
    DOMAIN,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    TO_CLUSTERS,
)
from hanse.features.services.reading import ALL_IMPORTS, COUNTED, slices_from
from hanse.kube.client import Client
from hanse.kube.client_config import Credentials
from hanse.kube.concurrency_limit import AdaptiveConcurrencyLimit
from hanse.kube.errors import ServerError, Status, Unreachable
from hanse.kube.rest_mapper import RestMapper
from hanse.kube.transport import Request, Response, Transport
from hanse.kube.watch_events import Counted, Listed
from hanse.model.conditions import Condition, condition
from hanse.model.facts import Role
from hanse.model.findings import Unknown, credentials_ref
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Service, ServiceSpec
from hanse.model.kinds.discovery import MANAGED_BY, Endpoint, EndpointConditions, EndpointSlice
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterMemberStatus,
    ClusterSet,
)
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
from hanse.model.snapshot import Watch
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
    unpublished: str = "web0"
    """The import whose names the publisher could not publish."""


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
    unpublished=st.sampled_from([f"web{number}" for number in range(6)]),
)


def objects_of(fleet: Fleet) -> dict[str, list[Object]]:
    """The objects of each cluster, as agents write them."""
    found: dict[str, list[Object]] = {
        m: [Namespace(metadata=Meta(name=s)) for s in sorted(fleet.spaces[m])] for m in MEMBERS
    }
    found["broker"] = [
        ClusterSet(metadata=Meta(name="hanse")),
        *(lease(m, "hanse-broker", m) for m in MEMBERS),
        *(record(m, publishes=m == fleet.publisher) for m in MEMBERS),
    ]
    for member in MEMBERS:
        found[member].append(lease("hanse-agent", "hanse-system", f"{member}_0"))
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


def record(member: str, *, publishes: bool) -> ClusterMember:
    """The record of a member on the broker, as its agent keeps it."""
    features = ("publishing", "services") if publishes else ("services",)
    return ClusterMember(
        metadata=Meta(name=member, namespace="hanse-broker"),
        spec=ClusterMemberSpec(cluster_id=member, uid=f"{member}-uid", features=features),
        status=ClusterMemberStatus(phase="Ready", since=NOW),
    )


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
    fails = member == fleet.publisher and name == fleet.unpublished
    refused = condition("Published", False, "NameTaken", "it is another's")
    return [
        ServiceImport(
            metadata=replace(meta, labels={OWNER: "services"}),
            spec=ServiceImportSpec(type="ClusterSetIP", ports=(ImportedPort(port=80),)),
            status=ServiceImportStatus(
                clusters=tuple(ExportingCluster(cluster=m) for m in visible),
                conditions=(refused,) if fails else (),
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


@pytest.fixture(scope="module", autouse=True)
def _many_imports() -> Iterator[None]:
    """As in a large fleet: no number of imports is few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "FEW_IMPORTS", 0)
        yield


class Server:
    """Lists and counts objects as an API server does."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self._objects = objects
        self.listed = 0
        self.rest_mapper = RestMapper()

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

    async def patch(self, *_: object, dry_run: bool) -> None:
        """Accept a dry run."""
        assert dry_run, "a reader writes nothing"


class Refusing(Server):
    """Does not list some of what it is asked for."""

    def __init__(self, objects: Sequence[Object], *refused: Watch) -> None:
        super().__init__(objects)
        self._refused = {(one.kind, one.labels) for one in refused}

    async def list(
        self, kind: type[Any], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Listed[Any]:
        if (kind, labels) in self._refused and not fields:
            raise TimeoutError
        return await super().list(kind, namespace=namespace, labels=labels, fields=fields)


class Uncounting(Server):
    """Does not say how many objects follow a page."""

    async def count(self, kind: type[Any], *, first: int) -> Counted[Any]:
        return Counted((await super().count(kind, first=first)).first, None)


def same_everywhere(number: int, publisher: str = "", unpublished: str = "") -> Fleet:
    """A fleet whose members all import so many services of bergen."""
    good = Export(ready=True, conditions=GOOD, to=())
    service = FederatedService("shop", {"bergen": good}, frozenset(), frozenset())
    spaces = dict.fromkeys(MEMBERS, frozenset(SPACES))
    return Fleet([service] * number, spaces, publisher, frozenset(), unpublished)


async def first_read(name: str, server: Server) -> ClusterRead:
    """A cluster as it is read at first."""
    watches = dict.fromkeys((*first_reads(), *BROKER_READS))
    lists = {w: await server.list(w.kind, namespace=w.namespace, labels=w.labels) for w in watches}
    return ClusterRead(name, lists, {k.kind: await server.count(k, first=SAMPLE) for k in COUNTED})


async def narrowed(
    objects: dict[str, list[Object]], unread: Iterable[str], *, servers: Mapping[str, Server] = {}
) -> dict[str, ClusterRead]:
    """The clusters as `hanse status` reads them; some of them by servers of their own."""
    servers = {**{name: Server(found) for name, found in objects.items()}, **servers}
    reads = {name: await first_read(name, server) for name, server in servers.items()}
    for name in unread:
        reads[name] = ClusterRead(name, failure="no answer")
    return await complete(reads, cast("dict[str, Client]", servers))


def judged(reads: Iterable[ClusterRead]) -> Examination:
    return examine(build_fleet(reads, NOW))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(fleets)
def test_what_is_wrong_is_found_by_the_narrowed_reading(fleet: Fleet) -> None:
    objects = objects_of(fleet)
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


def test_few_imports_are_all_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FEW_IMPORTS", 5)

    reads = asyncio.run(narrowed(objects_of(same_everywhere(5)), ()))

    listed = {name: len(one.objects(ServiceImport)) for name, one in reads.items()}
    assert listed == {"bergen": 5, "broker": 0, "lubeck": 5, "riga": 5, "visby": 5}


def test_members_with_the_same_imports_are_counted_and_not_listed() -> None:
    objects = objects_of(same_everywhere(5))

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


async def test_a_further_list_that_fails_does_not_hide_the_others() -> None:
    shop = Service(metadata=Meta(name="web", namespace="shop"))
    services, exports = Watch(Role.LOCAL, Service), Watch(Role.LOCAL, ServiceExport)
    server = Refusing([shop], ALL_IMPORTS)

    found = await read_further(
        read("riga"), cast("Client", server), [services, ALL_IMPORTS, exports]
    )

    assert found.objects(Service) == [shop]
    assert found.denied == {ServiceImport.kind: "no answer in time"}
    assert found.failed == {ALL_IMPORTS}


async def test_what_waits_for_a_connection_is_not_asked_of_a_server_that_does_not_answer() -> None:
    class Silent:
        sent = 0

        async def send(self, _: Request) -> Response:
            self.sent += 1
            raise Unreachable("connection refused")

    transport = Silent()
    limit = AdaptiveConcurrencyLimit(first=1, most=1)
    client = Client(cast("Transport", transport), limit=limit)
    watches = [Watch(Role.LOCAL, kind) for kind in (Namespace, Service, EndpointSlice)]

    found = await read_further(read("riga"), client, watches)
    assert transport.sent == 1
    assert found.failed == {*watches}
    assert set(found.denied.values()) == {"connection refused"}

    await read_further(read("riga"), client, watches)
    assert transport.sent == 2  # it may answer now


def codes(reads: Iterable[ClusterRead]) -> list[str]:
    return [one.code for one in judged(reads).findings]


async def test_a_name_that_is_not_published_is_found_among_many_imports() -> None:
    objects = objects_of(same_everywhere(12, "riga", "web11"))

    reads = await narrowed(objects, ())

    assert "NotPublished" in codes(reads.values())
    assert {n for n, one in reads.items() if ALL_IMPORTS in one.lists} == {"bergen", "riga"}


@pytest.mark.parametrize(
    "doubt",
    ["no record", "joining", "no features", "agent began after its last renewal", "no agent"],
)
async def test_all_imports_are_listed_where_it_is_not_sure_that_no_names_are_published(
    doubt: str,
) -> None:
    objects = objects_of(same_everywhere(12))
    known = record("riga", publishes=False)
    broker = [one for one in objects["broker"] if one != known]
    own = [one for one in objects["riga"] if type(one) is not Lease]
    agent = lease("hanse-agent", "hanse-system", "riga_1")
    began = (NOW + timedelta(seconds=1)).isoformat()
    match doubt:
        case "no record":
            objects["broker"] = broker
        case "joining":
            objects["broker"] = [*broker, replace(known, status=ClusterMemberStatus())]
        case "no features":
            objects["broker"] = [*broker, replace(known, spec=replace(known.spec, features=()))]
        case "no agent":
            objects["riga"] = own
        case _:
            restarted = replace(agent, spec=replace(agent.spec, acquire_time=began))
            objects["riga"] = [*own, restarted]

    reads = await narrowed(objects, ())

    assert {n for n, one in reads.items() if ALL_IMPORTS in one.lists} == {"bergen", "riga"}


async def test_another_member_is_asked_where_one_does_not_give_its_imports() -> None:
    objects = objects_of(same_everywhere(3))
    slow = {"lubeck": Refusing(objects["lubeck"], ALL_IMPORTS)}

    reads = await narrowed(objects, ["bergen"], servers=slow)

    found = judged(reads.values())
    assert found.items["services"].keys() == {"shop/web0", "shop/web1", "shop/web2"}
    assert "NoEndpoints" not in codes(reads.values())
    assert ALL_IMPORTS in reads["riga"].lists


async def test_another_of_those_that_differ_is_asked_where_one_does_not_give_its_imports() -> None:
    objects = objects_of(same_everywhere(3))
    for member in ("lubeck", "riga"):
        more = Meta(name="api", namespace="shop", labels={OWNER: "services"})
        spec = ServiceImportSpec(type="Headless", ports=())
        objects[member].append(ServiceImport(metadata=more, spec=spec))
    slow = {"lubeck": Refusing(objects["lubeck"], ALL_IMPORTS)}

    reads = await narrowed(objects, (), servers=slow)

    assert "shop/api" in judged(reads.values()).items["services"]


async def test_a_further_list_may_take_as_long_as_the_first_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(Server):
        async def list(self, kind: type[Any], **chosen: Any) -> Listed[Any]:
            await asyncio.sleep(0.05)
            return await super().list(kind, **chosen)

    monkeypatch.setattr("hanse.cli.clusters.READ_TIMEOUT", timedelta(milliseconds=1))
    monkeypatch.setattr(
        "hanse.cli.fleet_lists.READ_TIMEOUT", timedelta(milliseconds=1), raising=False
    )
    objects = objects_of(same_everywhere(3))

    reads = await narrowed(objects, (), servers={"bergen": Slow(objects["bergen"])})

    assert ALL_IMPORTS in reads["bergen"].lists


async def test_endpoints_are_asked_of_another_importer_where_one_does_not_give_them() -> None:
    objects = objects_of(same_everywhere(3))
    del objects["bergen"]  # no context of the person's is of it, and it renews its Lease
    slow = {"lubeck": Refusing(objects["lubeck"], slices_from("bergen"))}

    reads = await narrowed(objects, (), servers=slow)

    assert "NoEndpoints" not in codes(reads.values())
    assert slices_from("bergen") in reads["riga"].lists


async def test_endpoints_are_asked_of_another_importer_whose_imports_are_known() -> None:
    objects = objects_of(same_everywhere(3, "riga"))
    del objects["bergen"]  # no context of the person's is of it, and it renews its Lease
    slow = {"lubeck": Refusing(objects["lubeck"], slices_from("bergen"))}

    reads = await narrowed(objects, (), servers=slow)

    assert "NoEndpoints" not in codes(reads.values())


async def test_a_service_whose_imports_nobody_gives_is_said_to_be_unknown() -> None:
    objects = objects_of(same_everywhere(2))
    slow = {m: Refusing(objects[m], ALL_IMPORTS, slices_from("bergen")) for m in MEMBERS}

    reads = await narrowed(objects, (), servers=slow)

    found = judged(reads.values())
    item = found.items["services"]["shop/web0"]
    assert item.state == "warn"
    document = json_document(item)
    assert document["unknown"] == "no answer in time"
    unknown = ("type", "ports", "exporters", "importers", "endpoints")
    assert [document[name] for name in unknown] == [None] * 5
    (cause,) = [f for f in found.findings if f.subject == credentials_ref("bergen", "bergen")]
    assert "who exports shop/web0 is not known" in [c.summary for c in cause.consequences]


async def test_endpoints_that_nobody_gives_are_unknown_and_not_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    objects = objects_of(same_everywhere(1))
    slow = {m: Refusing(objects[m], slices_from("bergen")) for m in MEMBERS}

    reads = await narrowed(objects, (), servers=slow)

    found = judged(reads.values())
    assert {f.code for f in found.findings} == {"NotReadable"}
    item = found.items["services"]["shop/web0"]
    assert json_document(item)["endpoints"] == {"bergen": None}
    assert json_document(item)["exporters"] == ["bergen"]
    print_table([item])
    assert "bergen not known" in capsys.readouterr().out


async def test_another_exporters_endpoints_are_judged_where_those_of_one_are_unknown() -> None:
    down = Export(ready=False, conditions=GOOD, to=())
    fleet = same_everywhere(0)
    both = FederatedService("shop", {"bergen": down, "riga": down}, frozenset(), frozenset())
    objects = objects_of(replace(fleet, services=[both]))
    slow = {m: Refusing(objects[m], slices_from("bergen")) for m in MEMBERS}

    reads = await narrowed(objects, (), servers=slow)

    (item,) = judged(reads.values()).items["services"].values()
    summaries = [f.summary for f in item.findings]
    assert "shop/web0 is served by 0 of 2 clusters, not by riga; bergen is not known" in summaries
    assert "NoEndpoints" not in codes(reads.values())


async def test_imports_that_a_server_fails_to_count_are_listed() -> None:
    class Failing(Server):
        async def count(self, kind: type[Any], *, first: int) -> Counted[Any]:
            raise ServerError(Status(500, "InternalError", f"{kind.kind.plural} {first}"))

    server = Failing(objects_of(same_everywhere(1))["riga"])
    cluster = ClusterAccess("riga", cast("Credentials", None))

    found = await read_objects(cluster, cast("Client", server))

    assert found.counts[ServiceImport.kind].total is None  # which has them listed


async def test_the_console_keeps_the_endpoints_of_a_cluster_that_it_does_not_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects = objects_of(same_everywhere(3, "riga"))
    servers = {name: Server(found) for name, found in objects.items() if name != "bergen"}
    accesses = [ClusterAccess(name, cast("Credentials", None)) for name in servers]

    async def reach(
        cluster: ClusterAccess, read: Callable[[ClusterAccess, Any], Awaitable[ClusterRead]]
    ) -> ClusterRead:
        return await read(cluster, servers[cluster.name])

    version = VersionAnswer("v1.34.0", Response(200, b"{}"), NOW, NOW)

    async def answered(*_: object) -> Any:
        return version

    async def allowed(*_: object) -> Any:
        return AccessAnswer("", version, None)

    async def read_objects(cluster: ClusterAccess, client: Client, _: object) -> ClusterRead:
        return await first_read(cluster.name, cast("Server", client))

    module = "hanse.cli.console.poller"
    for name in ("read_version", "refresh"):
        monkeypatch.setattr(f"{module}.{name}", answered)
    monkeypatch.setattr(f"{module}.read_access", allowed)
    monkeypatch.setattr(f"{module}.read_objects", read_objects)
    monkeypatch.setattr(f"{module}.read_cluster", reach)
    for name in ("INTERVAL", "INTERVAL_PER_CLUSTER", "START_INTERVAL", "PUBLISH_INTERVAL"):
        monkeypatch.setattr(f"{module}.{name}", 0.0)
    poller = FleetPoller(accesses, local=False)
    seen: list[int] = []

    def count_slices() -> None:
        snapshot = poller.snapshot()
        slices = [s for m in snapshot.members for s in snapshot.all(m, EndpointSlice)]
        seen.append(sum(source_cluster(one) == "bergen" for one in slices))
        if len(seen) == 40:
            polling.cancel()

    poller.on_change = count_slices
    polling = asyncio.create_task(poller.run())
    with suppress(asyncio.CancelledError):
        await polling

    assert 0 not in seen[20:]


async def test_the_doctor_counts_imports_where_a_server_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects = objects_of(same_everywhere(12))
    servers = {name: Uncounting(found) for name, found in objects.items()}
    accesses = [ClusterAccess(name, cast("Credentials", None)) for name in servers]

    @asynccontextmanager
    async def open_clients(_: object) -> AsyncIterator[dict[str, Server]]:
        yield dict(servers)

    async def read_clusters(*_: object, **__: object) -> list[Any]:
        answer = VersionAnswer("v1.34.0", Response(200, b"{}"), NOW, NOW)
        access = AccessAnswer("", answer, None)
        return [(await first_read(n, server), access) for n, server in servers.items()]

    monkeypatch.setattr("hanse.cli.doctor.examination.open_clients", open_clients)
    monkeypatch.setattr("hanse.cli.doctor.examination.read_clusters", read_clusters)

    found = await examine_clusters(accesses, local=False)

    counts = {
        one.name: one.services.imports
        for one in found.inventories
        if isinstance(one, ClusterInventory) and one.services is not None
    }
    assert counts == {**dict.fromkeys(MEMBERS, 12), "broker": 0}


def test_exports_and_imports_that_could_not_be_read_are_unknown_in_the_table_of_clusters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    inventory = ClusterInventory(
        "riga", "", "v1", timedelta(0), services=service_inventory(None, None)
    )

    document = clusters.json_document(inventory, LocalFederationState())
    clusters.print_table([inventory])

    assert document["features"]["services"]["imports"] is None
    assert document["features"]["services"]["exports"] is None
    assert capsys.readouterr().out.splitlines()[1].split()[4:] == ["?", "?", "?"]


async def test_a_cluster_that_was_never_read_has_no_age(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterAccess("bergen", cast("Credentials", None))
    tries: list[str] = []

    async def fail(*_: object, **__: object) -> ReadFailure:
        tries.append("bergen")
        return ReadFailure("bergen", Unreachable("connection refused"))

    module = "hanse.cli.console.poller"
    monkeypatch.setattr(f"{module}.read_cluster", fail)
    for name in ("INTERVAL", "INTERVAL_PER_CLUSTER", "START_INTERVAL", "PUBLISH_INTERVAL"):
        monkeypatch.setattr(f"{module}.{name}", 0.0)
    poller = FleetPoller([cluster], local=False)

    def stop() -> None:
        if len(tries) > 2:
            polling.cancel()

    poller.on_change = stop
    polling = asyncio.create_task(poller.run())
    with suppress(asyncio.CancelledError):
        await polling

    (found,) = examine(poller.snapshot()).findings
    assert found.summary.endswith("connection refused")
