"""Which endpoints stand in which slices, and how few writes a change takes."""

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


def planned(owner: Object, members: Sequence[Object], slices: Sequence[Object]) -> list[Write]:
    return plan_slices(owner, group_endpoints(owner, members, NODES), slices)


def applied(slices: Sequence[Object], writes: Sequence[Write]) -> list[Object]:
    """The slices as they are after the writes."""
    held = {name_of(one): one for one in slices}
    for number, write in enumerate(writes):
        match write:
            case Create():
                name = f"slice-{len(held)}-{number}-{len(slices)}"
                meta = {**write.object["metadata"], "name": name}
                held[name] = {**write.object, "metadata": meta}
            case Patch():
                body = {k: v for k, v in write.body.items() if k != "metadata"}
                held[name_of(write.target)] = {**write.target, **body}
            case Delete():
                del held[name_of(write.target)]
    return list(held.values())


def addresses(slices: Sequence[Object]) -> set[str]:
    return {one["addresses"][0] for part in slices for one in part["endpoints"]}


def only_endpoint(owner: Object, member: Object) -> Object:
    (write,) = planned(owner, [member], [])
    assert isinstance(write, Create)
    (endpoint,) = write.object["endpoints"]
    found: Object = endpoint
    return found


def test_a_slice_belongs_to_its_service() -> None:
    (write,) = planned(service(), pods(1), [])

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
def test_an_endpoint_says_how_its_pod_is(
    member: Object, spec: dict[str, Any], expected: tuple[bool, bool, bool]
) -> None:
    told = only_endpoint(service(**spec), member)["conditions"]

    assert (told["ready"], told["serving"], told["terminating"]) == expected


def test_an_endpoint_says_where_it_is() -> None:
    told = only_endpoint(service(), pod("web-7"))

    assert (told["nodeName"], told["zone"]) == ("node-1", "north")
    assert told["targetRef"]["name"] == "web-7"


def test_a_host_name_is_told_only_under_its_own_service() -> None:
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


def test_named_ports_part_pods_that_serve_them_differently() -> None:
    named = service(ports=[{"name": "http", "port": 80, "targetPort": "web"}])
    members = pods(2)
    for member, number in zip(members, (8080, 9090), strict=True):
        member["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": number}]

    writes = planned(named, members, [])

    ports = {one.object["ports"][0]["port"] for one in writes if isinstance(one, Create)}
    assert ports == {8080, 9090}


def test_two_families_have_slices_of_their_own() -> None:
    member = pod()
    member["status"]["podIPs"] = [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]

    writes = planned(service(ipFamilies=["IPv4", "IPv6"]), [member], [])

    kinds = {one.object["addressType"] for one in writes if isinstance(one, Create)}
    assert kinds == {"IPv4", "IPv6"}


def test_a_service_without_pods_has_one_empty_slice() -> None:
    slices = applied([], planned(service(), [], []))

    assert [one["endpoints"] for one in slices] == [[]]
    assert planned(service(), [], slices) == []


def test_the_empty_slice_is_the_first_to_be_filled() -> None:
    slices = applied([], planned(service(), [], []))

    writes = planned(service(), pods(3), slices)

    assert [type(one) for one in writes] == [Patch]
    (filled,) = applied(slices, writes)
    assert len(filled["endpoints"]) == 3
    assert filled["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]


def test_a_headless_service_says_so() -> None:
    (write,) = planned(service(clusterIP="None"), pods(1), [])

    assert isinstance(write, Create)
    assert write.object["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_a_slice_holds_a_hundred() -> None:
    slices = applied([], planned(service(), pods(250), []))

    assert sorted(len(one["endpoints"]) for one in slices) == [50, 100, 100]


def test_one_change_among_many_is_one_write() -> None:
    members = pods(250)
    slices = applied([], planned(service(), members, []))
    members[120] = pod("web-120", ip="10.1.0.121", ready=False)

    writes = planned(service(), members, slices)

    assert [type(one) for one in writes] == [Patch]


def test_a_new_pod_goes_where_there_is_room() -> None:
    slices = applied([], planned(service(), pods(150), []))

    writes = planned(service(), pods(151), slices)

    assert [type(one) for one in writes] == [Patch]


@given(
    before=st.sets(st.integers(0, 260)),
    after=st.sets(st.integers(0, 260)),
)
def test_slices_hold_exactly_the_pods_and_then_rest(before: set[int], after: set[int]) -> None:
    everyone = pods(261)
    slices = applied([], planned(service(), [everyone[n] for n in sorted(before)], []))
    members = [everyone[n] for n in sorted(after)]

    changed = applied(slices, planned(service(), members, slices))

    assert addresses(changed) == {one["status"]["podIP"] for one in members}
    assert all(len(one["endpoints"]) <= 100 for one in changed)
    assert planned(service(), members, changed) == []


def test_endpoints_part_the_ready_from_the_others() -> None:
    members = [pod("a", ip="10.1.0.1"), pod("b", ip="10.1.0.2", ready=False)]

    (write,) = plan_endpoints(service(), members, None)

    assert isinstance(write, Create)
    (subset,) = write.object["subsets"]
    assert [one["ip"] for one in subset["addresses"]] == ["10.1.0.1"]
    assert [one["ip"] for one in subset["notReadyAddresses"]] == ["10.1.0.2"]
    assert plan_endpoints(service(), members, write.object) == []
