"""Pure functions of smaller controllers: garbage, namespaces, addresses, events, nodes."""

from collections import Counter
from datetime import timedelta

import pytest

from tinykube.builtin_resources import BUILTINS
from tinykube.controllers.controller import Create, Delete, Patch, RecordEvent, Replace
from tinykube.controllers.events import EventRecorder
from tinykube.controllers.garbagecollector import OwnersByState, plan_collection
from tinykube.controllers.job import sync_job
from tinykube.controllers.namespace import NamespaceContent, sync_namespace
from tinykube.controllers.objects import find_condition, name_of
from tinykube.controllers.persistentvolume import (
    binding_patches,
    can_bind,
    needs_volume,
    volume_for,
)
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
def test_writes_by_the_state_of_owners(owners: OwnersByState, expected: list[type]) -> None:
    owned = pod("a", ownerReferences=[SOLID, DEAD])

    assert [type(one) for one in plan_collection("pods", owned, owners, []).writes] == expected


def test_a_dependent_with_dependents_is_deleted_in_the_foreground() -> None:
    owned = pod("a", ownerReferences=[WAITING])

    (write,) = plan_collection("pods", owned, OwnersByState(waiting=(WAITING,)), [pod("b")]).writes

    assert isinstance(write, Delete)
    assert write.propagation == "Foreground"


def terminating_namespace(finalizers: tuple[str, ...] = ("kubernetes",)) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "uid": "u", "deletionTimestamp": "2026-01-01T12:00:00Z"},
        "spec": {"finalizers": list(finalizers)},
        "status": {"phase": "Terminating"},
    }


PODS = BUILTINS.kinds[("v1", "Pod")]


def test_a_terminating_namespace_first_deletes_its_content() -> None:
    result = sync_namespace(
        terminating_namespace(), [NamespaceContent(PODS, (pod("a"), pod("b", deleting=True)))], NOW
    )

    assert [name_of(one.target) for one in result.writes if isinstance(one, Delete)] == ["a"]


def test_conditions_name_the_remaining_content_of_a_namespace() -> None:
    finalized_pod = pod("a", deleting=True, finalizers=["hanse.dev/keep"])

    (write,) = sync_namespace(
        terminating_namespace(), [NamespaceContent(PODS, (finalized_pod,))], NOW
    ).writes

    assert isinstance(write, Patch)
    conditions = write.body["status"]["conditions"]
    remaining = find_condition(conditions, "NamespaceContentRemaining")
    finalizers = find_condition(conditions, "NamespaceFinalizersRemaining")
    assert remaining is not None
    assert finalizers is not None
    assert remaining["message"] == "Some resources are remaining: pods. has 1 resource instances"
    assert finalizers["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "hanse.dev/keep in 1 resource instances"
    )


def test_an_empty_namespace_loses_its_finalizer() -> None:
    (write,) = sync_namespace(terminating_namespace(("kubernetes", "hanse.dev/x")), [], NOW).writes

    assert isinstance(write, Replace)
    assert write.subresource == "finalize"
    assert write.object["spec"]["finalizers"] == ["hanse.dev/x"]


def load_balancer_service(name: str, *addresses: str, **spec: str) -> Object:
    return {
        "metadata": metadata(name, namespace="shop"),
        "spec": {"type": "LoadBalancer", **spec},
        "status": {"loadBalancer": {"ingress": [{"ip": address} for address in addresses]}},
    }


def test_addresses_are_assigned_once_and_kept() -> None:
    pool = AddressPool(["198.19.0.0/30"])

    first = desired_addresses(load_balancer_service("a"), pool)
    pool.assign(service_identity(load_balancer_service("a")), first)
    second = desired_addresses(load_balancer_service("b"), pool)
    pool.assign(service_identity(load_balancer_service("b")), second)

    assert (first, second) == (("198.19.0.1",), ("198.19.0.2",))
    assert desired_addresses(load_balancer_service("c"), pool) == ()
    assert desired_addresses(load_balancer_service("a", "198.19.0.1"), pool) == first
    assert status_patches(load_balancer_service("a", "198.19.0.1"), first, pool) == ()


@pytest.mark.parametrize(
    ("requested", "assigned"),
    [
        pytest.param("198.19.0.7", ("198.19.0.7",), id="free"),
        pytest.param("198.19.0.1", (), id="another's"),
        pytest.param("203.0.113.1", (), id="not ours to give"),
    ],
)
def test_a_requested_address_is_assigned_if_it_is_free(
    requested: str, assigned: tuple[str, ...]
) -> None:
    pool = AddressPool(["198.19.0.0/24"])
    pool.assign(service_identity(load_balancer_service("other")), ["198.19.0.1"])

    assert desired_addresses(load_balancer_service("a", loadBalancerIP=requested), pool) == assigned


def test_addresses_are_removed_when_the_type_changes() -> None:
    pool = AddressPool(["198.19.0.0/24"])
    former = load_balancer_service("a", "198.19.0.1", type="ClusterIP")

    (patch,) = status_patches(former, (), pool)

    assert patch.body["status"] == {"loadBalancer": {"ingress": None}}


def test_services_of_another_class_are_ignored() -> None:
    foreign = load_balancer_service("a", "198.19.0.1", loadBalancerClass="cloud.example/lb")

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


def test_a_volume_that_a_claim_names_is_reserved_for_it_and_not_bound_to_another() -> None:
    claim = {
        "metadata": {"name": "data", "namespace": "shop", "uid": "c1"},
        "spec": {"volumeName": "disk"},
    }
    other = {
        "metadata": {"name": "more", "namespace": "shop", "uid": "c2"},
        "spec": {"volumeName": "disk"},
    }
    volume: Object = {"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "1Gi"}}}

    reserved = next(p for p in binding_patches(claim, volume) if p.body.get("spec"))

    assert can_bind(claim, volume)
    assert name_of(reserved.target) == "disk"
    assert not can_bind(other, {**volume, "spec": {**volume["spec"], **reserved.body["spec"]}})


class FixedClock:
    def now(self) -> object:
        return NOW


def event(message: str, *, warning: bool = False) -> RecordEvent:
    return RecordEvent(pod("a"), "Started", message, "kubelet", warning=warning)


def recorder() -> EventRecorder:
    return EventRecorder(FixedClock())  # type: ignore[arg-type]  # it always tells the same moment


def test_a_repeated_event_is_counted() -> None:
    notes = recorder()
    notes.record(event("hello"))
    notes.record(event("hello"))

    first = notes.next_write(lambda event: event)
    notes.record(event("hello"))
    second = notes.next_write(lambda event: event)

    assert isinstance(first, Create)
    assert first.object["count"] == 2
    assert isinstance(second, Patch)
    assert second.body["count"] == 3
    assert notes.next_write(lambda event: event) is None


def test_similar_events_are_rate_limited() -> None:
    notes = recorder()

    for number in range(100):
        notes.record(event(f"attempt {number}"))

    assert len(notes) == 10


def test_under_load_normal_events_are_dropped_before_warnings() -> None:
    notes = recorder()
    notes.record(event("trouble", warning=True))

    for number in range(1000):
        about = {**pod(f"p{number}"), "metadata": metadata(f"p{number}")}
        notes.record(RecordEvent(about, "Started", "Started container", "kubelet"))

    first = notes.next_write(lambda event: event)
    assert len(notes) < 300
    assert isinstance(first, Create)
    assert first.object["message"] == "trouble"


def test_nodes_have_addresses_zones_and_pod_cidrs() -> None:
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


def test_an_unchanged_node_is_not_written() -> None:
    (node,) = plan_nodes("lubeck", 1, NodeRanges())

    status = node_status(node, NOW)

    assert node_status({**node, "status": status}, NOW + timedelta(days=1)) == status


def work_queue(*phases: str, parallelism: int = 3) -> dict[str, int]:
    """How many writes of each type sync a Job without completions with pods of these phases."""
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata("j"),
        "spec": {"parallelism": parallelism},
    }
    pods = [{**pod(f"p{at}"), "status": {"phase": phase}} for at, phase in enumerate(phases)]
    return Counter(type(one).__name__ for one in sync_job(job, pods, NOW).writes)


def test_a_work_queue_runs_as_many_pods_as_its_parallelism_says() -> None:
    assert work_queue()["Create"] == 3
    assert work_queue("Running", "Failed")["Create"] == 2


def test_a_work_queue_starts_and_ends_no_pod_after_the_first_success() -> None:
    writes = work_queue("Succeeded", "Running", "Running")

    assert (writes["Create"], writes["Delete"]) == (0, 0)


def test_a_work_queue_that_has_too_many_pods_ends_some() -> None:
    assert work_queue("Running", "Running", parallelism=1)["Delete"] == 1
    assert work_queue("Succeeded", "Running", "Running", parallelism=1)["Delete"] == 0
