"""Names of federated sets: the specified records, and when they appear and disappear."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import dns.message
import pytest
from msgspec.structs import replace

from hanse.app.explain_replicas import explain_replica
from hanse.dns.responder import respond
from hanse.dns.table import Table
from hanse.features.publishing.feature import Publishing
from hanse.features.publishing.options import PublishingOptions
from hanse.features.publishing.records import record_sets
from hanse.features.statefulsets.names import part_name
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.zone import REPORTED_WITHIN, SERVICE, StatefulSetZone
from hanse.model.dns.zones import View
from hanse.model.facts import Fact, HolderState, LeaseLiveness, Phase, Role
from hanse.model.kinds.coordination import Lease, LeaseMeta
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.stateful import (
    NamedPort,
    Replica,
    ReplicaNames,
    Share,
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    StatefulSetSharesSpec,
)
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, ObjectChange, Snapshot
from tests.dns.builders import DnsAnswer, parse_answer
from tests.support.builders import cluster, snapshot, stored
from tests.support.zones import compiled
from tinykube.virtual_time import EPOCH

HOME = "hanse-broker"
SPACE = "mynamespace"
LOCAL = f"etcd.{SPACE}.svc.example.com"
WIDE = f"etcd.{SPACE}.myfederation.svc.example.com"
SHARES = {"c1": 4, "c2": 4, "c3": 3}


class Looking:
    """A feature that only looks, so that snapshots hold what the zone watches."""

    name = "dns"
    watches = StatefulSetZone(View("any"), HOME).watches

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return ()

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        return Plan()


def shares(balanced: bool = True, **of: int) -> StatefulSetShares:
    replicas = of or SHARES
    return StatefulSetShares(
        metadata=Meta(name="store", namespace=SPACE),
        spec=StatefulSetSharesSpec(
            shares=tuple(Share(name=c, replicas=n) for c, n in replicas.items()),
            service="etcd",
            ports=(NamedPort(port=80, name="store"),),
            load_balanced=balanced,
        ),
    )


def address_of(name: str, ordinal: int) -> str:
    return f"198.19.{name[1:]}.{ordinal + 1}"


def part(
    name: str,
    *addresses: str,
    share: int | None = None,
    of: str = "store",
    names: ReplicaNames | None = None,
) -> StatefulSetPart:
    """What a cluster reports of its replicas, each with a balancer's address or none yet."""
    replicas = tuple(
        Replica(name=f"{of}-{name}-{n}", ready=True, addresses=(a,) if a else ())
        for n, a in enumerate(addresses)
    )
    spec = StatefulSetPartSpec(
        namespace=SPACE,
        name=of,
        cluster=name,
        share=len(replicas) if share is None else share,
        replicas=replicas,
        names=names,
    )
    return StatefulSetPart(
        metadata=Meta(name=part_name(SPACE, of, name), namespace=HOME), spec=spec
    )


def parts() -> list[StatefulSetPart]:
    return [part(c, *(address_of(c, n) for n in range(count))) for c, count in SHARES.items()]


def pods(name: str, count: int) -> EndpointSlice:
    """The pods of one cluster, as its own controllers tell them."""
    endpoints = tuple(
        Endpoint(
            addresses=(f"10.{name[1:]}.0.{n + 1}",),
            hostname=f"store-{name}-{n}",
            conditions=EndpointConditions(ready=True),
        )
        for n in range(count)
    )
    labels = {"kubernetes.io/service-name": "etcd"}
    return EndpointSlice(
        metadata=Meta(name=f"etcd-{name}", namespace=SPACE, labels=labels),
        address_type="IPv4",
        endpoints=endpoints,
        ports=(EndpointPort(name="store", port=80),),
    )


def seen_by(
    local: str,
    at_broker: Sequence[Object],
    at_home: Sequence[Object] = (),
    *facts: Fact,
    joined: Sequence[Lease] | None = None,
) -> Snapshot:
    leases = [Lease(metadata=LeaseMeta(name=name, namespace=HOME)) for name in SHARES]
    shared = [stored(o) for o in (*(leases if joined is None else joined), *at_broker)]
    return snapshot(
        Looking(),
        local,
        [cluster(local, Role.LOCAL), cluster("broker", Role.BROKER)],
        {local: [stored(o) for o in at_home], "broker": shared},
        facts,
    )


class Names:
    """A view of what was seen."""

    def __init__(self, snapshot: Snapshot, view: View | None = None) -> None:
        self._view = view or View(snapshot.local, local=snapshot.local)
        self._table = Table("test", Random(0))
        self._table.apply(compiled(self._view, [StatefulSetZone(self._view, HOME)], snapshot))

    def ask(self, name: str, rtype: str = "A") -> DnsAnswer:
        query = dns.message.make_query(name, rtype)
        answer = respond(query.to_wire(), self._table, stream=True)
        assert answer is not None
        return parse_answer(dns.message.from_wire(answer))

    def targets(self, name: str) -> list[str]:
        return sorted(record.split()[-1].rstrip(".") for record in self.ask(name, "SRV").records)


@pytest.mark.parametrize(("local", "count"), SHARES.items())
def test_a_cluster_finds_its_own_replicas_by_local_names(local: str, count: int) -> None:
    names = Names(seen_by(local, [shares(), *parts()], [pods(local, count)]))

    assert names.targets(LOCAL) == [f"store-{local}-{n}.{LOCAL}" for n in range(count)]
    assert names.targets(f"_store._tcp.{LOCAL}") == names.targets(LOCAL)
    for n in range(count):
        own = f"10.{local[1:]}.0.{n + 1}"
        assert names.ask(f"store-{local}-{n}.{LOCAL}").records == (own,)


@pytest.mark.parametrize("published", [True, False])
def test_replicas_that_are_not_ready_have_names_if_their_service_publishes_them(
    published: bool,
) -> None:
    record, one = shares(c1=2), part("c1", "198.19.1.1", "198.19.1.2")
    record = replace(record, spec=replace(record.spec, unready_names=published))
    ready, other = one.spec.replicas
    replicas = (ready, replace(other, ready=False))
    one = replace(one, spec=replace(one.spec, replicas=replicas))

    names = Names(seen_by("c2", [record, one]))

    expected = ["store-c1-0", "store-c1-1"] if published else ["store-c1-0"]
    assert names.targets(WIDE) == [f"{name}.{WIDE}" for name in expected]


def test_a_set_has_no_replicas_of_another_whose_name_begins_like_its_own() -> None:
    record = shares(balanced=False)
    other = replace(record, metadata=replace(record.metadata, name="store-c1"))
    slices = pods("c1", 2)
    hosts = ("store-c1-0", "store-c1-c1-0")
    endpoints = tuple(
        replace(e, hostname=host) for e, host in zip(slices.endpoints or (), hosts, strict=True)
    )
    seen = [record, other, part("c1", share=1), part("c1", share=1, of="store-c1")]
    names = Names(seen_by("c1", seen, [replace(slices, endpoints=endpoints)]))

    assert names.targets(f"store.{SPACE}.myfederation.svc.example.com") == [f"store-c1-0.{LOCAL}"]
    assert names.targets(f"store-c1.{SPACE}.myfederation.svc.example.com") == [
        f"store-c1-c1-0.{LOCAL}"
    ]


@pytest.mark.parametrize("local", SHARES)
def test_every_cluster_finds_all_eleven_by_the_federations_name(local: str) -> None:
    names = Names(seen_by(local, [shares(), *parts()], [pods(local, SHARES[local])]))

    replicas = [f"store-{c}-{n}" for c, count in SHARES.items() for n in range(count)]
    expected = [f"{replica}.{WIDE}" for replica in replicas]
    assert names.targets(WIDE) == expected
    weights = {
        r.split()[3].split(".")[0]: int(r.split()[1]) for r in names.ask(WIDE, "SRV").records
    }
    assert {replica for replica, weight in weights.items() if weight == 50} == {
        replica for replica in replicas if f"-{local}-" in replica
    }
    assert names.targets(f"store.{SPACE}.myfederation.svc.example.com") == expected
    for replica in replicas:
        _, name, ordinal = replica.split("-")
        addresses = (address_of(name, int(ordinal)),)
        assert names.ask(f"{replica}.{WIDE}").records == addresses
        assert names.ask(f"{replica}.{SPACE}.myfederation.svc.example.com").records == addresses


def test_without_balancers_the_federations_name_gives_the_askers_local_records() -> None:
    names = Names(seen_by("c2", [shares(balanced=False), *parts()], [pods("c2", 2)]))

    assert names.targets(WIDE) == [f"store-c2-{n}.{LOCAL}" for n in range(2)]
    assert names.ask(f"store-c2-0.{WIDE}").records == ("10.2.0.1",)


def test_a_view_without_a_cluster_has_federation_names_alone() -> None:
    observed = seen_by("c1", [shares(), *parts()], [pods("c1", 4)])
    names = Names(observed, View("all"))

    assert len(names.targets(WIDE)) == 11
    assert names.ask(LOCAL, "SRV").code == "NXDOMAIN"


def test_srv_comes_with_the_replica_and_the_address_when_the_balancer_has_one() -> None:
    names = Names(seen_by("c1", [shares(c1=2), part("c1", "", "198.19.1.2")]))

    assert len(names.targets(WIDE)) == 2
    pending = names.ask(f"store-c1-0.{WIDE}")
    assert pending.code == "NODATA"
    assert names.ask(f"store-c1-1.{WIDE}").records == ("198.19.1.2",)


def test_scaling_down_withdraws_names_before_pods_end() -> None:
    scaled = part("c1", "198.19.1.1", "198.19.1.2", share=1)
    names = Names(seen_by("c1", [shares(c1=1), scaled]))

    assert names.targets(WIDE) == [f"store-c1-0.{WIDE}"]
    assert names.ask(f"store-c1-1.{WIDE}").code == "NXDOMAIN"


def test_shares_that_a_member_forges_take_no_names_away() -> None:
    """All members write the record of shares; each cluster's report is its own."""
    names = Names(seen_by("c1", [shares(c9=5), part("c1", "198.19.1.1")]))

    assert names.targets(WIDE) == [f"store-c1-0.{WIDE}"]


def named(service: str = "etcd", port: int = 80) -> ReplicaNames:
    ports = (NamedPort(port=port, name="store"),)
    return ReplicaNames(service=service, ports=ports, load_balanced=True)


@pytest.mark.parametrize(
    "forged",
    [
        {"service": "web"},
        {"service": ""},
        {"ports": (NamedPort(port=6666, name="store"),)},
        {"ports": ()},
        {"load_balanced": False},
    ],
)
def test_a_record_that_a_member_forges_changes_no_name(forged: dict[str, Any]) -> None:
    """Each report says by which names its own replicas are found."""
    own = part("c1", "198.19.1.1", names=named())
    record = shares(c1=1)
    true = Names(seen_by("c2", [record, own]))
    lie = Names(seen_by("c2", [replace(record, spec=replace(record.spec, **forged)), own]))

    for name in (WIDE, f"_store._tcp.{WIDE}", f"store.{SPACE}.myfederation.svc.example.com"):
        assert true.ask(name, "SRV").records
        assert lie.ask(name, "SRV").records == true.ask(name, "SRV").records
    assert lie.ask(f"store-c1-0.{WIDE}").records == ("198.19.1.1",)


@pytest.mark.parametrize("service", ["aaa", "etcd", "store", "store-c1-0"])
def test_a_report_with_other_names_takes_none_of_others_away(service: str) -> None:
    true = part("c1", "198.19.1.1", names=named())
    false = part("a9", "198.19.9.9", names=named(service, 6666))
    joined = [Lease(metadata=LeaseMeta(name=name, namespace=HOME)) for name in ("a9", "c1")]
    names = Names(seen_by("c2", [shares(c1=1), true, false], joined=joined))

    for name in (WIDE, f"_store._tcp.{WIDE}", f"store.{SPACE}.myfederation.svc.example.com"):
        records = names.ask(name, "SRV").records
        assert [r.split()[2:] for r in records if "a9" not in r] == [["80", f"store-c1-0.{WIDE}."]]
    assert names.ask(f"store-c1-0.{WIDE}").records == ("198.19.1.1",)
    short = names.ask(f"store-c1-0.{SPACE}.myfederation.svc.example.com")
    assert short.records == ("198.19.1.1",)


def test_a_service_takes_no_name_of_a_replica() -> None:
    true = part("c1", "198.19.1.1", names=named("zeta"))
    false = part("a9", "198.19.9.9", names=named("store-c1-0"))
    joined = [Lease(metadata=LeaseMeta(name=name, namespace=HOME)) for name in ("a9", "c1")]
    seen = seen_by("c2", [shares(c1=1), true, false], joined=joined)
    names = Names(seen)

    short = names.ask(f"store-c1-0.{SPACE}.myfederation.svc.example.com")
    assert short.records == ("198.19.1.1",)
    zone, key = StatefulSetZone(View("c2", local="c2"), HOME), Key(SERVICE, "store-c1-0", SPACE)
    assert key in zone.keys_for(ObjectChange("broker", None, true), seen)


def shares_of(name: str) -> StatefulSetShares:
    """The record of another set."""
    return replace(shares(c1=1), metadata=Meta(name=name, namespace=SPACE))


FEDERATION = f"{SPACE}.myfederation.svc.example.com"


def test_a_report_about_a_set_that_nobody_submitted_gives_no_name() -> None:
    observed = seen_by("c2", [part("c1", "198.19.1.1", names=named())])

    for local in ("c1", "c2"):
        names = Names(observed, View(local, local=local))
        for name in (WIDE, LOCAL, *(f"{one}.{FEDERATION}" for one in ("store", "store-c1-0"))):
            assert names.ask(name).code == "NXDOMAIN", name


@pytest.mark.parametrize("false_set", ["store-c1-0", "etcd"])
@pytest.mark.parametrize("service", ["a", "etcd", "z"])
def test_a_set_takes_no_name_of_a_replica_or_a_service(false_set: str, service: str) -> None:
    """A member may submit a set, and say of its own replicas by which Service they are found."""
    true = part("c1", "198.19.1.1", names=named())
    false = part("a9", "198.19.9.9", of=false_set, names=named(service, 6666))
    records = [shares(c1=1), shares_of(false_set)]
    joined = [Lease(metadata=LeaseMeta(name=name, namespace=HOME)) for name in ("a9", "c1")]
    before = seen_by("c2", [*records, false], joined=joined)
    after = seen_by("c2", [*records, true, false], joined=joined)
    names = Names(after)

    assert names.ask(f"store-c1-0.{FEDERATION}").records == ("198.19.1.1",)
    assert "198.19.1.1" in names.ask(WIDE).records
    assert names.ask(f"{false_set}-a9-0.{FEDERATION}").records == ("198.19.9.9",)
    keys = set(StatefulSetZone(View("c2", local="c2"), HOME).keys_for(_made(true), after))
    assert _changed(before, after) <= keys


@pytest.mark.parametrize("service", ["a", "etcd", "z"])
def test_a_name_that_two_clusters_claim_is_that_of_the_longer_id(service: str) -> None:
    """As admission has it for reports and Services: lubeck is not eu-lubeck."""
    true = part("eu-c1", "198.19.1.1", names=named())
    false = part("c1", "198.19.9.9", of="store-eu", names=named(service))
    records = [shares(c1=1), shares_of("store-eu")]
    joined = [Lease(metadata=LeaseMeta(name=name, namespace=HOME)) for name in ("eu-c1", "c1")]
    after = seen_by("c2", [*records, true, false], joined=joined)
    names = Names(after)

    assert names.ask(f"store-eu-c1-0.{WIDE}").records == ("198.19.1.1",)
    assert names.ask(f"store-eu-c1-0.{FEDERATION}").records == ("198.19.1.1",)
    assert names.ask(WIDE).records == ("198.19.1.1",)
    zone = StatefulSetZone(View("c2", local="c2"), HOME)
    for missing in (true, records[0]):
        rest = [one for one in (*records, true, false) if one is not missing]
        changed = _changed(seen_by("c2", rest, joined=joined), after)
        assert changed <= set(zone.keys_for(_made(missing), after))


def _made(obj: Object) -> ObjectChange:
    return ObjectChange("broker", None, obj)


def _changed(before: Snapshot, after: Snapshot) -> set[Key]:
    """The keys whose nodes differ between what was seen before and after."""
    zone = StatefulSetZone(View("c2", local="c2"), HOME)
    old, new = zone.records_for(before), zone.records_for(after)
    return {key for key in {*zone.keys(before), *zone.keys(after)} if old(key) != new(key)}


@pytest.mark.parametrize("balanced", [True, False])
def test_a_cluster_finds_its_own_replicas_while_the_brokers_namespace_is_gone(
    balanced: bool,
) -> None:
    """All reports and Leases are deleted with it; records of shares are beside their sets."""
    names = Names(seen_by("c1", [shares(balanced)], [pods("c1", 2)], joined=[]))

    assert names.targets(LOCAL) == [f"store-c1-{n}.{LOCAL}" for n in range(2)]
    assert names.ask(f"store-c1-0.{LOCAL}").records == ("10.1.0.1",)
    assert names.targets(WIDE) == ([] if balanced else names.targets(LOCAL))


def test_a_report_names_replicas_of_its_own_cluster_alone() -> None:
    forged = part("a9", "198.19.9.9")
    theirs = Replica(name="store-c1-0", ready=True, addresses=("198.19.9.9",))
    forged = replace(forged, spec=replace(forged.spec, replicas=(theirs,)))
    names = Names(seen_by("c1", [shares(a9=1, c1=1), forged, part("c1", "198.19.1.1")]))

    assert names.ask(f"store-c1-0.{WIDE}").records == ("198.19.1.1",)


@pytest.mark.parametrize(
    ("lease", "kept"),
    [
        ((), False),
        ((HolderState.READY, True), False),
        ((HolderState.READY, False), True),
        ((HolderState.UNKNOWN, True), True),
        ((HolderState.SILENT, True), False),
    ],
)
def test_names_stand_until_a_cluster_reports_again_whose_report_is_gone_with_its_lease(
    lease: tuple[HolderState, bool] | tuple[()], kept: bool
) -> None:
    observed = [
        LeaseLiveness("broker", HOME, "c2", "c2", state, EPOCH, confirmed=confirmed)
        for state, confirmed in (lease and (lease,))
    ]
    others = [each for each in parts() if each.spec.cluster != "c2"]
    zone = StatefulSetZone(View("c1", local="c1"), HOME)
    anew = Namespace(metadata=Meta(name=HOME))
    for age, stand in ((timedelta(seconds=30), kept), (REPORTED_WITHIN, False)):
        seen = seen_by("c1", [shares(), *others, anew], (), *observed)
        seen.now += age

        build_nodes = zone.records_for(seen)

        assert (build_nodes(Key(SERVICE, "etcd", SPACE)) is None) == stand


def test_names_stand_while_the_brokers_namespace_is_deleted() -> None:
    ending = Namespace(metadata=Meta(name=HOME, deletion_timestamp=EPOCH))
    zone = StatefulSetZone(View("c1", local="c1"), HOME)

    build_nodes = zone.records_for(seen_by("c1", [shares(), ending]))

    assert build_nodes(Key(SERVICE, "etcd", SPACE)) is None
    assert build_nodes(Key(SERVICE, "other", SPACE)) == (), "its set is gone, too"


def test_a_dead_clusters_names_stay_until_its_lease_has_run_out() -> None:
    dead = LeaseLiveness("broker", HOME, "c2", "c2", HolderState.SILENT, EPOCH)
    before = Names(seen_by("c1", [shares(), *parts()]))
    after = Names(seen_by("c1", [shares(), *parts()], (), dead))

    assert len(before.targets(WIDE)) == 11
    assert [t for t in after.targets(WIDE) if "-c2-" in t] == []
    assert len(after.targets(WIDE)) == 7


@pytest.mark.parametrize("before", [None, *HolderState])
def test_a_cluster_whose_lease_is_gone_keeps_its_names_only_if_we_saw_it_alive(
    before: HolderState | None,
) -> None:
    stayed = [Lease(metadata=LeaseMeta(name=name, namespace=HOME)) for name in ("c1", "c3")]
    seen = [LeaseLiveness("broker", HOME, "c2", "c2", before, EPOCH)] if before else []
    names = Names(seen_by("c1", [shares(), *parts()], (), *seen, joined=stayed))

    kept = before in (HolderState.READY, HolderState.UNKNOWN)
    assert len([t for t in names.targets(WIDE) if "-c2-" in t]) == (4 if kept else 0)


def test_a_cluster_finds_its_own_replicas_whether_or_not_it_has_a_lease() -> None:
    others = [Lease(metadata=LeaseMeta(name=name, namespace=HOME)) for name in ("c2", "c3")]

    names = Names(seen_by("c1", [shares(), *parts()], joined=others))

    assert len(names.targets(WIDE)) == 11


def test_everything_is_published_to_those_who_ask_other_servers() -> None:
    observed = seen_by("c1", [shares(c1=1), part("c1", "198.19.1.1")])
    zone = StatefulSetZone(View("published"), HOME)
    publishing = Publishing([zone], PublishingOptions("example.com", endpoints_in="dns"))

    (desired,) = publishing.plan(Key(f"statefulsets.{SERVICE}", "etcd", SPACE), observed).desired

    assert isinstance(desired.object, DNSEndpoint)
    answer = {(r.dns_name, r.record_type): r.targets for r in desired.object.spec.endpoints}
    assert answer[WIDE, "SRV"] == (f"0 50 80 store-c1-0.{WIDE}.",)
    assert answer[f"_store._tcp.{WIDE}", "SRV"] == answer[WIDE, "SRV"]
    assert answer[f"store-c1-0.{WIDE}", "A"] == ("198.19.1.1",)


def test_a_balancer_with_a_host_name_is_an_alias() -> None:
    observed = seen_by("c1", [shares(c1=1), part("c1", "lb-1.cloud.example")])
    names = Names(observed)

    answer = names.ask(f"store-c1-0.{WIDE}")
    assert answer.records == ("lb-1.cloud.example.",)
    assert names.ask(f"store-c1-0.{WIDE}", "CNAME").records == ("lb-1.cloud.example.",)

    zone = StatefulSetZone(View("published"), HOME)
    nodes = zone.records_for(observed)(Key(SERVICE, "etcd", SPACE))
    sets = [s for node in nodes or () for s in record_sets(node)]
    assert {s.type for s in sets} == {"SRV", "CNAME"}, "others keep no addresses of an alias"


def test_ipv6_and_several_addresses_are_all_answered() -> None:
    two = StatefulSetPart(
        metadata=part("c1").metadata,
        spec=StatefulSetPartSpec(
            namespace=SPACE,
            name="store",
            cluster="c1",
            share=1,
            replicas=(Replica(name="store-c1-0", addresses=("198.19.1.1", "fd00::1")),),
        ),
    )
    names = Names(seen_by("c1", [shares(c1=1), two]))

    assert names.ask(f"store-c1-0.{WIDE}").records == ("198.19.1.1",)
    assert names.ask(f"store-c1-0.{WIDE}", "AAAA").records == ("fd00::1",)


def test_a_broker_that_is_away_holds_up_no_other_names() -> None:
    away = [cluster("c1", Role.LOCAL), cluster("broker", Role.BROKER, phase=Phase.UNREACHABLE)]
    connecting = [cluster("c1", Role.LOCAL), cluster("broker", Role.BROKER, phase=Phase.CONNECTING)]
    zone = StatefulSetZone(View("c1", local="c1"), HOME)

    assert zone.synced(snapshot(Looking(), "c1", away, {}))
    assert not zone.synced(snapshot(Looking(), "c1", connecting, {}))


def test_a_change_recompiles_only_the_names_of_its_service() -> None:
    zone = StatefulSetZone(View("c1", local="c1"), HOME)
    observed = seen_by("c1", [shares(), *parts()], [pods("c1", 4)])
    own = {Key(SERVICE, "etcd", SPACE), Key(SERVICE, "store", SPACE)}
    other = EndpointSlice(
        metadata=Meta(name="x", namespace=SPACE, labels={"kubernetes.io/service-name": "web"}),
        address_type="IPv4",
    )

    assert set(zone.keys_for(ObjectChange("broker", None, part("c1")), observed)) == own
    assert set(zone.keys_for(ObjectChange("c1", None, pods("c1", 4)), observed)) == own
    assert list(zone.keys_for(ObjectChange("c1", None, other), observed)) == []


@pytest.mark.parametrize(
    ("name", "rtype", "code", "rule"),
    [
        pytest.param(LOCAL, 33, "NOERROR", "c1 answers with its own ready replicas", id="local"),
        pytest.param(WIDE, 33, "NOERROR", "each replica by its load balancer", id="wide"),
        pytest.param(f"store-c2-0.{WIDE}", 1, "NOERROR", "each replica by its", id="replica"),
        pytest.param(f"store-c2-9.{WIDE}", 1, "NXDOMAIN", "each replica by its", id="no such"),
        pytest.param("web.shop.svc.example.com", 1, "NXDOMAIN", "no federated", id="nothing"),
        pytest.param(WIDE, 255, "REFUSED", "questions for everything", id="everything"),
    ],
)
def test_why_a_name_is_answered_as_it_is(name: str, rtype: int, code: str, rule: str) -> None:
    dead = LeaseLiveness("broker", HOME, "c3", "c3", HolderState.SILENT, EPOCH)
    observed = seen_by("c1", [shares(), *parts()], [pods("c1", 4)], dead)
    zone = StatefulSetZone(View("c1", local="c1"), HOME)

    answer = explain_replica(name, rtype, StatefulSetOptions(), zone, observed)

    assert answer.code == code
    assert answer.rule.startswith(rule)
    assert [o.cluster for o in answer.left_out] == (["c3"] if rule.startswith("each") else [])


def test_without_load_balancers_the_rule_selects_the_replicas_to_publish() -> None:
    observed = seen_by("c1", [shares(balanced=False), *parts()], [pods("c1", 4)])
    zone = StatefulSetZone(View("c1", local="c1"), HOME)

    answer = explain_replica(WIDE, 33, StatefulSetOptions(), zone, observed)

    assert answer.rule == "no load balancers are wanted: c1's own ready replicas"
    assert len(answer.records) == 4
