"""ServiceImports of older agents are used while they exist, and removed after upgrades."""

from typing import Any

import pytest

from hanse.features.services.legacy import LEGACY, LEGACY_CLUSTER, LEGACY_NAME, LEGACY_NAMESPACE
from hanse.features.services.names import SERVICE_NAME, SOURCE_CLUSTER
from hanse.model.kinds.discovery import Endpoint, EndpointConditions, EndpointSlice
from hanse.model.kinds.multicluster import ServiceImport, ServiceImportSpec
from hanse.model.objects import Meta, Object
from hanse.model.snapshot import ObjectChange
from tests.features.services.builders import (
    AGGREGATE,
    BROKER,
    FEATURE,
    HERE,
    HOME,
    IMPORT,
    SHOP,
    created_objects,
    desired,
    export,
    observed,
    port,
    published_slices,
    record,
)
from tests.support.builders import stored


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


def removals(here: list[Object], broker: list[Object]) -> list[tuple[str, str]]:
    removals = FEATURE.plan(LEGACY, observed(here, broker)).removals
    return [(r.target.where, r.target.ref.name) for r in removals]


def test_a_cluster_with_an_older_agent_is_imported_by_its_legacy_import() -> None:
    plan = FEATURE.plan(IMPORT, observed(broker=[legacy_import("riga")]))

    [endpoint_slice] = desired(plan, EndpointSlice)
    assert endpoint_slice.metadata.labels[SOURCE_CLUSTER] == "riga"
    assert [e.addresses for e in endpoint_slice.endpoints or ()] == [("10.8.0.1",)]
    [reported] = desired(plan, ServiceImport)
    assert [c.cluster for c in reported.status.clusters] == ["riga"]


def test_the_slices_of_an_upgraded_cluster_win_over_the_import_that_it_left_behind() -> None:
    slices = [*published_slices(record("riga"), "10.8.0.9"), *published_slices(record("bergen"))]

    plan = FEATURE.plan(IMPORT, observed(broker=[*slices, legacy_import("riga")]))

    held = {
        s.metadata.labels[SOURCE_CLUSTER]: [e.addresses[0] for e in s.endpoints or ()]
        for s in desired(plan, EndpointSlice)
    }
    assert held == {"bergen": ["10.0.0.1"], "riga": ["10.8.0.9"]}


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
        ([], [True]),
        ([legacy_slice("riga", False, True)], [True]),
        ([legacy_slice("riga", False, name="web-shop-riga")], [False]),
        ([legacy_slice("riga")], []),
        ([legacy_slice("visby", False)], [True]),
        ([legacy_slice("riga", False, name="other")], [True]),
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
        assert (IMPORT in keys) == (changed.metadata.labels[SOURCE_CLUSTER] == "riga")


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


def test_a_local_copy_goes_once_the_aggregate_names_its_cluster() -> None:
    copies: list[Object] = [
        legacy_import("riga", "submariner"),
        legacy_import("visby", "submariner"),
    ]

    assert removals(copies, []) == []
    assert removals(copies, aggregate("riga")) == [(HERE, "web-shop-riga")]


def test_our_own_leaves_the_broker_once_all_copies_are_gone_and_we_are_named() -> None:
    ours = legacy_import(HERE)
    exported: list[Object] = [export()]

    assert removals([legacy_import("riga", "submariner")], [ours, *aggregate(HERE)]) == []
    assert removals(exported, [ours]) == []
    assert removals(exported, [ours, *aggregate(HERE)]) == [("broker", f"web-shop-{HERE}")]
    assert removals([], [ours]) == [("broker", f"web-shop-{HERE}")]


def test_what_other_clusters_published_is_never_removed() -> None:
    assert removals([], [legacy_import("riga"), *aggregate("riga")]) == []


def test_legacy_imports_and_the_aggregate_enqueue_the_legacy_key() -> None:
    view = observed([legacy_import("riga", "submariner")], [legacy_import("riga")])
    [reported] = aggregate("riga")

    assert set(FEATURE.keys_for(ObjectChange("broker", None, legacy_import("riga")), view)) == {
        IMPORT,
        LEGACY,
    }
    assert set(FEATURE.keys_for(ObjectChange("broker", None, reported), view)) == {LEGACY}
    assert set(FEATURE.keys_for(ObjectChange("broker", None, reported), observed())) == set()
