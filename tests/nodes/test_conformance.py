"""What the conformance suite of the Multi-Cluster Services API asserts, in its order.

Two clusters of the kep-1645 profile, whose nodes have the same names; the suite's first cluster is
HERE. docs/conformance.md says which test stands for which of its specs.
"""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import TCP, UDP, Manifest, export, service, workload

HERE, THERE = "lubeck", "hamburg"
BOTH = (HERE, THERE)
SPACE = "conformance"
ZONE = f"{SPACE}.svc.clusterset.local"
LOCAL_ZONE = f"{SPACE}.svc.cluster.local"

PORT, OTHER_PORT, THIRD_PORT = 42, 4242, 142
STICKY: Manifest = {
    "sessionAffinity": "ClientIP",
    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
}
TCP_PORT = {"name": "tcp", "port": PORT, "protocol": "TCP", "targetPort": TCP}
UDP_PORT = {"name": "udp", "port": PORT, "protocol": "UDP", "targetPort": UDP}
POD_PORTS = tuple({"name": p.lower(), "port": TCP, "protocol": p} for p in ("TCP", "UDP"))
"""Ports of a headless Service: its pods are reached by their own."""
SCTP_PORT = {"name": "stcp", "port": THIRD_PORT, "protocol": "SCTP"}
SAME_NAME = {"name": "tcp", "port": OTHER_PORT, "protocol": "TCP", "targetPort": TCP}
OTHER_NAME = SAME_NAME | {"name": "tcp2"}
OWN_PORT = SAME_NAME | {"name": "own", "port": THIRD_PORT}
OFTEN = 16
"""How often a connection is repeated that one cluster alone may answer."""

SERVICE_NAME = "multicluster.kubernetes.io/service-name"
SOURCE_CLUSTER = "multicluster.kubernetes.io/source-cluster"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


def hello(name: str, *ports: Manifest, selects: str = "hello", **more: Any) -> Manifest:
    """The suite's Service: TCP and UDP on 42 unless ports are given."""
    found = service(name, annotations={"own": "true"}, **more)
    found["metadata"]["labels"] = {"own": "true"}
    found["spec"] |= {"ports": list(ports) or [TCP_PORT, UDP_PORT], "selector": {"app": selects}}
    return found


def exported(name: str, key: str = "") -> Manifest:
    """An export, with a label and an annotation of this key if one is given."""
    found = export(name)
    if key:
        values = {key: "true"}
        found["spec"] = {"exportedLabels": values, "exportedAnnotations": values}
    return found


SERVICES: dict[str, tuple[Manifest | None, Manifest | None]] = {
    "hello": (hello("hello", **STICKY), None),
    "near": (hello("near", trafficDistribution="PreferClose"), None),
    "brief": (hello("brief"), hello("brief")),
    "union": (hello("union"), hello("union", TCP_PORT, SCTP_PORT)),
    "clash": (hello("clash"), hello("clash", SAME_NAME)),
    "shifted": (hello("shifted"), hello("shifted", SAME_NAME, OWN_PORT)),
    "distinct": (hello("distinct"), hello("distinct", OTHER_NAME)),
    "labelled": (hello("labelled"), hello("labelled")),
    "kinds": (hello("kinds"), hello("kinds", clusterIP="None")),
    "pods": (hello("pods", *POD_PORTS, selects="pods", clusterIP="None"), None),
    "set": (hello("set", selects="set", clusterIP="None"), None),
    "alias": (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "alias"},
            "spec": {"type": "ExternalName", "externalName": "example.com"},
        },
        None,
    ),
}
"""The exported Services by name, as in the first and in the second cluster; None: not exported."""


@pytest.fixture(scope="module")
def fleet(flat: NodesFleet) -> Iterator[NodesFleet]:
    """Every Service of the first cluster is exported and imported before those of the second."""
    flat.create_namespace(SPACE)
    for cluster in BOTH:
        flat.apply(cluster, SPACE, workload("Deployment", cluster, "hello"))
    more = (workload("Deployment", HERE, "pods", 2), workload("StatefulSet", HERE, "set", 2))
    first = {name: one for name, (one, _) in SERVICES.items() if one is not None}
    exports = [exported(name, "first") for name in first]
    flat.apply(HERE, SPACE, *more, hello("hidden"), *first.values(), *exports)
    imported = [f"serviceimport/{name}" for name in first if name != "alias"]
    until(lambda: flat.kubectl(HERE, "-n", SPACE, "get", *imported).status, lambda code: code == 0)
    second = {name: other for name, (_, other) in SERVICES.items() if other is not None}
    exports = [exported(name, "second" if name == "labelled" else "first") for name in second]
    flat.apply(THERE, SPACE, hello("hello", **STICKY), *second.values(), *exports)
    for name in ("deployment/hello", "deployment/pods", "statefulset/set"):
        flat.await_rollout(HERE, SPACE, name)
    flat.await_rollout(THERE, SPACE, "deployment/hello")
    yield flat
    flat.delete_namespace(SPACE)


def find(fleet: NodesFleet, cluster: str, kind: str, name: str) -> Any:
    """An object in a version that the suite may use; None if there is none."""
    versioned = f"{kind}.v1alpha1.multicluster.x-k8s.io"
    found = fleet.get(cluster, "-n", SPACE, versioned)["items"]
    return next((one for one in found if one["metadata"]["name"] == name), None)


def await_import(fleet: NodesFleet, cluster: str, name: str, *, ips: bool = False) -> Any:
    """The ServiceImport once it exists and, if wanted, has an address."""
    return until(
        lambda: find(fleet, cluster, "serviceimports", name),
        lambda seen: seen is not None and (not ips or bool(seen["spec"].get("ips"))),
    )


def await_condition(fleet: NodesFleet, cluster: str, name: str, kind: str, status: str) -> None:
    """Wait for the status of a condition of a ServiceExport."""

    def statuses() -> dict[str, str]:
        found = find(fleet, cluster, "serviceexports", name)
        conditions = found.get("status", {}).get("conditions") or ()
        return {one["type"]: one["status"] for one in conditions}

    until(statuses, lambda seen: seen.get(kind) == status)


def await_conflict(fleet: NodesFleet, name: str) -> None:
    """Wait until the exports of both clusters are in conflict."""
    for cluster in BOTH:
        await_condition(fleet, cluster, name, "Conflict", "True")


def await_ports(fleet: NodesFleet, name: str, *ports: Manifest) -> None:
    """Wait until the import of the first cluster has exactly these ports."""
    wanted = {(one["name"], one["protocol"], one["port"]) for one in ports}
    until(
        lambda: await_import(fleet, HERE, name)["spec"]["ports"],
        lambda seen: {(p.get("name"), p["protocol"], p["port"]) for p in seen} == wanted,
    )


def slices(fleet: NodesFleet, cluster: str, name: str) -> list[Any]:
    """The imported EndpointSlices of a service that have endpoints."""
    label = f"{SERVICE_NAME}={name}"
    found = fleet.get(cluster, "-n", SPACE, "endpointslices", "-l", label)["items"]
    return [one for one in found if one.get("endpoints")]


def addresses(fleet: NodesFleet, cluster: str, app: str) -> list[str]:
    """The addresses of the pods of an application."""
    pods = fleet.get(cluster, "-n", SPACE, "pods", "-l", f"app={app}")["items"]
    return sorted(pod["status"]["podIP"] for pod in pods)


def servers(fleet: NodesFleet, cluster: str, name: str) -> list[tuple[int, str]]:
    """The ports and targets of a name's SRV records, as a pod resolves them."""
    lines = (line.split() for line in fleet.netcheck(cluster, SPACE, "srv", name).out.splitlines())
    return sorted((int(port), target.rstrip(".")) for port, target in lines)


# -- ServiceImports


def test_an_import_exists_as_long_as_a_cluster_exports_the_service(fleet: NodesFleet) -> None:
    """The last test of `brief`, whose type and slices others look at first."""
    for cluster in BOTH:
        until(lambda c=cluster: len(slices(fleet, c, "brief")), lambda count: count == 2)  # type: ignore[misc]
    fleet.must(HERE, "-n", SPACE, "delete", "serviceexport", "brief")
    for cluster in BOTH:
        until(lambda c=cluster: len(slices(fleet, c, "brief")), lambda count: count == 1)  # type: ignore[misc]
        assert find(fleet, cluster, "serviceimports", "brief") is not None
    fleet.must(THERE, "-n", SPACE, "delete", "serviceexport", "brief")

    for cluster in BOTH:
        until(lambda c=cluster: find(fleet, c, "serviceimports", "brief"), lambda seen: not seen)  # type: ignore[misc]
        until(lambda c=cluster: slices(fleet, c, "brief"), lambda seen: not seen)  # type: ignore[misc]


def test_only_exported_labels_and_annotations_are_on_the_import(fleet: NodesFleet) -> None:
    metadata = await_import(fleet, HERE, "hello")["metadata"]

    for values in (metadata["labels"], metadata["annotations"]):
        assert values["first"] == "true"
        assert "own" not in values


def test_of_two_exports_the_labels_of_the_older_are_used_and_both_are_in_conflict(
    fleet: NodesFleet,
) -> None:
    await_conflict(fleet, "labelled")

    metadata = await_import(fleet, HERE, "labelled")["metadata"]
    for values in (metadata["labels"], metadata["annotations"]):
        assert values["first"] == "true"
        assert "second" not in values


def test_a_service_with_an_address_is_imported_as_such_in_each_cluster(fleet: NodesFleet) -> None:
    await_condition(fleet, HERE, "hello", "Valid", "True")

    for cluster in BOTH:
        assert await_import(fleet, cluster, "hello")["spec"]["type"] == "ClusterSetIP"


def test_session_affinity_is_that_of_the_service(fleet: NodesFleet) -> None:
    spec = await_import(fleet, HERE, "hello")["spec"]

    assert {field: spec.get(field) for field in STICKY} == STICKY


@pytest.mark.parametrize(
    ("field", "value"),
    [("internalTrafficPolicy", "Cluster"), ("trafficDistribution", "PreferClose")],
)
def test_the_traffic_policy_is_that_of_the_service(
    fleet: NodesFleet, field: str, value: str
) -> None:
    assert await_import(fleet, HERE, "near")["spec"][field] == value


def test_an_address_is_allocated(fleet: NodesFleet) -> None:
    for cluster in BOTH:
        spec = await_import(fleet, cluster, "hello", ips=True)["spec"]

        assert [ip_address(one).version for one in spec["ips"]] == [4]
        assert spec["ipFamilies"] == ["IPv4"]


def test_ports_are_those_of_the_service(fleet: NodesFleet) -> None:
    await_ports(fleet, "hello", TCP_PORT, UDP_PORT)


def test_ports_of_two_exports_are_united_and_both_are_in_conflict(fleet: NodesFleet) -> None:
    await_conflict(fleet, "union")
    await_ports(fleet, "union", TCP_PORT, UDP_PORT, SCTP_PORT)


def test_a_port_of_the_older_export_is_used_and_both_are_in_conflict(fleet: NodesFleet) -> None:
    await_conflict(fleet, "clash")
    await_ports(fleet, "clash", TCP_PORT, UDP_PORT)


def test_a_headless_service_is_imported_as_such_in_each_cluster_without_an_address(
    fleet: NodesFleet,
) -> None:
    for cluster in BOTH:
        until(lambda c=cluster: len(slices(fleet, c, "pods")), lambda count: count == 1)  # type: ignore[misc]
        spec = await_import(fleet, cluster, "pods")["spec"]

        assert spec["type"] == "Headless"
        assert not spec.get("ips")
        assert spec["ipFamilies"] == ["IPv4"]


def test_an_external_name_is_not_valid_and_not_imported(fleet: NodesFleet) -> None:
    await_condition(fleet, HERE, "alias", "Valid", "False")

    assert find(fleet, HERE, "serviceimports", "alias") is None


def test_of_two_types_the_older_is_used_and_both_are_in_conflict(fleet: NodesFleet) -> None:
    await_conflict(fleet, "kinds")

    for cluster in BOTH:
        assert await_import(fleet, cluster, "kinds")["spec"]["type"] == "ClusterSetIP"


# -- EndpointSlices


def test_slices_carry_the_labels_of_the_api(fleet: NodesFleet) -> None:
    for cluster in BOTH:
        [found] = until(lambda c=cluster: slices(fleet, c, "hello"), bool)  # type: ignore[misc]

        labels = found["metadata"]["labels"]
        assert (labels[SERVICE_NAME], labels[SOURCE_CLUSTER]) == ("hello", HERE)
        assert labels[MANAGED_BY] not in ("", "endpointslice-controller.k8s.io")


# -- names


@pytest.mark.parametrize("cluster", BOTH)
def test_the_name_of_a_service_is_its_address_in_the_clusterset(
    fleet: NodesFleet, cluster: str
) -> None:
    ips = await_import(fleet, cluster, "hello", ips=True)["spec"]["ips"]

    until(lambda: fleet.lookup(cluster, SPACE, f"hello.{ZONE}"), lambda seen: seen == ips)


@pytest.mark.parametrize("cluster", BOTH)
def test_the_name_of_a_service_has_one_record_for_its_port(fleet: NodesFleet, cluster: str) -> None:
    expected = [(PORT, f"hello.{ZONE}")]

    until(lambda: servers(fleet, cluster, f"hello.{ZONE}"), lambda seen: seen == expected)


@pytest.mark.parametrize("cluster", BOTH)
def test_names_of_the_cluster_are_those_of_its_own_services(
    fleet: NodesFleet, cluster: str
) -> None:
    own = fleet.get(cluster, "-n", SPACE, "service", "hello")["spec"]["clusterIP"]

    until(lambda: fleet.lookup(cluster, SPACE, f"hello.{LOCAL_ZONE}"), lambda seen: seen == [own])


@pytest.mark.parametrize("cluster", BOTH)
def test_the_name_of_a_headless_service_has_the_addresses_of_all_pods(
    fleet: NodesFleet, cluster: str
) -> None:
    pods = addresses(fleet, HERE, "pods")

    assert len(pods) == 2
    until(lambda: fleet.lookup(cluster, SPACE, f"pods.{ZONE}"), lambda seen: seen == pods)


@pytest.mark.parametrize("cluster", BOTH)
def test_a_pod_of_a_set_has_a_name_of_its_own(fleet: NodesFleet, cluster: str) -> None:
    [found] = until(
        lambda: slices(fleet, cluster, "set"),
        lambda seen: [len(one["endpoints"]) for one in seen] == [2],
    )

    assert {one["hostname"] for one in found["endpoints"]} == {"set-0", "set-1"}
    for endpoint in found["endpoints"]:
        assert endpoint["conditions"]["ready"]
        source = found["metadata"]["labels"][SOURCE_CLUSTER]
        name = f"{endpoint['hostname']}.{source}.set.{ZONE}"
        until(
            lambda n=name: fleet.lookup(cluster, SPACE, n),  # type: ignore[misc]
            lambda seen, e=endpoint: seen == e["addresses"],  # type: ignore[misc]
        )


@pytest.mark.parametrize("cluster", BOTH)
def test_the_name_of_a_headless_service_has_a_record_for_each_pod(
    fleet: NodesFleet, cluster: str
) -> None:
    hosts = [address.replace(".", "-") for address in addresses(fleet, HERE, "pods")]

    found = until(lambda: servers(fleet, cluster, f"pods.{ZONE}"), lambda seen: len(seen) == 2)

    assert {port for port, _ in found} == {TCP}
    for host in hosts:
        assert [target.startswith(host) for _, target in found].count(True) == 1


# -- connections


@pytest.mark.parametrize("cluster", BOTH)
def test_a_service_that_is_not_exported_is_not_reached(fleet: NodesFleet, cluster: str) -> None:
    assert fleet.lookup(cluster, SPACE, f"hidden.{ZONE}") == []
    assert not fleet.dial(cluster, SPACE, f"tcp:hidden.{ZONE}:{PORT}", 2).answers


@pytest.mark.parametrize("cluster", BOTH)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_service_of_two_clusters_is_reached_where_it_is_exported(
    fleet: NodesFleet, cluster: str, protocol: str
) -> None:
    fleet.await_answers(cluster, SPACE, f"{protocol}:hello.{ZONE}:{PORT}", {HERE}, OFTEN)


@pytest.mark.parametrize("cluster", BOTH)
def test_a_port_is_not_answered_by_a_cluster_that_has_another_number_by_its_name(
    fleet: NodesFleet, cluster: str
) -> None:
    fleet.await_answers(cluster, SPACE, f"tcp:shifted.{ZONE}:{THIRD_PORT}", {THERE}, 1)

    assert fleet.dial(cluster, SPACE, f"tcp:shifted.{ZONE}:{PORT}", OFTEN).clusters == {HERE}


@pytest.mark.parametrize("cluster", BOTH)
def test_each_port_is_answered_by_the_cluster_that_has_it(fleet: NodesFleet, cluster: str) -> None:
    for port, expected in ((PORT, HERE), (OTHER_PORT, THERE)):
        fleet.await_answers(cluster, SPACE, f"tcp:distinct.{ZONE}:{port}", {expected}, OFTEN)


def test_a_headless_import_ends_with_its_export(fleet: NodesFleet) -> None:
    """The last test: those of names look at this service."""
    fleet.must(HERE, "-n", SPACE, "delete", "serviceexport", "pods")

    for cluster in BOTH:
        until(lambda c=cluster: find(fleet, c, "serviceimports", "pods"), lambda seen: not seen)  # type: ignore[misc]
        until(lambda c=cluster: slices(fleet, c, "pods"), lambda seen: not seen)  # type: ignore[misc]
