"""EndpointSlices that exports publish, and their copies in importing clusters."""

import re
from datetime import timedelta
from ipaddress import ip_address
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.services.merge import MergedImport, merge_exports
from hanse.features.services.names import DOMAIN, EXPORTED_AT, RECORD, SERVICE_NAME, SOURCE_CLUSTER
from hanse.features.services.records import ExportRecord, encode_record
from hanse.features.services.slices import (
    ExportBackends,
    build_imported_slice,
    build_published_slices,
)
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    MANAGED_BY,
    Endpoint,
    EndpointConditions,
    EndpointSlice,
)
from hanse.model.kinds.multicluster import ImportedPort
from tests.features.services.builders import HOME, backends, port, published_slices, record
from tests.features.services.test_merge import PORT_SETS
from tests.support.builders import stored

WEB = record("lubeck")
PODS = record("lubeck", headless=True)
BOTH = ("10.0.0.1", "fd00:1::1")


def publish(
    of: ExportRecord, *pods: EndpointSlice, addresses: tuple[str, ...] = ("10.0.0.1",)
) -> tuple[EndpointSlice, ...]:
    return build_published_slices(
        of, ExportBackends(addresses, pods), HOME, as_pods=of.type == "Headless"
    )


def endpoint_states(slices: tuple[EndpointSlice, ...]) -> list[list[tuple[str, bool]]]:
    return [[(e.addresses[0], e.ready) for e in s.endpoints or ()] for s in slices]


def merge_of(*records: ExportRecord, profile: str = "kep-1645") -> MergedImport:
    result = merge_exports(records, "lighthouse" if profile == "lighthouse" else "kep-1645")
    assert result is not None
    return result


# -- a Service with an address


def test_the_services_own_address_is_published_and_ready_when_any_pod_is() -> None:
    slices = publish(WEB, backends(2, ready=False), backends(1, name="web-def"))

    assert endpoint_states(slices) == [[("10.0.0.1", True)]]
    assert [(p.name, p.port) for p in slices[0].ports or ()] == [("http", 80)]


def test_when_no_pod_is_ready_the_address_is_not() -> None:
    assert endpoint_states(publish(WEB, backends(2, ready=False))) == [[("10.0.0.1", False)]]


@pytest.mark.parametrize("pods", [(), (backends(0),)], ids=["no slice", "an empty slice"])
def test_without_pods_the_list_is_empty_and_the_slice_stays(
    pods: tuple[EndpointSlice, ...],
) -> None:
    slices = publish(WEB, *pods)

    assert endpoint_states(slices) == [[]]
    assert slices[0].metadata.name == publish(WEB, backends(1))[0].metadata.name


def test_each_family_has_a_slice_that_is_ready_by_its_own_pods() -> None:
    six = backends(1, ready=False, name="web-six", family="IPv6")

    slices = publish(WEB, backends(1), six, addresses=BOTH)

    assert [s.address_type for s in slices] == ["IPv4", "IPv6"]
    assert endpoint_states(slices) == [[("10.0.0.1", True)], [("fd00:1::1", False)]]


def test_a_service_without_an_address_yet_has_a_slice_all_the_same() -> None:
    slices = publish(WEB, backends(1), addresses=())

    assert endpoint_states(slices) == [[]]
    assert RECORD in slices[0].metadata.annotations


# -- a headless Service


def test_pods_are_published_slice_by_slice_with_their_host_names_and_ports() -> None:
    slices = publish(PODS, backends(2, hostnames=True), backends(1, name="web-def", family="IPv6"))

    assert [s.address_type for s in slices] == ["IPv4", "IPv6"]
    assert [e.hostname for e in slices[0].endpoints or ()] == ["web-0", "web-1"]
    assert [(p.name, p.port) for p in slices[0].ports or ()] == [("http", 8080)]
    assert [RECORD in s.metadata.annotations for s in slices] == [True, False]


def test_a_headless_service_without_pods_has_one_empty_slice() -> None:
    assert endpoint_states(publish(PODS)) == [[]]
    assert endpoint_states(publish(PODS, backends(0))) == [[]]


def test_no_slice_holds_more_than_a_hundred_pods() -> None:
    slices = publish(PODS, backends(250))

    sizes = [len(s.endpoints or ()) for s in slices]
    assert sum(sizes) == 250
    assert max(sizes) <= 100
    assert len({s.metadata.name for s in slices}) == len(slices)
    assert all(re.fullmatch(r"lubeck\.[a-z0-9-]{1,63}", s.metadata.name) for s in slices)


@given(st.integers(0, 1000), st.integers(0, 2**32 - 1))
def test_a_pod_that_leaves_changes_one_slice(pods: int, seed: int) -> None:
    """Where slices of the Service hold more than a hundred; halves that fit together are joined."""
    source = backends(0)
    addresses = Random(seed).sample(range(2**24), pods + 1)
    endpoints = tuple(Endpoint(addresses=(str(ip_address(0x0A000000 + a)),)) for a in addresses)
    before = publish(PODS, replace(source, endpoints=endpoints))
    after = publish(PODS, replace(source, endpoints=endpoints[1:]))

    old, new = ({s.metadata.name: s.endpoints for s in several} for several in (before, after))
    changed = [name for name in old.keys() | new.keys() if old.get(name) != new.get(name)]
    assert sum(len(e or ()) for e in new.values()) == pods
    assert max(len(e or ()) for e in new.values()) <= 100
    assert len(changed) == 1 or len(new) < len(old)


def test_the_record_stays_on_the_slice_that_has_it() -> None:
    several = ExportBackends(pods=(backends(1, name="web-a"), backends(1, name="web-b")))
    [old] = build_published_slices(
        PODS, replace(several, pods=several.pods[1:]), HOME, as_pods=True
    )

    slices = build_published_slices(PODS, several, HOME, as_pods=True, published=[old])

    assert [RECORD in s.metadata.annotations for s in slices] == [False, True]
    assert slices[1] == old


@pytest.mark.parametrize("refused", [False, True])
def test_the_slice_with_the_record_stays_when_its_pods_move_to_another(refused: bool) -> None:
    """By its creation others know how old the export is."""
    first = ExportBackends(pods=(backends(1, name="web-a"),))
    second = ExportBackends(pods=(backends(1, name="web-b"),))
    published = [stored(s, age=9) for s in build_published_slices(PODS, first, HOME, as_pods=True)]

    slices = build_published_slices(
        PODS, second, HOME, as_pods=True, refused=refused, published=published
    )
    again = build_published_slices(
        PODS, second, HOME, as_pods=True, refused=refused, published=[*published, *slices]
    )

    (kept,) = [s for s in slices if RECORD in s.metadata.annotations]
    assert kept.metadata.name == published[0].metadata.name
    assert not kept.endpoints
    assert again == slices


def test_the_time_of_a_published_slice_stays_as_it_was_created_with() -> None:
    """The broker refuses to change it; an earlier version published none."""
    behind = ExportBackends(pods=(backends(1),))
    [stated] = build_published_slices(PODS, behind, HOME, as_pods=True)
    [older] = [
        replace(
            stated, metadata=replace(stated.metadata, annotations={RECORD: encode_record(PODS)})
        )
    ]
    recreated = replace(PODS, exported_at=PODS.exported_at + timedelta(days=1))

    def time_after(published: EndpointSlice) -> str | None:
        [after] = build_published_slices(
            recreated, behind, HOME, as_pods=True, published=[published]
        )
        return after.metadata.annotations.get(EXPORTED_AT)

    assert time_after(stated) == PODS.exported_at.isoformat()
    assert time_after(older) is None


def test_pods_that_are_published_before_they_are_ready_stay_so() -> None:
    """The cluster marks the pods of such a Service as ready, and tells apart that they serve."""
    early = EndpointConditions(ready=True, serving=False, terminating=False)
    pods = replace(backends(1), endpoints=(Endpoint(addresses=("10.9.0.1",), conditions=early),))

    [endpoint_slice] = publish(PODS, pods)

    assert (endpoint_slice.endpoints or ())[0].conditions == early


def test_what_only_the_own_cluster_needs_is_not_published() -> None:
    pod = Endpoint(addresses=("10.9.0.1",), node_name="node-1", zone="north", hostname="web-0")

    [endpoint_slice] = publish(PODS, replace(backends(1), endpoints=(pod,)))

    assert endpoint_slice.endpoints == (replace(pod, node_name=""),)


def test_host_names_in_place_of_addresses_are_left_out() -> None:
    named = replace(backends(1), address_type="FQDN")

    assert endpoint_states(publish(PODS, named)) == [[]]


@pytest.mark.parametrize("of", [WEB, PODS], ids=["address", "pods"])
def test_a_refused_export_keeps_its_record_and_has_no_endpoints(of: ExportRecord) -> None:
    slices = build_published_slices(
        of, ExportBackends(BOTH, (backends(3),)), HOME, as_pods=of.type == "Headless", refused=True
    )

    assert all(not s.endpoints for s in slices)
    assert RECORD in slices[0].metadata.annotations


def test_of_two_services_no_two_slices_have_one_name() -> None:
    one = replace(WEB, name="a-b", namespace="c")
    other = replace(WEB, name="a", namespace="b-c")

    names = [s.metadata.name for r in (one, other) for s in publish(r, backends(1), addresses=BOTH)]

    assert len(set(names)) == 4


# -- copies


def test_a_copy_names_its_cluster_and_carries_no_record() -> None:
    [endpoint_slice] = published_slices(WEB)

    copy = build_imported_slice(endpoint_slice, WEB, merge_of(WEB, profile="lighthouse"))

    assert copy.metadata.namespace == "shop"
    assert copy.metadata.labels == {
        SERVICE_NAME: "web",
        SOURCE_CLUSTER: "lubeck",
        MANAGED_BY: DOMAIN,
    }
    assert copy.metadata.annotations == {}
    assert copy.endpoints == endpoint_slice.endpoints


def test_without_a_derived_service_a_copy_keeps_its_clusters_own_ports() -> None:
    old, young = record("lubeck", port(80, "http"), age=9), record("bergen", port(80, "web"))
    [endpoint_slice] = published_slices(young)

    copy = build_imported_slice(endpoint_slice, young, merge_of(old, young, profile="lighthouse"))

    assert [p.name for p in copy.ports or ()] == ["web"]


def test_behind_a_derived_service_ports_go_by_the_imports_names() -> None:
    old, young = record("lubeck", port(80, "http"), age=9), record("bergen", port(80, "web"))
    [endpoint_slice] = published_slices(young)

    copy = build_imported_slice(endpoint_slice, young, merge_of(old, young), "derived-web")

    assert [(p.name, p.port) for p in copy.ports or ()] == [("http", 80)]
    assert copy.metadata.labels[KUBE_SERVICE] == "derived-web"


def test_pods_behind_a_derived_service_are_joined_by_the_port_of_their_service() -> None:
    old = record("lubeck", port(80, "web"), age=9)
    young = record("bergen", port(80, "http"), headless=True)
    [endpoint_slice] = published_slices(young)

    copy = build_imported_slice(endpoint_slice, young, merge_of(old, young), "derived-web")

    assert [(p.name, p.port) for p in copy.ports or ()] == [("web", 8080)]


def test_a_port_that_the_import_does_not_have_leads_nowhere() -> None:
    """A later export has another number by the same name: its pods are not behind the import's."""
    old = record("lubeck", port(42, "tcp"), age=9)
    young = record("bergen", port(4242, "tcp"), port(43, "more"))
    [endpoint_slice] = published_slices(young)

    copy = build_imported_slice(endpoint_slice, young, merge_of(old, young), "derived-web")

    assert [p.name for p in copy.ports or ()] == ["more"]


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(PORT_SETS), st.sampled_from(PORT_SETS))
def test_a_copy_has_those_of_its_clusters_ports_that_the_import_has_by_number(
    one: tuple[ImportedPort, ...], other: tuple[ImportedPort, ...]
) -> None:
    old = replace(record("lubeck", age=9), ports=one)
    young = replace(record("bergen"), ports=other)
    [endpoint_slice] = published_slices(young)

    merged = merge_of(old, young)
    copy = build_imported_slice(endpoint_slice, young, merged, "derived-web")

    numbers = {(p.protocol, p.port) for p in other}
    expected = {p.name for p in merged.ports if (p.protocol, p.port) in numbers}
    names = [p.name for p in copy.ports or ()]
    assert set(names) == expected
    assert len(set(names)) == len(names)
