"""The plan of one import and of the aggregate on the broker, in both profiles."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.services.derived import derived_name
from hanse.features.services.names import (
    AFFINITY,
    DERIVED_SERVICE,
    PRIORITY,
    RECORD,
    SERVICE_NAME,
    SOURCE_CLUSTER,
    WEIGHT,
)
from hanse.features.services.records import SCHEMA
from hanse.features.services.slices import ExportBackends, build_published_slices
from hanse.kube.lease import new_lease
from hanse.model.conditions import condition
from hanse.model.facts import Fact, HolderState, LeaseLiveness, Phase, Role
from hanse.model.kinds.acceptance import (
    AcceptancePolicy,
    AcceptancePolicySpec,
    NamespaceAcceptance,
)
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.core import Service, ServiceSpec
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    Endpoint,
    EndpointHints,
    EndpointSlice,
    ForZone,
)
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterMemberStatus,
    MemberSettings,
)
from hanse.model.kinds.multicluster import ExportingCluster, ServiceImport
from hanse.model.naming import unique_name
from hanse.model.objects import Meta, Object
from hanse.model.ownership import OWNER_KEY
from hanse.model.plan import Desired, Key, Plan, Shared
from hanse.model.snapshot import FactChange, ObjectChange, Snapshot
from tests.features.services.builders import (
    AGGREGATE,
    BROKER,
    FEATURE,
    HERE,
    HOME,
    IMPORT,
    SHOP,
    backends,
    created_objects,
    desired,
    export,
    held_lease,
    observed,
    port,
    published_slices,
    record,
    rules,
    service,
)
from tests.support.builders import annotated, cluster, namespace, stored
from tinykube.virtual_time import EPOCH

KEP = rules("kep-1645")
DERIVED = derived_name(IMPORT)


def plan(view: Snapshot) -> Plan:
    return FEATURE.plan(IMPORT, view)


def expired_lease(cluster: str) -> LeaseLiveness:
    return LeaseLiveness(BROKER, HOME, cluster, cluster, HolderState.SILENT, EPOCH)


def derived_with_ips(*ips: str) -> Service:
    meta = Meta(name=DERIVED, namespace=SHOP, labels={SERVICE_NAME: "web"})
    spec = ServiceSpec(cluster_ip=ips[0] if ips else "", cluster_ips=ips)
    return stored(Service(metadata=meta, spec=spec))


def newer_slice(of: str) -> EndpointSlice:
    """The slice of a cluster whose agent is of a later version."""
    [endpoint_slice] = published_slices(record(of))
    content = msgspec.json.decode(endpoint_slice.metadata.annotations[RECORD])
    annotations = {
        RECORD: msgspec.json.encode({**content, "schema": SCHEMA + 1, "type": "Any"}).decode()
    }
    return replace(
        endpoint_slice, metadata=replace(endpoint_slice.metadata, annotations=annotations)
    )


def source_of(endpoint_slice: EndpointSlice) -> str:
    return endpoint_slice.metadata.labels[SOURCE_CLUSTER]


def source_clusters(plan: Plan) -> list[str]:
    return sorted(s.metadata.labels[SOURCE_CLUSTER] for s in desired(plan, EndpointSlice))


def exporting_clusters(plan: Plan) -> list[str]:
    [reported] = desired(plan, ServiceImport)
    return [c.cluster for c in reported.status.clusters]


def ready(reported: ServiceImport) -> tuple[str, str]:
    [found] = [c for c in reported.status.conditions if c.type == "Ready"]
    return found.status, found.reason


# -- importing clusters


def test_every_exporting_cluster_is_imported_our_own_included() -> None:
    result = plan(
        observed([export()], [*published_slices(record(HERE)), *published_slices(record("bergen"))])
    )

    assert source_clusters(result) == ["bergen", HERE]
    assert exporting_clusters(result) == ["bergen", HERE]
    assert {d.where for d in result.desired} == {HERE}
    assert all(d.sources == {BROKER} for d in result.desired)


def test_what_we_do_not_export_any_more_is_not_imported_again() -> None:
    assert plan(observed(broker=published_slices(record(HERE)))) == Plan()


@pytest.mark.parametrize("lease", [HolderState.UNKNOWN, HolderState.SILENT])
def test_an_unknown_cluster_keeps_its_place_and_gets_no_new_one(lease: HolderState) -> None:
    slices = [*published_slices(record(HERE)), *published_slices(record("bergen"))]
    ready, unready = (
        observed([export()], slices),
        [LeaseLiveness(BROKER, HOME, "bergen", "bergen", lease, EPOCH)],
    )
    [current] = desired(plan(ready), ServiceImport)

    new = plan(observed([export()], slices, facts=unready))
    ours = stored(annotated(current, {OWNER_KEY: "import"}))
    kept = plan(observed([export(), ours], slices, facts=unready))

    assert exporting_clusters(new) == [HERE]
    assert exporting_clusters(kept) == ([HERE] if lease is HolderState.SILENT else ["bergen", HERE])


LEFT = ClusterMember(
    metadata=Meta(name="bergen", namespace=HOME),
    spec=ClusterMemberSpec(cluster_id="bergen", uid="x"),
    status=ClusterMemberStatus(phase="Left"),
)
BERGEN = LeaseLiveness(BROKER, HOME, "bergen", "bergen", HolderState.READY, EPOCH)
UNKNOWN = replace(BERGEN, state=HolderState.UNKNOWN)
DOUBTED = replace(BERGEN, confirmed=False)
HELD, UNHELD = stored(held_lease("bergen")), stored(new_lease(HOME, "bergen", LeaseSpec()))
AGAIN = ClusterMemberStatus(phase="Joining", epoch=2)


@pytest.mark.parametrize(
    ("status", "lease", "liveness", "kept"),
    [
        pytest.param(AGAIN, None, None, False, id="a Lease was never seen"),
        pytest.param(AGAIN, None, UNKNOWN, False, id="the Lease was deleted"),
        pytest.param(AGAIN, UNHELD, UNKNOWN, False, id="a new Lease that nobody holds"),
        pytest.param(AGAIN, HELD, UNKNOWN, True, id="restored: a Lease of the same epoch"),
        pytest.param(AGAIN, UNHELD, DOUBTED, True, id="restored: it was seen alive"),
        pytest.param(AGAIN, HELD, DOUBTED, True, id="listed again: its agent writes no record"),
        pytest.param(replace(AGAIN, epoch=1), None, None, True, id="the broker was made anew"),
        pytest.param(replace(AGAIN, moving=True), None, None, True, id="it moves"),
        pytest.param(replace(AGAIN, phase="Ready"), None, UNKNOWN, True, id="no Lease is no end"),
        pytest.param(replace(AGAIN, phase="Replaced"), HELD, BERGEN, False, id="replaced"),
        pytest.param(None, None, UNKNOWN, True, id="without a record"),
    ],
)
def test_nothing_is_kept_of_an_earlier_epoch_of_a_cluster_that_publishes_nothing(
    status: ClusterMemberStatus | None,
    lease: Lease | None,
    liveness: LeaseLiveness | None,
    kept: bool,
) -> None:
    published = published_slices(record("bergen"))
    view = observed([], published)
    here = created_objects(plan(view), IMPORT, view)
    member = stored(replace(LEFT, status=status)) if status is not None else None
    known = list(filter(None, [member, lease]))
    facts = list(filter(None, [liveness]))

    assert source_clusters(plan(observed(here, known, facts=facts))) == ["bergen"] * kept
    if status is None or status.phase != "Replaced":
        doubted = [*facts, UNKNOWN] if liveness is None else facts
        standing = plan(observed(here, [*known, *published], facts=doubted))
        assert source_clusters(standing) == ["bergen"], "what it publishes now counts"


@pytest.mark.parametrize(
    ("acquired", "kept"),
    [
        pytest.param(0, False, id="long ago"),
        pytest.param(1, False, id="before what the watch of slices has seen"),
        pytest.param(1_000_000_000, True, id="after what the watch of slices has seen"),
    ],
)
def test_endpoints_stand_until_what_was_published_before_a_new_lease_is_seen(
    acquired: int, kept: bool
) -> None:
    view = observed([], published_slices(record("bergen")))
    here = created_objects(plan(view), IMPORT, view)
    member = stored(replace(LEFT, status=ClusterMemberStatus(phase="Ready")))
    ready = replace(BERGEN, acquired_version=acquired)

    after = plan(observed(here, [member], facts=[ready]))
    nowhere = plan(observed((), [member], facts=[ready]))
    silent = replace(ready, state=HolderState.SILENT)

    assert source_clusters(after) == ["bergen"] * kept
    assert nowhere == Plan()
    assert source_clusters(plan(observed(here, [member], facts=[silent]))) == []


def test_without_exports_there_is_no_import() -> None:
    assert plan(observed()) == Plan()


def test_without_its_namespace_there_is_no_import() -> None:
    slices = published_slices(record("bergen"))
    ending = namespace(SHOP)
    ending = stored(replace(ending, metadata=replace(ending.metadata, deletion_timestamp=EPOCH)))

    assert plan(observed(broker=slices, namespaces=())) == Plan()
    assert plan(observed([ending], slices, namespaces=())) == Plan()


def test_in_a_namespace_that_takes_nothing_of_others_there_is_no_import() -> None:
    slices = published_slices(record("bergen"))
    policy = stored(
        AcceptancePolicy(
            metadata=Meta(name="default"),
            spec=AcceptancePolicySpec(services=NamespaceAcceptance(exclude=("sh*",))),
        )
    )
    view = observed([policy], slices)

    assert plan(view) == Plan()
    assert IMPORT in set(FEATURE.keys_for(ObjectChange(HERE, policy, None), view))
    in_kube_system = msgspec.structs.replace(record("bergen"), namespace="kube-system")
    elsewhere = observed(broker=published_slices(in_kube_system), namespaces=("kube-system",))
    assert FEATURE.plan(Key("import", "web", "kube-system"), elsewhere) == Plan()


def test_a_new_namespace_enqueues_its_imports() -> None:
    view = observed(broker=published_slices(record("bergen")))
    keys = FEATURE.keys_for(ObjectChange(HERE, None, stored(namespace(SHOP))), view)

    assert IMPORT in set(keys)


def test_changed_endpoints_enqueue_only_what_has_endpoints_and_is_used_here() -> None:
    (before,) = published_slices(record("bergen"))
    (moved,) = published_slices(record("bergen"), "10.0.0.2")
    (renamed,) = published_slices(record("bergen", port(80, "web")))

    def keys(after: EndpointSlice, *here: Object, **view: Any) -> set[Key]:
        change = ObjectChange(BROKER, before, after)
        return set(FEATURE.keys_for(change, observed(here, [after], **view)))

    assert keys(moved) == {IMPORT}
    assert keys(moved, export()) == {IMPORT, Key("export", "web", SHOP)}
    assert keys(moved, namespaces=()) == set()
    assert keys(renamed, namespaces=()) == {IMPORT, AGGREGATE}


def test_the_api_servers_own_service_is_imported_from_nobody() -> None:
    def imported(name: str) -> tuple[Desired, ...]:
        forged = published_slices(replace(record("bergen"), namespace="default", name=name))
        view = observed([], [rules(), *forged], namespaces=["default"])
        return FEATURE.plan(Key("import", name, "default"), view).desired

    assert imported("kubernetes") == ()
    assert imported("api") != ()


def test_a_status_that_somebody_edited_keeps_no_import_as_it_is() -> None:
    shared = [rules(), *published_slices(record("bergen"))]
    before = observed([], shared)
    created = created_objects(plan(before), IMPORT, before)
    (made,) = (one for one in created if isinstance(one, ServiceImport))
    edited = replace(
        made,
        spec=replace(made.spec, type="Headless"),
        status=replace(made.status, clusters=(ExportingCluster(cluster="nobody"),)),
    )

    (wanted,) = desired(plan(observed([edited], shared)), ServiceImport)

    assert wanted.spec == made.spec
    assert wanted.status.clusters == made.status.clusters


def test_a_refused_cluster_is_not_imported() -> None:
    late = record("bergen", age=1, headless=True)

    result = plan(
        observed([export()], [*published_slices(record(HERE, age=9)), *published_slices(late)])
    )

    assert source_clusters(result) == [HERE]
    assert exporting_clusters(result) == [HERE]


def test_a_dead_cluster_is_left_out_but_never_our_own() -> None:
    slices = [*published_slices(record(HERE)), *published_slices(record("bergen"))]

    silent = [expired_lease("bergen"), expired_lease(HERE)]
    result = plan(observed([export()], slices, facts=silent))

    assert source_clusters(result) == [HERE]
    assert exporting_clusters(result) == [HERE]


def test_the_aggregate_counts_only_those_whom_all_take_for_alive() -> None:
    slices = [*published_slices(record(HERE)), *published_slices(record("bergen"))]

    result = FEATURE.plan(AGGREGATE, observed(broker=slices, facts=[expired_lease(HERE)]))

    assert exporting_clusters(result) == ["bergen"]


def test_an_export_to_others_is_not_imported_here_and_still_counts() -> None:
    elsewhere = record("bergen", port(80, "http"), port(81, "more"), age=9, to=("visby",))

    result = plan(
        observed(broker=[*published_slices(elsewhere), *published_slices(record("riga"))])
    )
    alone = plan(observed(broker=published_slices(elsewhere)))

    assert source_clusters(result) == exporting_clusters(result) == ["riga"]
    assert desired(result, ServiceImport)[0].spec.ports == (port(80, "http"),)
    assert alone == Plan()


def test_while_the_broker_was_never_seen_nothing_is_wanted_that_could_be_wrong() -> None:
    assert plan(observed(broker_phase=Phase.CONNECTING)).desired == ()


# -- the two profiles


def test_lighthouse_imports_have_no_address_of_their_own() -> None:
    result = plan(observed(broker=published_slices(record("bergen"))))

    [reported] = desired(result, ServiceImport)
    assert reported.spec.ips == ()
    assert desired(result, Service) == []


def test_kep_1645_makes_the_service_first_and_then_the_import_with_its_addresses() -> None:
    slices = [KEP, *published_slices(record("bergen"))]

    before = plan(observed(broker=slices))
    after = plan(observed([derived_with_ips("10.0.0.77")], slices))

    assert desired(before, ServiceImport) == []
    [made] = desired(before, Service)
    assert made.spec.selector == {}
    assert [p.port for p in made.spec.ports] == [80]
    [reported] = desired(after, ServiceImport)
    assert (reported.spec.ips, reported.spec.ip_families) == (("10.0.0.77",), ("IPv4",))
    assert reported.metadata.annotations[DERIVED_SERVICE] == DERIVED
    [endpoint_slice] = desired(after, EndpointSlice)
    assert endpoint_slice.metadata.labels[KUBE_SERVICE] == DERIVED


def test_an_import_has_one_address_for_each_family_that_it_has() -> None:
    four = [KEP, *published_slices(record("bergen"))]
    both = [KEP, *published_slices(record("bergen", ip_families=("IPv4", "IPv6")))]
    service = derived_with_ips("10.0.0.77", "fd00::77")

    assert desired(plan(observed([service], four)), ServiceImport)[0].spec.ips == ("10.0.0.77",)
    assert desired(plan(observed([service], both)), ServiceImport)[0].spec.ips == (
        "10.0.0.77",
        "fd00::77",
    )


def test_an_import_has_the_families_of_its_addresses_in_this_cluster() -> None:
    both = [KEP, *published_slices(record("bergen", ip_families=("IPv4", "IPv6")))]

    [reported] = desired(plan(observed([derived_with_ips("10.0.0.77")], both)), ServiceImport)

    assert (reported.spec.ips, reported.spec.ip_families) == (("10.0.0.77",), ("IPv4",))
    assert ready(reported) == ("True", "Ready")


def test_an_import_of_another_family_has_no_address_and_says_why() -> None:
    six = [KEP, *published_slices(record("bergen", ip_families=("IPv6",)), "fd00::1")]

    [reported] = desired(plan(observed([derived_with_ips("10.0.0.77")], six)), ServiceImport)

    assert (reported.spec.ips, reported.spec.ip_families) == ((), ("IPv6",))
    assert ready(reported) == ("False", "IPFamilyNotSupported")


def test_an_import_reports_that_it_is_ready_and_has_slices() -> None:
    for here, fleet in (((), rules()), ((derived_with_ips("10.0.0.77"),), KEP)):
        view = observed(here, [fleet, *published_slices(record("bergen"))])
        [reported] = desired(plan(view), ServiceImport)

        assert ready(reported) == ("True", "Ready")
        assert reported.status.endpoint_slice_objects == "Present"


@pytest.mark.parametrize(("policy", "expected"), [("", "Cluster"), ("Local", "Local")])
def test_the_internal_traffic_policy_holds_for_import_and_derived_service(
    policy: str, expected: str
) -> None:
    exported = published_slices(record("bergen", internal_traffic_policy=policy))
    view = observed([derived_with_ips("10.0.0.77")], [KEP, *exported])

    result = plan(view)

    assert desired(result, ServiceImport)[0].spec.internal_traffic_policy == expected
    assert desired(result, Service)[0].spec.internal_traffic_policy == expected


@pytest.mark.parametrize(
    ("distribution", "of_service", "hinted"),
    [
        ("", "", False),
        ("PreferClose", "PreferClose", True),
        ("PreferSameZone", "PreferClose", True),
        ("PreferSameNode", "PreferClose", True),
        ("Anything", "", False),
    ],
)
def test_hints_are_computed_for_imports_that_prefer_zones(
    distribution: str, of_service: str, hinted: bool
) -> None:
    """Every Kubernetes version accepts PreferClose; what a proxy follows are the hints."""
    exported = record("bergen", traffic_distribution=distribution)
    theirs = EndpointHints(for_zones=(ForZone(name="not ours"),))
    zoned = Endpoint(addresses=("10.2.0.1",), zone="north", hints=theirs, node_name="node-0")
    pods = replace(backends(1), endpoints=(zoned,))
    published = build_published_slices(exported, ExportBackends(pods=(pods,)), HOME, as_pods=True)
    view = observed([derived_with_ips("10.0.0.77")], [KEP, *(stored(s) for s in published)])

    result = plan(view)

    assert desired(result, ServiceImport)[0].spec.traffic_distribution == distribution
    assert desired(result, Service)[0].spec.traffic_distribution == of_service
    [[endpoint]] = [s.endpoints or () for s in desired(result, EndpointSlice)]
    hints = EndpointHints(for_zones=(ForZone(name="north"),)) if hinted else None
    assert (endpoint.zone, endpoint.hints, endpoint.node_name) == ("north", hints, "")


def test_our_own_pods_are_behind_the_derived_service_whatever_is_published() -> None:
    """Ranges bound what a cluster publishes, not what it uses itself."""
    pods = backends(2)
    nodes = tuple(replace(e, node_name="node-0") for e in pods.endpoints or ())
    bounds = rules(
        "kep-1645",
        endpoints="serviceIPs",
        clusters=(MemberSettings(id=HERE, ranges=("10.0.0.0/24",)),),
    )
    here = [export(), service(), derived_with_ips("10.0.0.77"), replace(pods, endpoints=nodes)]
    slices = [*published_slices(record(HERE)), *published_slices(record("bergen"), "10.5.0.1")]

    result = plan(observed(here, [bounds, *slices]))

    held = {
        s.metadata.labels[SOURCE_CLUSTER]: [
            (e.addresses[0], e.node_name) for e in s.endpoints or ()
        ]
        for s in desired(result, EndpointSlice)
    }
    own = [("10.9.0.1", "node-0"), ("10.9.0.2", "node-0")]
    assert held == {HERE: own, "bergen": [("10.5.0.1", "")]}


@pytest.mark.parametrize(
    ("affinity", "pods_ready", "used"),
    [
        ("", True, {HERE, "bergen"}),
        ("local", True, {HERE}),
        ("local", False, {"bergen"}),
        ("remote", True, {"bergen"}),
        ("none", True, {HERE, "bergen"}),
    ],
)
def test_the_side_that_is_not_preferred_drains_behind_the_derived_service(
    affinity: str, pods_ready: bool, used: set[str]
) -> None:
    here = [export(), service(), derived_with_ips("10.0.0.77"), backends(2, ready=pods_ready)]
    oldest = record(HERE, age=9, affinity=affinity)
    slices = [*published_slices(oldest), *published_slices(record("bergen"), "10.5.0.1")]

    result = plan(observed(here, [KEP, *slices]))

    states = {
        s.metadata.labels[SOURCE_CLUSTER]: [e.conditions for e in s.endpoints or ()]
        for s in desired(result, EndpointSlice)
    }
    assert {c for c, found in states.items() if any(e.ready for e in found)} == used
    drained = [e for c in states.keys() - used for e in states[c] if e.serving]
    assert all(e.terminating for e in drained), "kube-proxy uses them if no others are ready"
    [web] = desired(result, ServiceImport)
    assert web.metadata.annotations.get(AFFINITY, "") == affinity


def test_a_derived_service_that_was_deleted_does_not_take_the_import_with_it() -> None:
    slices = [KEP, *published_slices(record("bergen"))]
    view = observed([derived_with_ips("10.0.0.77")], slices)
    current = [o for o in created_objects(plan(view), IMPORT, view) if isinstance(o, ServiceImport)]

    [reported] = desired(plan(observed(current, slices)), ServiceImport)

    assert reported.spec.ips == ("10.0.0.77",)


def test_headless_imports_need_no_derived_service() -> None:
    result = plan(observed(broker=[KEP, *published_slices(record("bergen", headless=True))]))

    assert desired(result, Service) == []
    [reported] = desired(result, ServiceImport)
    assert (reported.spec.type, reported.spec.ips) == ("Headless", ())


def test_when_the_profile_changes_back_the_derived_service_is_no_longer_wanted() -> None:
    result = plan(observed([derived_with_ips("10.0.0.77")], published_slices(record("bergen"))))

    assert desired(result, Service) == []
    assert KUBE_SERVICE not in desired(result, EndpointSlice)[0].metadata.labels


def silenced(lease: HolderState, *more: Object) -> tuple[list[Object], list[Fact]]:
    """What is here once bergen, the only exporter for us, is not heard of, and that fact."""
    slices = [KEP, *published_slices(record("bergen")), *more]
    here: list[Object] = [derived_with_ips("10.0.0.77")]
    [live] = desired(plan(observed(here, slices)), ServiceImport)
    ours = stored(annotated(live, {OWNER_KEY: "import"}))
    if lease is HolderState.UNKNOWN:  # a cluster in use would keep its endpoints, too
        ours = replace(ours, status=replace(ours.status, clusters=()))
    facts = [LeaseLiveness(BROKER, HOME, "bergen", "bergen", lease, EPOCH)]
    [silent] = desired(plan(observed([*here, ours], slices, facts=facts)), ServiceImport)
    return [*here, silent], list(facts)


def assert_address_stands(result: Plan) -> None:
    [reported] = desired(result, ServiceImport)
    assert (reported.spec.ips, exporting_clusters(result)) == (("10.0.0.77",), [])
    assert ready(reported) == ("False", "ExportersSilent")
    assert desired(result, EndpointSlice) == []
    assert [s.metadata.name for s in desired(result, Service)] == [DERIVED]


UNHEARD = pytest.mark.parametrize("lease", [HolderState.UNKNOWN, HolderState.SILENT])


@UNHEARD
def test_the_address_of_an_import_outlives_the_silence_of_those_who_export_it(
    lease: HolderState,
) -> None:
    slices = [KEP, *published_slices(record("bergen"))]
    here, facts = silenced(lease)

    assert_address_stands(plan(observed(here, slices, facts=facts)))
    assert plan(observed(here[:1], slices, facts=facts)) == Plan(), "there was no import before"
    assert plan(observed(here[1:], slices, facts=facts)) == Plan(), "its address is lost"
    assert source_clusters(plan(observed(here, slices))) == ["bergen"]
    assert desired(plan(observed(here, slices)), ServiceImport)[0].metadata.annotations == {
        DERIVED_SERVICE: DERIVED
    }


@UNHEARD
def test_the_address_of_an_import_outlives_the_broker_of_those_who_are_silent(
    lease: HolderState,
) -> None:
    here, facts = silenced(lease)
    returned = [LeaseLiveness(BROKER, HOME, "bergen", "bergen", HolderState.READY, EPOCH)]

    assert_address_stands(plan(observed(here, [KEP], facts=facts)))
    assert plan(observed(here, [KEP], facts=returned)) == Plan()
    assert plan(observed(here, [KEP, stored(LEFT)], facts=facts)) == Plan()
    assert plan(observed(here, [], facts=facts)) == Plan(), "another profile"
    for change in (FactChange(None, facts[0]), ObjectChange(BROKER, None, stored(LEFT))):
        assert IMPORT in set(FEATURE.keys_for(change, observed(here, [KEP])))


def test_a_slice_without_its_import_is_planned_when_more_is_known_of_its_cluster() -> None:
    view = observed([], published_slices(record("bergen")))
    created = created_objects(plan(view), IMPORT, view)
    here = [o for o in created if isinstance(o, EndpointSlice)]
    returned = LeaseLiveness(BROKER, HOME, "bergen", "bergen", HolderState.READY, EPOCH)
    of_other = LeaseLiveness(BROKER, HOME, "riga", "riga", HolderState.READY, EPOCH)
    view = observed(here, [])

    assert here
    assert IMPORT in set(FEATURE.keys_for(FactChange(None, returned), view))
    assert IMPORT not in set(FEATURE.keys_for(FactChange(None, of_other), view))
    connected = FactChange(None, cluster(BROKER, Role.BROKER))
    for change in (ObjectChange(BROKER, None, stored(LEFT)), connected):
        assert IMPORT in set(FEATURE.keys_for(change, view))


def test_an_exporter_that_falls_silent_when_the_broker_lost_its_export_keeps_the_address() -> None:
    slices = [KEP, *published_slices(record("bergen"))]
    view = observed([derived_with_ips("10.0.0.77")], slices)
    here = [derived_with_ips("10.0.0.77"), *created_objects(plan(view), IMPORT, view)]
    [imported] = (o for o in here if isinstance(o, ServiceImport))

    result = plan(observed(here, [KEP], facts=[expired_lease("bergen")]))

    assert [c.cluster for c in imported.status.clusters] == ["bergen"]
    assert_address_stands(result)


@UNHEARD
def test_an_export_to_others_does_not_end_the_address_of_one_that_is_silent(
    lease: HolderState,
) -> None:
    others = published_slices(record("riga", to=("visby",)))
    here, facts = silenced(lease, *others)
    slices = [KEP, *published_slices(record("bergen")), *others]

    assert_address_stands(plan(observed(here, slices, facts=facts)))
    visible = published_slices(record("riga"))
    assert source_clusters(plan(observed(here, [KEP, *visible], facts=facts))) == ["riga"]


def test_the_address_of_an_import_ends_when_those_who_export_it_have_left() -> None:
    slices = [KEP, *published_slices(record("bergen"))]
    here, facts = silenced(HolderState.SILENT)

    assert plan(observed(here, [*slices, stored(LEFT)], facts=facts)) == Plan()


# -- weights, failover, ranges


def test_slices_carry_the_weight_of_their_cluster_where_configured() -> None:
    plain = plan(observed(broker=published_slices(record("bergen"))))
    fleet = rules(clusters=(MemberSettings(id="bergen", weight=5, priority=0),))
    by_fleet = plan(observed(broker=[fleet, *published_slices(record("bergen"))]))
    own = record("bergen", weight=0, priority=20)
    by_export = plan(observed(broker=[fleet, *published_slices(own)]))

    def annotations(result: Plan) -> dict[str, str]:
        return desired(result, EndpointSlice)[0].metadata.annotations

    assert annotations(plain) == {}
    assert annotations(by_fleet) == {WEIGHT: "5", PRIORITY: "0"}
    assert annotations(by_export) == {WEIGHT: "0", PRIORITY: "20"}
    back = plan(
        observed(broker=[fleet, *published_slices(record("bergen", weight=1, priority=10))])
    )
    assert annotations(back) == {WEIGHT: "1", PRIORITY: "10"}


def test_addresses_outside_of_a_clusters_ranges_are_left_out_and_reported() -> None:
    bounds = rules(clusters=(MemberSettings(id="bergen", ranges=("10.7.0.0/16",)),))
    slices = [*published_slices(record("bergen")), *published_slices(record("riga"), "10.0.0.2")]

    result = plan(observed(broker=[bounds, *slices]))

    held = {s.metadata.labels[SOURCE_CLUSTER]: s.endpoints for s in desired(result, EndpointSlice)}
    assert held["bergen"] == ()
    assert held["riga"]
    _, reported = desired(result, ServiceImport)[0].status.conditions
    assert (reported.type, reported.status, reported.reason) == (
        "AddressesAllowed",
        "False",
        "OutsideRanges",
    )
    assert "bergen publishes 10.0.0.1: outside of 10.7.0.0/16" in reported.message


def test_a_cluster_adds_nothing_to_services_of_namespaces_that_are_not_its_own() -> None:
    """Nor does it decide about them, however old it says that its export is."""
    bounds = rules(clusters=(MemberSettings(id="bergen", namespaces=("bank",)),))
    forged = published_slices(record("bergen", headless=True, age=1000), "10.0.0.1")
    slices = [*forged, *published_slices(record("riga", age=1), "10.0.0.2")]

    result = plan(observed(broker=[bounds, *slices]))

    sources = {s.metadata.labels[SOURCE_CLUSTER] for s in desired(result, EndpointSlice)}
    assert sources == {"riga"}
    assert desired(result, ServiceImport)[0].spec.type == "ClusterSetIP"


def test_conditions_of_others_on_an_import_are_kept() -> None:
    bounds = rules(clusters=(MemberSettings(id="bergen", ranges=("10.7.0.0/16",)),))
    slices = published_slices(record("bergen"))
    others = condition("Published", False, "NameTaken", "somebody has the name")
    first = desired(plan(observed(broker=[bounds, *slices])), ServiceImport)[0]
    status = replace(first.status, conditions=(others, *first.status.conditions))
    current = stored(replace(first, status=status))

    still = desired(plan(observed([current], broker=[bounds, *slices])), ServiceImport)[0]
    resolved = desired(plan(observed([current], broker=slices)), ServiceImport)[0]

    assert still.status.conditions == current.status.conditions
    assert [c.type for c in resolved.status.conditions] == ["Published", "Ready"]
    assert resolved.status.conditions[0] == others


# -- invariants


def test_planning_again_after_all_was_written_changes_nothing() -> None:
    bounds = rules("kep-1645", clusters=(MemberSettings(id="bergen", ranges=("10.7.0.0/16",)),))
    slices = [bounds, *published_slices(record("bergen")), *published_slices(record(HERE))]
    current: list[Object] = [derived_with_ips("10.0.0.77")]
    view = observed(current, slices)
    made = created_objects(plan(view), IMPORT, view)
    after = observed([*current, *made], slices, after=60)

    assert plan(after).desired
    assert created_objects(plan(after), IMPORT, after) == []


@settings(deadline=None, max_examples=40)
@given(st.permutations(["bergen", "visby", HERE]), st.sampled_from(["lighthouse", "kep-1645"]))
def test_the_aggregate_is_the_same_whoever_computes_it(order: list[str], profile: Any) -> None:
    slices = {
        c: published_slices(record(c, port(80, "http"), port(90 + n, f"own-{n}"), age=n))
        for n, c in enumerate(("bergen", "visby", HERE))
    }
    view = observed(broker=[rules(profile), *(s for c in order for s in slices[c])])

    [reported] = FEATURE.plan(AGGREGATE, view).desired

    assert isinstance(reported.ownership, Shared)
    assert reported.object.metadata.name == unique_name("web", SHOP)
    found = desired(FEATURE.plan(AGGREGATE, view), ServiceImport)[0]
    again = observed(broker=[rules(profile), *(s for c in slices for s in slices[c])])
    assert desired(FEATURE.plan(AGGREGATE, again), ServiceImport)[0] == found


# -- records of a newer schema


def test_objects_of_a_cluster_with_a_newer_schema_are_kept() -> None:
    before = [*published_slices(record("bergen", age=9)), *published_slices(record("riga"))]
    view = observed(broker=before)
    current = created_objects(plan(view), IMPORT, view)

    after = plan(
        observed(
            current, [newer_slice("bergen"), *published_slices(record("riga", port(81, "http")))]
        )
    )

    assert source_clusters(after) == ["bergen", "riga"]
    [reported] = desired(after, ServiceImport)
    assert reported in current
    kept = [s for s in desired(after, EndpointSlice) if s in current]
    assert [s.metadata.labels[SOURCE_CLUSTER] for s in kept] == ["bergen"]


def test_an_aggregate_that_rests_on_a_later_version_is_neither_rewritten_nor_deleted() -> None:
    view = observed(broker=published_slices(record("bergen")))
    [current] = created_objects(FEATURE.plan(AGGREGATE, view), AGGREGATE, view)

    after = FEATURE.plan(AGGREGATE, observed(broker=[newer_slice("bergen"), current]))

    assert [d.object for d in after.desired] == [current]
