"""Federated Services and VM Services, merged from the objects of clusters."""

from typing import Any

from hanse.cli.federated_services import FailedCondition, FederatedObjects, build_view
from hanse.cli.status.federated import json_document
from hanse.model.conditions import condition
from hanse.model.kinds.core import ObjectReference, Service, ServicePort, ServiceSpec, ServiceStatus
from hanse.model.kinds.discovery import Endpoint, EndpointConditions, EndpointSlice
from hanse.model.objects import Meta
from tests.support.fleet_reads import findings, read

HOME = "antrea-plus-system"


def federated(name: str = "web") -> Service:
    marks = {"fed-svc.antreaplus.vmware-tanzu.com": "true"}
    return Service(
        metadata=Meta(name=name, namespace=HOME, annotations=marks),
        spec=ServiceSpec(ports=(ServicePort(port=80, name="http"),)),
    )


def piece(source: str, *ready: bool, by: str = "federated.hanse.dev", **meta: Any) -> EndpointSlice:
    labels = {
        "kubernetes.io/service-name": meta.pop("of", "web"),
        "endpointslice.kubernetes.io/managed-by": by,
    }
    return EndpointSlice(
        metadata=Meta(
            name=f"s-{source}",
            namespace=meta.pop("namespace", HOME),
            labels=labels,
            annotations={"cluster.federated.antreaplus.vmware-tanzu.com": source},
        ),
        address_type="IPv4",
        endpoints=tuple(
            Endpoint(
                addresses=(f"10.0.0.{n}",),
                conditions=EndpointConditions(ready=is_ready),
                target_ref=ObjectReference(name=f"vm-{n}"),
            )
            for n, is_ready in enumerate(ready)
        ),
    )


def test_a_federated_service_is_shown_with_its_clusters_and_ready_endpoints() -> None:
    slices = (piece("lubeck", True, True, False), piece("bergen", True))
    view = build_view(
        [
            FederatedObjects("lubeck", (federated(),), slices),
            FederatedObjects("bergen", (federated(),), slices),
            FederatedObjects("hamburg"),
        ]
    )

    [one] = view.services
    assert one.stands_in == ("bergen", "lubeck")
    assert one.ready == {"bergen": 1, "lubeck": 2}
    assert one.ports == ("80/TCP http",)
    assert json_document(view)["federatedServices"][0]["ready"] == {"bergen": 1, "lubeck": 2}


def test_a_vm_service_resolves_to_its_machines() -> None:
    marks = {"vm.antreaplus.vmware-tanzu.com": "true"}
    service = Service(metadata=Meta(name="db", namespace="shop", annotations=marks))
    behind = piece("-", True, True, by="machines.hanse.dev", of="db", namespace="shop")

    view = build_view([FederatedObjects("bergen", (service,), (behind,))])

    [one] = view.machines
    assert (one.cluster, one.name, one.machines) == ("bergen", "db", 2)


def test_conditions_written_for_users_are_shown_too() -> None:
    bad = condition("Federated", False, "ExternalName", "it has no endpoints")
    service = Service(
        metadata=Meta(name="web", namespace="shop"), status=ServiceStatus(conditions=(bad,))
    )

    view = build_view([FederatedObjects("bergen", (service,))])

    [found] = findings(read("bergen", service))
    assert (found.code, found.summary) == (
        "NotFederated",
        "Service shop/web in bergen: it has no endpoints",
    )
    assert view.troubles == (
        FailedCondition("bergen", "Service shop/web", "ExternalName", "it has no endpoints"),
    )
