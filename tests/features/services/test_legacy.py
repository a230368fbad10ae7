"""What Lighthouse agents publish is read, published and removed while clusters are upgraded."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.features.services.legacy import (
    IS_HEADLESS,
    LEGACY_CLUSTER,
    LEGACY_NAME,
    LEGACY_NAMESPACE,
    LIGHTHOUSE_AGENT,
)
from hanse.features.services.lighthouse import LEGACY
from hanse.features.services.names import AGENT, LIGHTHOUSE, SERVICE_NAME, SOURCE_CLUSTER, WEIGHT
from hanse.model.facts import HolderState, LeaseLiveness
from hanse.model.kinds.discovery import (
    MANAGED_BY,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import K, Meta, Object
from hanse.model.ownership import OWNER
from hanse.model.plan import TakeOver
from hanse.model.snapshot import ObjectChange
from tests.features.services.builders import (
    AGGREGATE,
    BROKER,
    EXPORT,
    FEATURE,
    HERE,
    HOME,
    IMPORT,
    SHOP,
    backends,
    conditions,
    created_objects,
    desired,
    export,
    observed,
    port,
    published_slices,
    record,
    service,
    slice_read,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def legacy_import(of: str, where: str = HOME, **spec: Any) -> ServiceImport:
    """What an older agent publishes of shop/web."""
    fields = {"type": "ClusterSetIP", "ports": (port(80, "http"),), "ips": ("10.8.0.1",), **spec}
    meta = Meta(
        name=f"web-{SHOP}-{of}",
        namespace=where,
        labels={LEGACY_CLUSTER: of, LEGACY_NAME: "web", LEGACY_NAMESPACE: SHOP},
    )
    return stored(ServiceImport(metadata=meta, spec=ServiceImportSpec(**fields)), age=5)


def aggregate(*clusters: str) -> list[Object]:
    view = observed(broker=[s for c in clusters for s in published_slices(record(c))])
    return created_objects(FEATURE.plan(AGGREGATE, view), AGGREGATE, view)


def removals(here: Sequence[Object], broker: Sequence[Object]) -> list[tuple[str, str]]:
    removals = FEATURE.plan(LEGACY, observed(here, broker)).removals
    return [(r.target.where, r.target.ref.name) for r in removals]


def test_a_cluster_with_an_older_agent_is_imported_by_its_legacy_import() -> None:
    plan = FEATURE.plan(IMPORT, observed(broker=[legacy_import("riga")]))

    [endpoint_slice] = desired(plan, EndpointSlice)
    assert endpoint_slice.metadata.labels[SOURCE_CLUSTER] == "riga"
    assert [e.addresses for e in endpoint_slice.endpoints or ()] == [("10.8.0.1",)]
    [reported] = desired(plan, ServiceImport)
    assert [c.cluster for c in reported.status.clusters] == ["riga"]


def owned(obj: K) -> K:
    """The object as our agent of its cluster wrote it last."""
    meta = obj.metadata
    return replace(obj, metadata=replace(meta, labels={**meta.labels, OWNER: "services-0"}))


@pytest.mark.parametrize(
    ("legacy", "expected"),
    [
        (owned(legacy_import("riga")), "10.8.0.9"),
        (legacy_import("riga"), "10.8.0.1"),
    ],
    ids=["upgraded", "rolled back"],
)
def test_the_agent_that_wrote_last_speaks_for_its_cluster(
    legacy: ServiceImport, expected: str
) -> None:
    slices = [*published_slices(record("riga"), "10.8.0.9"), *published_slices(record("bergen"))]

    plan = FEATURE.plan(IMPORT, observed(broker=[*slices, legacy]))

    held = {
        s.metadata.labels[SOURCE_CLUSTER]: [e.addresses[0] for e in s.endpoints or ()]
        for s in desired(plan, EndpointSlice)
    }
    assert held == {"bergen": ["10.0.0.1"], "riga": [expected]}


def legacy_slice(of: str, *ready: bool, name: str = "web") -> EndpointSlice:
    """The pods of shop/web as an older agent publishes them."""
    labels = {SERVICE_NAME: name, SOURCE_CLUSTER: of, LEGACY_NAMESPACE: SHOP}
    endpoints = tuple(
        Endpoint(addresses=(f"10.7.0.{n + 1}",), conditions=EndpointConditions(ready=r))
        for n, r in enumerate(ready)
    )
    meta = Meta(name=f"web-{of}", namespace=HOME, labels=labels)
    return stored(EndpointSlice(metadata=meta, address_type="IPv4", endpoints=endpoints))


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([], [False]),
        ([legacy_slice("riga", False, True)], [True]),
        ([legacy_slice("riga", False, name="web-shop-riga")], [False]),
        ([legacy_slice("riga")], []),
        ([legacy_slice("visby", True)], [False]),
        ([legacy_slice("riga", True, name="other")], [False]),
    ],
)
def test_the_health_of_a_cluster_with_an_older_agent_comes_from_its_slices(
    slices: list[EndpointSlice], expected: list[bool]
) -> None:
    view = observed(broker=[legacy_import("riga"), *slices])

    [endpoint_slice] = desired(FEATURE.plan(IMPORT, view), EndpointSlice)

    assert [e.ready for e in endpoint_slice.endpoints or ()] == expected
    for changed in slices:
        keys = set(FEATURE.keys_for(ObjectChange(BROKER, None, changed), view))
        assert (IMPORT in keys) == (changed.metadata.labels[SERVICE_NAME] != "other")


@pytest.mark.parametrize("ready", [True, False])
def test_an_import_whose_slice_is_late_leaves_what_is_imported_as_it_is(ready: bool) -> None:
    before = observed(broker=[legacy_import("riga"), legacy_slice("riga", ready)])
    imported = created_objects(FEATURE.plan(IMPORT, before), IMPORT, before)

    late = FEATURE.plan(IMPORT, observed(imported, [legacy_import("riga")]))

    [endpoint_slice] = desired(late, EndpointSlice)
    assert [(e.addresses, e.ready) for e in endpoint_slice.endpoints or ()] == [
        (("10.8.0.1",), ready)
    ]


@pytest.mark.parametrize(
    ("found", "imported"), [("", False), ("older", True), ("newer", False)], ids=str
)
def test_slices_of_before_a_roll_back_count_once_a_read_confirms_them(
    found: str, imported: bool
) -> None:
    """An agent that returned has repaired what it published; its Lease may be seen first."""
    [published] = published_slices(record("riga"), "10.8.0.9")
    version = {"": "", "older": "1", "newer": "999999"}[found]
    broker = [published, legacy_import("visby"), legacy_slice("visby", True)]

    plan = FEATURE.plan(IMPORT, observed(broker=broker, facts=[slice_read(published, version)]))

    held = {s.metadata.labels[SOURCE_CLUSTER] for s in desired(plan, EndpointSlice)}
    assert ("riga" in held) == imported
    assert [q.ask.id for q in plan.questions] == [slice_read(published, "").question]


def test_a_status_that_still_names_a_cluster_does_not_bring_its_earlier_slices_back() -> None:
    """While it is rolled back its Lease is old, and what Hanse published for it stands."""
    view = observed(broker=[legacy_import("riga"), legacy_slice("riga", True)])
    imported = created_objects(FEATURE.plan(IMPORT, view), IMPORT, view)
    status = [o for o in imported if isinstance(o, ServiceImport)]
    old = LeaseLiveness(BROKER, HOME, "riga", "riga", HolderState.UNKNOWN, EPOCH)
    broker = [*published_slices(record("riga"), "10.8.0.9"), legacy_import("visby")]

    plan = FEATURE.plan(IMPORT, observed(status, broker, facts=[old]))

    assert "riga" not in {s.metadata.labels[SOURCE_CLUSTER] for s in desired(plan, EndpointSlice)}


def test_the_aggregate_names_only_clusters_that_were_upgraded() -> None:
    plan = FEATURE.plan(
        AGGREGATE, observed(broker=[legacy_import("riga"), *published_slices(record("bergen"))])
    )

    [reported] = desired(plan, ServiceImport)
    assert [c.cluster for c in reported.status.clusters] == ["bergen"]


def test_an_invalid_legacy_import_is_ignored() -> None:
    bad = [
        legacy_import("Riga!"),
        legacy_import("riga", ports=()),
        legacy_import("visby", ips=("nowhere",)),
    ]

    plan = FEATURE.plan(IMPORT, observed(broker=[*bad, *published_slices(record("bergen"))]))

    held = {s.metadata.labels[SOURCE_CLUSTER]: s.endpoints for s in desired(plan, EndpointSlice)}
    assert held.keys() == {"bergen", "visby"}
    assert held["visby"] == ()


def current_slice(
    of: str, *ready: bool, headless: bool = False, name: str = "", age: float = 3
) -> EndpointSlice:
    """What a Lighthouse agent since 0.15 publishes of shop/web: its address, or its pods."""
    labels = {
        SERVICE_NAME: "web",
        SOURCE_CLUSTER: of,
        LEGACY_NAMESPACE: SHOP,
        IS_HEADLESS: "true" if headless else "false",
        MANAGED_BY: LIGHTHOUSE_AGENT,
    }
    endpoints = tuple(
        Endpoint(addresses=(f"10.7.0.{n + 1}",), conditions=EndpointConditions(ready=r))
        for n, r in enumerate(ready)
    )
    return stored(
        EndpointSlice(
            metadata=Meta(name=name or f"web-shop-{of}", namespace=HOME, labels=labels),
            address_type="IPv4",
            endpoints=endpoints,
            ports=(EndpointPort(port=80, name="http"),),
        ),
        age=age,
    )


@pytest.mark.parametrize("headless", [False, True])
def test_a_cluster_with_lighthouse_since_0_15_is_imported_by_its_slices(headless: bool) -> None:
    ready = [True, False] if headless else [True]
    view = observed(broker=[current_slice("riga", *ready, headless=headless)])

    plan = FEATURE.plan(IMPORT, view)

    [endpoint_slice] = desired(plan, EndpointSlice)
    assert [e.ready for e in endpoint_slice.endpoints or ()] == ready
    assert endpoint_slice.metadata.annotations[AGENT] == LIGHTHOUSE
    [imported] = desired(plan, ServiceImport)
    assert imported.spec.type == ("Headless" if headless else "ClusterSetIP")
    assert [p.port for p in imported.spec.ports] == [80]


def test_a_headless_service_of_lighthouse_up_to_0_14_has_the_pods_of_its_slice() -> None:
    legacy = legacy_import("riga", type="Headless", ips=(), ports=())
    view = observed(broker=[legacy, legacy_slice("riga", True, False)])

    [endpoint_slice] = desired(FEATURE.plan(IMPORT, view), EndpointSlice)

    assert [(e.addresses[0], e.ready) for e in endpoint_slice.endpoints or ()] == [
        ("10.7.0.1", True),
        ("10.7.0.2", False),
    ]


def test_weights_that_users_gave_lighthouse_count() -> None:
    weights = {f"lighthouse-lb-weight.submariner.io/{HERE}": "7"}
    legacy = legacy_import("riga")
    legacy = replace(legacy, metadata=replace(legacy.metadata, annotations=weights))

    [endpoint_slice] = desired(FEATURE.plan(IMPORT, observed(broker=[legacy])), EndpointSlice)

    assert endpoint_slice.metadata.annotations[WEIGHT] == "7"


def test_a_conflict_with_a_cluster_that_is_not_upgraded_is_reported() -> None:
    there = legacy_import("riga", ports=(port(8080, "http"),))

    plan = FEATURE.plan(EXPORT, observed([export(age=60), service()], [there]))

    assert conditions(plan)["Conflict"] == ("True", "PortConflict")


def test_the_import_that_a_lighthouse_agent_left_here_is_taken_over() -> None:
    """It is the copy of the aggregate on the broker; another one is a person's own."""
    aggregate = ServiceImport(
        metadata=Meta(
            name="web-shop",
            namespace=HOME,
            annotations={SERVICE_NAME: "web", LEGACY_NAMESPACE: SHOP},
        ),
        spec=ServiceImportSpec(type="ClusterSetIP", ports=()),
    )
    status = ServiceImportStatus(clusters=(ExportingCluster(cluster="visby"),))
    copy = ServiceImport(
        metadata=Meta(name="web", namespace=SHOP), spec=aggregate.spec, status=status
    )
    own = replace(copy, status=ServiceImportStatus())
    slices = [current_slice("riga", True)]

    def taken_over(here: ServiceImport, broker: list[Object]) -> list[bool]:
        plan = FEATURE.plan(IMPORT, observed([stored(here)], [*slices, *broker]))
        return [
            isinstance(d.ownership, TakeOver)
            for d in plan.desired
            if isinstance(d.object, ServiceImport)
        ]

    assert taken_over(copy, [stored(aggregate)]) == [True]
    assert taken_over(copy, []) == [False]
    assert taken_over(own, [stored(aggregate)]) == [False]
    [imported] = desired(
        FEATURE.plan(IMPORT, observed([stored(copy)], [*slices, stored(aggregate)])), ServiceImport
    )
    assert [c.cluster for c in imported.status.clusters] == ["riga"]


def older_form(*broker: Object, here: Sequence[Object] | None = None) -> list[tuple[str, str]]:
    """Kind and name of what this cluster publishes for clusters with Lighthouse."""
    view = observed(here or [export(), service(), backends()], broker)
    plan = FEATURE.plan(EXPORT, view)
    return sorted(
        (type(d.object).kind.name, d.object.metadata.name) for d in plan.desired if d.step == 1
    )


def test_an_export_is_published_in_the_form_that_other_clusters_read() -> None:
    up_to_0_14 = [("EndpointSlice", f"web-shop-{HERE}"), ("ServiceImport", f"web-shop-{HERE}")]

    assert older_form() == []
    assert older_form(legacy_import("riga")) == up_to_0_14
    assert older_form(current_slice("riga", True)) == up_to_0_14[:1]
    assert older_form(owned(legacy_import("riga"))) == []
    assert older_form(legacy_import(HERE)) == []
    assert older_form(current_slice("riga"), current_slice(HERE, name="web-4f")) == [
        ("EndpointSlice", "web-4f")
    ]


def test_readers_of_0_14_see_only_ready_pods_and_those_of_0_15_the_address() -> None:
    here: list[Object] = [export(), service(), backends(), backends(ready=False, name="web-b")]

    def published(other: Object) -> list[bool]:
        plan = FEATURE.plan(EXPORT, observed(here, [other]))
        [older] = [
            d.object for d in plan.desired if d.step == 1 and isinstance(d.object, EndpointSlice)
        ]
        return [e.ready for e in older.endpoints or ()]

    assert published(legacy_import("riga")) == [True]
    assert published(current_slice("riga")) == [True]
    here[-2] = backends(ready=False)
    assert published(legacy_import("riga")) == []
    assert published(current_slice("riga")) == [False]


def test_a_local_copy_goes_once_its_cluster_publishes_it_no_more() -> None:
    copies: list[Object] = [
        legacy_import("riga", "submariner"),
        legacy_import("visby", "submariner"),
    ]
    there = [legacy_import("riga"), owned(legacy_import("visby"))]

    assert removals(copies, there) == [(HERE, "web-shop-visby")]


def test_what_this_cluster_published_with_lighthouse_goes_if_it_is_not_exported() -> None:
    ours: list[Object] = [legacy_import(HERE), current_slice(HERE, True)]

    assert removals([export()], ours) == []
    assert removals([], ours) == [("broker", f"web-shop-{HERE}")] * 2
    assert removals([], [owned(legacy_import(HERE))]) == []  # by the plan that owns it


def test_what_this_cluster_published_with_lighthouse_goes_once_nobody_reads_it() -> None:
    here: list[Object] = [export(), service(), backends()]

    def removed(*others: Object) -> list[str]:
        plan = FEATURE.plan(EXPORT, observed(here, [current_slice(HERE, True), *others]))
        return [r.target.ref.name for r in plan.removals]

    assert removed() == [f"web-shop-{HERE}"]
    assert removed(current_slice("riga", True)) == []


def test_what_other_clusters_published_is_never_removed() -> None:
    assert removals([], [legacy_import("riga"), *aggregate("riga")]) == []


def test_the_first_and_last_object_of_lighthouse_concern_all_exports() -> None:
    view = observed([export()], [legacy_import("riga")])
    alone = set(FEATURE.keys_for(ObjectChange(BROKER, None, legacy_import("riga")), view))
    second = set(FEATURE.keys_for(ObjectChange(BROKER, None, legacy_import("visby")), view))

    assert alone == {IMPORT, LEGACY, EXPORT, AGGREGATE}
    assert second == {IMPORT, LEGACY, EXPORT}


def test_import_and_slice_of_a_cluster_may_be_taken_over_one_after_the_other() -> None:
    """They arrive by different watches: whichever was written first, the pods stay."""
    legacy = legacy_import("riga", type="Headless", ips=(), ports=())
    pods = legacy_slice("riga", True)
    before = FEATURE.plan(IMPORT, observed(broker=[legacy, pods]))
    here = [stored(o) for o in desired(before, EndpointSlice)]
    silent = [LeaseLiveness(BROKER, HOME, "riga", "riga", HolderState.SILENT, EPOCH)]

    for broker in ([owned(legacy), pods], [legacy, owned(pods)], [owned(legacy), owned(pods)]):
        plan = FEATURE.plan(IMPORT, observed(here, broker, facts=silent))
        [endpoint_slice] = desired(plan, EndpointSlice)
        assert [e.addresses[0] for e in endpoint_slice.endpoints or ()] == ["10.7.0.1"]
