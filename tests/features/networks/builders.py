"""Builders of tenants, networks, pods and admission requests."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from hanse.features.networks.feature import Networks
from hanse.features.networks.names import NETWORK, TENANT
from hanse.features.networks.webhooks import network_hooks
from hanse.model.admission import (
    AdmissionDecision,
    AdmissionHook,
    AdmissionRequest,
    Allow,
    Deny,
    Operation,
)
from hanse.model.facts import Fact, HolderState, LeaseLiveness, Role
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.core import Namespace, Node, Pod, Service
from hanse.model.kinds.networking import (
    IPAddress,
    IPAddressSpec,
    ParentReference,
    ServiceCIDR,
)
from hanse.model.kinds.networks import Network, Tenant
from hanse.model.naming import GUARDS_NAMESPACE
from hanse.model.objects import Meta, Object, Wire
from hanse.model.ownership import OWNER
from hanse.model.snapshot import Snapshot
from tests.support.builders import cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

HERE = "lubeck"
FEATURE = Networks()
ADMIN = ("system:masters",)


def hooks() -> dict[str, AdmissionHook]:
    """Every hook, as new."""
    return {hook.name: hook for hook in network_hooks(FEATURE)}


def tenant(name: str = "acme") -> Tenant:
    return stored(Tenant(metadata=Meta(name=name)))


def space(name: str = "acme-web", of: str = "acme") -> Namespace:
    labels = {TENANT: of} if of else {}
    return stored(Namespace(metadata=Meta(name=name, labels=labels)))


def network(name: str = "acme.default", type_: str = "flat", **more: Any) -> Network:
    status = more.pop("status", {"phase": "Ready", "dnsServiceIP": "10.96.0.53"})
    age = more.pop("age", 1)
    wire = {
        "metadata": {"name": name, "finalizers": ["arktos.futurewei.com/network"]},
        "spec": {"type": type_, "tenant": name.partition(".")[0], **more},
        "status": status,
    }
    return stored(msgspec.convert(wire, Network), age=age)


def pod(name: str = "web", where: str = "acme-web", ip: str = "", **labels: str) -> Pod:
    all_labels = {TENANT: where.partition("-")[0], NETWORK: "default", **labels}
    status = {"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {}
    wire = {"metadata": {"name": name, "namespace": where, "labels": all_labels}, "status": status}
    return stored(msgspec.convert(wire, Pod))


def service(name: str = "web", where: str = "acme-web", network: str = "default") -> Service:
    labels = {TENANT: where.partition("-")[0], NETWORK: network}
    return stored(Service(metadata=Meta(name=name, namespace=where, labels=labels)))


def dns_service(of: str = "acme.default", ip: str = "10.96.0.53") -> Service:
    owner, _, short = of.partition(".")
    wire = {
        "metadata": {
            "name": f"kube-dns-{short}",
            "namespace": f"{owner}-kube-system",
            "labels": {OWNER: "networks-x", TENANT: owner, NETWORK: short},
        },
        "spec": {"clusterIP": ip},
    }
    return stored(msgspec.convert(wire, Service))


def cidr(text: str, name: str = "kubernetes", **labels: str) -> ServiceCIDR:
    wire = {"metadata": {"name": name, "labels": labels}, "spec": {"cidrs": [text]}}
    return stored(msgspec.convert(wire, ServiceCIDR))


def used(address: str) -> IPAddress:
    return stored(IPAddress(metadata=Meta(name=address)))


def held(address: str, namespace: str, service: str) -> IPAddress:
    parent = ParentReference(resource="services", namespace=namespace, name=service)
    return replace(used(address), spec=IPAddressSpec(parent_ref=parent))


def node(name: str = "node-1", boot: str = "boot-1", **more: Any) -> Node:
    """A node that has been ready for a while."""
    ready = more.pop("ready", {"type": "Ready", "status": "True"})
    wire = {
        "metadata": {"name": name},
        "spec": more,
        "status": {
            "conditions": [ready],
            "nodeInfo": {"bootID": boot},
            "addresses": [{"type": "InternalIP", "address": f"172.18.0.{name[-1]}"}],
        },
    }
    return stored(msgspec.convert(wire, Node))


def guard_lease(name: str = "node-1", boot: str = "boot-1") -> Lease:
    spec = LeaseSpec(holder_identity=boot, lease_duration_seconds=60)
    return stored(Lease(metadata=LeaseMeta(name=name, namespace=GUARDS_NAMESPACE), spec=spec))


def guard_liveness(
    name: str = "node-1", state: HolderState = HolderState.READY, *, outdated: bool = False
) -> LeaseLiveness:
    return LeaseLiveness(HERE, GUARDS_NAMESPACE, name, "boot-1", state, EPOCH, outdated)


def cluster_snapshot(*objects: Object, facts: Iterable[Fact] = (), now: Any = EPOCH) -> Snapshot:
    """What an agent sees in a cluster with one tenant, and more."""
    usual: Sequence[Object] = (
        tenant(),
        space(),
        space("acme-kube-system"),
        space("acme-default"),
        space("plain", of=""),
        space("bolt-web", of="bolt"),
    )
    given = {(type(o), o.metadata.namespace, o.metadata.name) for o in objects}
    kept = [o for o in usual if (type(o), o.metadata.namespace, o.metadata.name) not in given]
    return snapshot(
        FEATURE, HERE, [cluster(HERE, Role.LOCAL)], {HERE: [*kept, *objects]}, facts, now
    )


def admission_request(
    kind: str = "Pod",
    where: str = "acme-web",
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: Wire | None = None,
    before: Wire | None = None,
    operation: Operation = "CREATE",
    user: str = "anna",
    groups: tuple[str, ...] = ("system:authenticated",),
    dry_run: bool = False,
    name: str = "web",
    **more: Any,
) -> AdmissionRequest:
    """A request of a tenant's."""
    metadata: Wire = {"name": name, "namespace": where}
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    wire = {"metadata": metadata, **({"spec": spec} if spec is not None else {}), **more}
    return AdmissionRequest(
        operation,
        "",
        "v1",
        kind,
        name,
        where,
        {} if operation == "DELETE" else wire,
        before or {},
        user,
        groups,
        dry_run,
    )


def denial_message(verdict: AdmissionDecision) -> str:
    """Why a request is refused; that it is refused is part of the claim."""
    assert isinstance(verdict, Deny), verdict
    return verdict.message


def applied_change(verdict: AdmissionDecision) -> Wire:
    """What an allowed request is changed by."""
    assert isinstance(verdict, Allow), verdict
    return verdict.change
