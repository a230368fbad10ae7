"""Translation to Antrea Multi-cluster: every endpoint is in the result."""

from typing import Any

from hanse.features.federated.antrea import AntreaManifests, MigratedObjects, antrea_manifests
from hanse.model.kinds.antrea import AddressBlock, ClusterGroup, Group, GroupSpec
from hanse.model.kinds.federation import (
    NativePort,
    NativeService,
    NativeServiceSpec,
    NetworkInterface,
    NetworkInterfaceSpec,
)
from hanse.model.objects import Meta
from hanse.model.plan import Key
from hanse.runtime.ownership import Owner, with_owner
from tests.features.federated.builders import (
    GLOBAL_ANNOTATION,
    NAMESPACED_ANNOTATION,
    SHOP,
    pod_slice,
    service,
)


def objects_of_kind(result: AntreaManifests, kind: str) -> list[dict[str, Any]]:
    return [o for o in result.objects if o["kind"] == kind]


def addresses(result: AntreaManifests) -> set[str]:
    slices = objects_of_kind(result, "EndpointSlice")
    return {a for s in slices for e in s["endpoints"] for a in e["addresses"]}


def test_a_member_of_the_same_name_is_exported_as_it_is() -> None:
    result = antrea_manifests(MigratedObjects((service("web"),)), SHOP)

    assert [o["kind"] for o in result.objects] == ["ServiceExport"]
    assert result.objects[0]["apiVersion"] == "multicluster.x-k8s.io/v1alpha1"
    assert result.objects[0]["metadata"] == {"name": "web", "namespace": SHOP}


def test_a_member_of_another_name_is_exported_by_a_service_with_its_selector() -> None:
    result = antrea_manifests(
        MigratedObjects((service("web-here", selector={"app": "web"}),)), SHOP
    )

    [one] = objects_of_kind(result, "Service")
    assert one["metadata"]["name"] == "web"
    assert one["spec"]["selector"] == {"app": "web"}
    assert result.notes == ()


def test_a_member_that_no_selector_reaches_is_exported_with_its_endpoints() -> None:
    elsewhere = service("web", namespace="yard", selector={"app": "web"})
    pods = pod_slice("web", "10.2.0.1", "10.2.0.2", namespace="yard")

    result = antrea_manifests(MigratedObjects((elsewhere,), (pods,)), SHOP)

    [one] = objects_of_kind(result, "Service")
    assert "selector" not in one["spec"]
    assert addresses(result) == {"10.2.0.1", "10.2.0.2"}
    assert "Service yard/web" in result.notes[0]


def test_several_members_of_one_cluster_come_together() -> None:
    held = MigratedObjects(
        (service("a", selector={"app": "a"}), service("b", selector={"app": "b"})),
        (pod_slice("a", "10.2.0.1"), pod_slice("b", "10.2.0.2")),
    )

    result = antrea_manifests(held, SHOP)

    assert addresses(result) == {"10.2.0.1", "10.2.0.2"}
    assert len(objects_of_kind(result, "ServiceExport")) == 1


def test_a_native_service_is_exported_at_its_interface() -> None:
    native = NativeService(
        metadata=Meta(name="db", namespace=SHOP, annotations={GLOBAL_ANNOTATION: "db"}),
        spec=NativeServiceSpec(network_interface="nic", ports=(NativePort(port=5432, name="sql"),)),
    )
    nic = NetworkInterface(
        metadata=Meta(name="nic", namespace=SHOP), spec=NetworkInterfaceSpec(internal_ip="10.5.0.1")
    )

    result = antrea_manifests(MigratedObjects(native=(native,), interfaces=(nic,)), SHOP)

    assert addresses(result) == {"10.5.0.1"}
    assert objects_of_kind(result, "Service")[0]["spec"]["ports"][0]["port"] == 5432


def test_a_namespaced_member_stays_in_its_namespace() -> None:
    yard = service(
        "web",
        namespace="yard",
        annotations={NAMESPACED_ANNOTATION: "all"},
        selector={"app": "web"},
    )

    result = antrea_manifests(MigratedObjects((yard,)), SHOP)

    assert [o["metadata"] for o in objects_of_kind(result, "ServiceExport")] == [
        {"name": "all", "namespace": "yard"}
    ]


def test_what_joins_nothing_is_not_moved() -> None:
    held = MigratedObjects(
        (service(annotations={}), service(type="ExternalName", external_name="example.org"))
    )

    assert antrea_manifests(held, SHOP).objects == ()


def test_groups_are_carried_with_their_addresses_and_without_an_owner() -> None:
    spec = GroupSpec(ip_blocks=(AddressBlock(cidr="10.1.0.1/32"),))
    owner = Owner("federated", Key("service", "web", SHOP), "lubeck")
    ours = with_owner(Group(metadata=Meta(name="web", namespace=SHOP), spec=spec), owner)
    whole = with_owner(ClusterGroup(metadata=Meta(name="web.shop"), spec=spec), owner)
    own = Group(metadata=Meta(name="mine", namespace=SHOP), spec=spec)

    result = antrea_manifests(MigratedObjects(groups=(ours, whole, own)), SHOP)

    assert [(o["kind"], o["metadata"]) for o in result.objects] == [
        ("Group", {"name": "web", "namespace": SHOP}),
        ("ClusterGroup", {"name": "web.shop"}),
    ]
    assert all(o["spec"] == {"ipBlocks": [{"cidr": "10.1.0.1/32"}]} for o in result.objects)
    assert "after `hanse uninstall`" in result.notes[0]
