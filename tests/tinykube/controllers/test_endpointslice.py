"""EndpointSlices and Endpoints: endpoints of pods, and the writes of a change."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinykube.controllers.controller import Create, Delete, Patch, Write
from tinykube.controllers.endpoints import plan_endpoints
from tinykube.controllers.endpointslice import group_endpoints, is_endpoint
from tinykube.controllers.endpointslice_packing import plan_slices
from tinykube.controllers.objects import name_of
from tinykube.resources import Object

from .builders import node, pod, service

NODES = {"node-1": node("node-1", zone="north")}


def pods(count: int, start: int = 0) -> list[Object]:
    return [
        pod(f"web-{n}", ip=f"10.1.{n // 250}.{n % 250 + 1}") for n in range(start, start + count)
    ]


def slice_writes(owner: Object, members: Sequence[Object], slices: Sequence[Object]) -> list[Write]:
    return plan_slices(owner, group_endpoints(owner, members, NODES), slices)


def apply_writes(slices: Sequence[Object], writes: Sequence[Write]) -> list[Object]:
    """The slices after the writes."""
    by_name = {name_of(one): one for one in slices}
    for number, write in enumerate(writes):
        match write:
            case Create():
                name = f"slice-{len(by_name)}-{number}-{len(slices)}"
                meta = {**write.object["metadata"], "name": name}
                by_name[name] = {**write.object, "metadata": meta}
            case Patch():
                body = {k: v for k, v in write.body.items() if k != "metadata"}
                by_name[name_of(write.target)] = {**write.target, **body}
            case Delete():
                del by_name[name_of(write.target)]
    return list(by_name.values())


def addresses(slices: Sequence[Object]) -> set[str]:
    return {one["addresses"][0] for part in slices for one in part["endpoints"]}


def only_endpoint(owner: Object, member: Object) -> Object:
    (write,) = slice_writes(owner, [member], [])
    assert isinstance(write, Create)
    (endpoint,) = write.object["endpoints"]
    found: Object = endpoint
    return found


def test_a_slice_belongs_to_its_service() -> None:
    (write,) = slice_writes(service(), pods(1), [])

    assert isinstance(write, Create)
    meta = write.object["metadata"]
    assert meta["labels"] == {
        "team": "shop",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert meta["generateName"] == "web-"
    assert meta["ownerReferences"][0]["uid"] == "uid-web"
    assert write.object["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]


@pytest.mark.parametrize(
    ("member", "spec", "expected"),
    [
        pytest.param(pod(), {}, (True, True, False), id="ready"),
        pytest.param(pod(ready=False), {}, (False, False, False), id="not ready"),
        pytest.param(pod(deleting=True), {}, (False, True, True), id="terminating"),
        pytest.param(
            pod(ready=False),
            {"publishNotReadyAddresses": True},
            (True, False, False),
            id="published anyway",
        ),
    ],
)
def test_endpoint_conditions_follow_the_pod(
    member: Object, spec: dict[str, Any], expected: tuple[bool, bool, bool]
) -> None:
    conditions = only_endpoint(service(**spec), member)["conditions"]

    assert (conditions["ready"], conditions["serving"], conditions["terminating"]) == expected


def test_an_endpoint_has_its_node_and_zone() -> None:
    endpoint = only_endpoint(service(), pod("web-7"))

    assert (endpoint["nodeName"], endpoint["zone"]) == ("node-1", "north")
    assert endpoint["targetRef"]["name"] == "web-7"


def test_a_host_name_is_set_only_for_the_service_of_its_subdomain() -> None:
    member = pod("db-0")
    member["spec"] |= {"hostname": "db-0", "subdomain": "db"}

    assert only_endpoint(service("db"), member)["hostname"] == "db-0"
    assert "hostname" not in only_endpoint(service("other"), member)


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(pod(phase="Failed"), id="failed"),
        pytest.param(pod(ip=""), id="without an address"),
    ],
)
def test_some_pods_are_no_endpoints(member: Object) -> None:
    assert not is_endpoint(member)


def test_pods_with_different_numbers_of_a_named_port_are_in_different_slices() -> None:
    named = service(ports=[{"name": "http", "port": 80, "targetPort": "web"}])
    members = pods(2)
    for member, number in zip(members, (8080, 9090), strict=True):
        member["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": number}]

    writes = slice_writes(named, members, [])

    ports = {one.object["ports"][0]["port"] for one in writes if isinstance(one, Create)}
    assert ports == {8080, 9090}


def test_each_address_family_has_its_own_slices() -> None:
    member = pod()
    member["status"]["podIPs"] = [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]

    writes = slice_writes(service(ipFamilies=["IPv4", "IPv6"]), [member], [])

    kinds = {one.object["addressType"] for one in writes if isinstance(one, Create)}
    assert kinds == {"IPv4", "IPv6"}


def test_a_service_without_pods_has_one_empty_slice() -> None:
    slices = apply_writes([], slice_writes(service(), [], []))

    assert [one["endpoints"] for one in slices] == [[]]
    assert slice_writes(service(), [], slices) == []


def test_an_empty_slice_is_filled_first() -> None:
    slices = apply_writes([], slice_writes(service(), [], []))

    writes = slice_writes(service(), pods(3), slices)

    assert [type(one) for one in writes] == [Patch]
    (filled,) = apply_writes(slices, writes)
    assert len(filled["endpoints"]) == 3
    assert filled["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]


def test_slices_of_a_headless_service_are_labelled() -> None:
    (write,) = slice_writes(service(clusterIP="None"), pods(1), [])

    assert isinstance(write, Create)
    assert write.object["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_a_slice_has_at_most_a_hundred_endpoints() -> None:
    slices = apply_writes([], slice_writes(service(), pods(250), []))

    assert sorted(len(one["endpoints"]) for one in slices) == [50, 100, 100]


def test_one_change_among_many_is_one_write() -> None:
    members = pods(250)
    slices = apply_writes([], slice_writes(service(), members, []))
    members[120] = pod("web-120", ip="10.1.0.121", ready=False)

    writes = slice_writes(service(), members, slices)

    assert [type(one) for one in writes] == [Patch]


def test_a_new_endpoint_is_added_to_a_slice_with_free_capacity() -> None:
    slices = apply_writes([], slice_writes(service(), pods(150), []))

    writes = slice_writes(service(), pods(151), slices)

    assert [type(one) for one in writes] == [Patch]


@given(
    before=st.sets(st.integers(0, 260)),
    after=st.sets(st.integers(0, 260)),
)
def test_slices_have_exactly_the_pods_and_are_then_not_written(
    before: set[int], after: set[int]
) -> None:
    everyone = pods(261)
    slices = apply_writes([], slice_writes(service(), [everyone[n] for n in sorted(before)], []))
    members = [everyone[n] for n in sorted(after)]

    changed = apply_writes(slices, slice_writes(service(), members, slices))

    assert addresses(changed) == {one["status"]["podIP"] for one in members}
    assert all(len(one["endpoints"]) <= 100 for one in changed)
    assert slice_writes(service(), members, changed) == []


def test_endpoints_separate_ready_and_not_ready_addresses() -> None:
    members = [pod("a", ip="10.1.0.1"), pod("b", ip="10.1.0.2", ready=False)]

    (write,) = plan_endpoints(service(), members, None)

    assert isinstance(write, Create)
    (subset,) = write.object["subsets"]
    assert [one["ip"] for one in subset["addresses"]] == ["10.1.0.1"]
    assert [one["ip"] for one in subset["notReadyAddresses"]] == ["10.1.0.2"]
    assert plan_endpoints(service(), members, write.object) == []
