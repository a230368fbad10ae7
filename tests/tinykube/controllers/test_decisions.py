"""Smaller decisions: garbage, the end of namespaces, addresses, events, nodes."""

from datetime import timedelta

import pytest

from tinykube.builtin_resources import BUILTINS
from tinykube.controllers.controller import Create, Delete, Patch, RecordEvent, Replace
from tinykube.controllers.events import EventRecorder
from tinykube.controllers.garbagecollector import OwnersByState, collect
from tinykube.controllers.namespace import NamespaceContent, sync_namespace
from tinykube.controllers.objects import find_condition, name_of
from tinykube.controllers.persistentvolume import needs_volume, volume_for
from tinykube.controllers.service_loadbalancer import (
    AddressPool,
    desired_addresses,
    service_identity,
    status_patches,
)
from tinykube.controllers.simulated_nodes import NodeRanges, node_status, plan_nodes
from tinykube.resources import Object

from .builders import NOW, metadata, pod

SOLID = {"kind": "ReplicaSet", "uid": "solid"}
DEAD = {"kind": "ReplicaSet", "uid": "dead"}
WAITING = {"kind": "ReplicaSet", "uid": "waiting"}


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        pytest.param(OwnersByState(solid=(SOLID,)), [], id="owned"),
        pytest.param(OwnersByState(dangling=(DEAD,)), [Delete], id="abandoned"),
        pytest.param(OwnersByState(solid=(SOLID,), dangling=(DEAD,)), [Patch], id="one owner left"),
        pytest.param(OwnersByState(waiting=(WAITING,)), [Delete], id="owner waits"),
        pytest.param(OwnersByState(unknown=(DEAD,)), [], id="kind not served"),
        pytest.param(
            OwnersByState(misplaced=(DEAD,)), [RecordEvent], id="cluster-scoped under namespaced"
        ),
    ],
)
def test_what_becomes_of_an_object_by_its_owners(
    owners: OwnersByState, expected: list[type]
) -> None:
    owned = pod("a", ownerReferences=[SOLID, DEAD])

    assert [type(one) for one in collect("pods", owned, owners, []).writes] == expected


def test_a_dependent_with_dependents_goes_after_them() -> None:
    owned = pod("a", ownerReferences=[WAITING])

    (write,) = collect("pods", owned, OwnersByState(waiting=(WAITING,)), [pod("b")]).writes

    assert isinstance(write, Delete)
    assert write.propagation == "Foreground"


def ending(finalizers: tuple[str, ...] = ("kubernetes",)) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "uid": "u", "deletionTimestamp": "2026-01-01T12:00:00Z"},
        "spec": {"finalizers": list(finalizers)},
        "status": {"phase": "Terminating"},
    }


PODS = BUILTINS.kinds[("v1", "Pod")]


def test_a_namespace_first_deletes_what_is_in_it() -> None:
    result = sync_namespace(
        ending(), [NamespaceContent(PODS, (pod("a"), pod("b", deleting=True)))], NOW
    )

    assert [name_of(one.target) for one in result.writes if isinstance(one, Delete)] == ["a"]


def test_a_namespace_says_what_it_is_waiting_for() -> None:
    held = pod("a", deleting=True, finalizers=["hanse.dev/keep"])

    (write,) = sync_namespace(ending(), [NamespaceContent(PODS, (held,))], NOW).writes

    assert isinstance(write, Patch)
    told = write.body["status"]["conditions"]
    remaining = find_condition(told, "NamespaceContentRemaining")
    finalizers = find_condition(told, "NamespaceFinalizersRemaining")
    assert remaining is not None
    assert finalizers is not None
    assert remaining["message"] == "Some resources are remaining: pods. has 1 resource instances"
    assert finalizers["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "hanse.dev/keep in 1 resource instances"
    )


def test_an_empty_namespace_is_let_go() -> None:
    (write,) = sync_namespace(ending(("kubernetes", "hanse.dev/x")), [], NOW).writes

    assert isinstance(write, Replace)
    assert write.subresource == "finalize"
    assert write.object["spec"]["finalizers"] == ["hanse.dev/x"]


def balanced(name: str, *addresses: str, **spec: str) -> Object:
    return {
        "metadata": metadata(name, namespace="shop"),
        "spec": {"type": "LoadBalancer", **spec},
        "status": {"loadBalancer": {"ingress": [{"ip": address} for address in addresses]}},
    }


def test_addresses_are_given_once_and_kept() -> None:
    pool = AddressPool(["198.19.0.0/30"])

    first = desired_addresses(balanced("a"), pool)
    pool.assign(service_identity(balanced("a")), first)
    second = desired_addresses(balanced("b"), pool)
    pool.assign(service_identity(balanced("b")), second)

    assert (first, second) == (("198.19.0.1",), ("198.19.0.2",))
    assert desired_addresses(balanced("c"), pool) == ()
    assert desired_addresses(balanced("a", "198.19.0.1"), pool) == first
    assert status_patches(balanced("a", "198.19.0.1"), first, pool) == ()


@pytest.mark.parametrize(
    ("requested", "given"),
    [
        pytest.param("198.19.0.7", ("198.19.0.7",), id="free"),
        pytest.param("198.19.0.1", (), id="another's"),
        pytest.param("203.0.113.1", (), id="not ours to give"),
    ],
)
def test_an_address_that_is_asked_for_is_given_if_it_can_be(
    requested: str, given: tuple[str, ...]
) -> None:
    pool = AddressPool(["198.19.0.0/24"])
    pool.assign(service_identity(balanced("other")), ["198.19.0.1"])

    assert desired_addresses(balanced("a", loadBalancerIP=requested), pool) == given


def test_an_address_goes_with_the_type() -> None:
    pool = AddressPool(["198.19.0.0/24"])
    former = balanced("a", "198.19.0.1", type="ClusterIP")

    (patch,) = status_patches(former, (), pool)

    assert patch.body["status"] == {"loadBalancer": {"ingress": None}}


def test_another_class_is_left_alone() -> None:
    foreign = balanced("a", "198.19.0.1", loadBalancerClass="cloud.example/lb")

    assert status_patches(foreign, (), AddressPool(["198.19.0.0/24"])) == ()


def test_a_volume_is_reserved_for_its_claim() -> None:
    claim: Object = {
        "metadata": {"name": "data-db-0", "namespace": "shop", "uid": "c1"},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }

    volume = volume_for(claim)

    assert needs_volume(claim)
    assert name_of(volume) == "pvc-c1"
    assert volume["spec"]["claimRef"]["uid"] == "c1"


class StillClock:
    def now(self) -> object:
        return NOW


def tell(message: str, *, warning: bool = False) -> RecordEvent:
    return RecordEvent(pod("a"), "Started", message, "kubelet", warning=warning)


def recorder() -> EventRecorder:
    return EventRecorder(StillClock())  # type: ignore[arg-type]  # it always tells the same moment


def test_a_repeated_event_is_counted() -> None:
    notes = recorder()
    notes.record(tell("hello"))
    notes.record(tell("hello"))

    first = notes.next_write(lambda event: event)
    notes.record(tell("hello"))
    second = notes.next_write(lambda event: event)

    assert isinstance(first, Create)
    assert first.object["count"] == 2
    assert isinstance(second, Patch)
    assert second.body["count"] == 3
    assert notes.next_write(lambda event: event) is None


def test_a_flood_of_similar_events_is_cut_short() -> None:
    notes = recorder()

    for number in range(100):
        notes.record(tell(f"attempt {number}"))

    assert len(notes) == 10


def test_under_load_warnings_outlive_ordinary_news() -> None:
    notes = recorder()
    notes.record(tell("trouble", warning=True))

    for number in range(1000):
        about = {**pod(f"p{number}"), "metadata": metadata(f"p{number}")}
        notes.record(RecordEvent(about, "Started", "Started container", "kubelet"))

    first = notes.next_write(lambda event: event)
    assert len(notes) < 300
    assert isinstance(first, Create)
    assert first.object["message"] == "trouble"


def test_nodes_have_addresses_zones_and_a_part_of_the_pod_range() -> None:
    nodes = plan_nodes("lubeck", 3, NodeRanges(pods=("10.1.0.0/16",)))

    zones = [one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in nodes]
    assert zones == ["lubeck-a", "lubeck-b", "lubeck-c"]
    assert [one["spec"]["podCIDR"] for one in nodes] == [
        "10.1.0.0/18",
        "10.1.64.0/18",
        "10.1.128.0/18",
    ]
    kinds = [one["type"] for one in nodes[0]["status"]["addresses"]]
    assert kinds == ["InternalIP", "ExternalIP", "Hostname"]


def test_a_settled_node_is_not_written_again() -> None:
    (node,) = plan_nodes("lubeck", 1, NodeRanges())

    status = node_status(node, NOW)

    assert node_status({**node, "status": status}, NOW + timedelta(days=1)) == status
