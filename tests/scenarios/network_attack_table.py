"""More attacks of a tenant's administrator, one line each: what refuses it, and the request.

All are dry runs: what would be allowed stays undone. Policies refuse without any agent, too;
webhooks refuse by what an agent knows, and their requests fail while none answers.
"""

import json
from collections.abc import Iterator
from typing import Any

from hanse.features.networks.names import CNI_ARGS, DNS, NETWORK, NIC, READINESS, TENANT
from hanse.kube.transport import Request
from hanse.model.ownership import OWNER
from tests.scenarios.test_networks_tenants import POD

Row = tuple[str, str, str, Any]
"""What the refusal says, the method, the path and the body."""

_TYPES = {
    "MERGE": "application/merge-patch+json",
    "JSON": "application/json-patch+json",
    "APPLY": "application/apply-patch+yaml",
}
_KEPT, _RESERVED, _FIXED = "kept by Hanse", "kube-dns-* and kubernetes-*", "cannot be changed"
_MIRROR = {"kubernetes.io/config.mirror": "a"}


class Place:
    """The names in a cluster that attacks are about."""

    def __init__(self, own: str, victim: str, *, real: bool, ranges: dict[str, str]) -> None:
        """Two tenants, and ranges of the cluster by what they are.

        A `real` API server also serves what embedded clusters do not: server-side apply, bindings
        with admission, ephemeral containers and ReplicationControllers.
        """
        self.own, self.victim, self.real, self.ranges = own, victim, real, ranges
        core = "/api/v1/namespaces"
        self.space, self.dns, self.home = (
            f"{core}/{own}-{name}" for name in ("web", "kube-system", "default")
        )
        self.namespace = f"{core}/{own}-web"


def _slashed(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


def _labels(**labels: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


def policy_rows(at: Place) -> Iterator[Row]:
    """What admission policies refuse."""
    yield from _changed_rows(at)
    yield from _created_rows(at)
    yield from _kept_rows(at)


def _changed_rows(at: Place) -> Iterator[Row]:
    """A pod or Service that becomes another network's, by whatever way it is written."""
    web = f"{at.space}/pods/web"
    if at.real:
        yield from _binding_rows(at)
        applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {NETWORK: "lab"}}}
        yield _FIXED, "APPLY", web, applied
    yield _FIXED, "JSON", web, [{"op": "remove", "path": f"/metadata/labels/{_slashed(TENANT)}"}]
    yield _FIXED, "JSON", web, [{"op": "remove", "path": f"/metadata/labels/{_slashed(NETWORK)}"}]
    yield CNI_ARGS, "MERGE", web, {"metadata": {"annotations": {READINESS: "true"}}}
    yield _FIXED, "MERGE", f"{at.space}/services/web/status", _labels(**{NETWORK: "lab"})
    yield "hanse.dev", "MERGE", f"{at.space}/services/web", _labels(**{OWNER: "networks-x"})
    whole = {"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": []}}
    named = {"name": f"{at.own}-web", "labels": {TENANT: at.victim}}
    yield "whose a namespace is", "PUT", f"{at.namespace}/finalize", {**whole, "metadata": named}


def _binding_rows(at: Place) -> Iterator[Row]:
    """What a pod could get with its node."""
    web = f"{at.space}/pods/web"
    arguments = {"name": "web", "annotations": {CNI_ARGS: "IPV4=10.0.0.1"}}
    node = {"target": {"kind": "Node", "name": "x"}}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": arguments, **node}
    yield "with its node", "POST", f"{web}/binding", binding
    yield "with its node", "POST", f"{at.space}/bindings", binding
    moved = {**binding, "metadata": {"name": "web", "labels": {NETWORK: "other"}}}
    yield "with its node", "POST", f"{web}/binding", moved


def _created_rows(at: Place) -> Iterator[Row]:
    """New pods, Services and slices that are not what they seem."""
    web = f"{at.space}/pods/web"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{at.own}-kube-system/endpointslices"
    bound = {"hostPID": True, "nodeName": "x"}
    for extra, why in (({"hostNetwork": True}, "hostNetwork"), (bound, "orbidden")):
        mirror = {"metadata": {"name": "static", "annotations": _MIRROR}, "spec": {**POD, **extra}}
        yield why, "POST", f"{at.space}/pods", mirror
    taken = {"name": "static", "annotations": _MIRROR, "labels": {TENANT: at.victim}}
    yield "tenant", "POST", f"{at.space}/pods", {"metadata": taken, "spec": POD}
    spy = {"metadata": {"name": "spy", "labels": {DNS: "default"}}, "spec": POD}
    yield DNS, "POST", f"{at.space}/pods", spy
    privileged = {"name": "x", "image": "none", "securityContext": {"privileged": True}}
    debug = {"spec": {"ephemeralContainers": [privileged]}}
    if at.real:
        yield "orbidden", "MERGE", f"{web}/ephemeralcontainers", debug
    ports = {"spec": {"ports": [{"port": 80}]}}
    for where, name in ((at.dns, "kube-dns-"), (at.home, "kubernetes-"), (at.space, "kube-dns-")):
        yield _RESERVED, "POST", f"{where}/services", {"metadata": {"generateName": name}, **ports}
    free = {"metadata": {"generateName": "kube-dns-"}, "addressType": "IPv4", "endpoints": []}
    yield _RESERVED, "POST", slices, free
    joined = {"name": "x", "labels": {"kubernetes.io/service-name": "kube-dns-default"}}
    piece = {"metadata": joined, "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}]}
    yield _RESERVED, "POST", slices, piece


def _kept_rows(at: Place) -> Iterator[Row]:
    """What is kept for networks, also all of it at once."""
    slices = "/apis/discovery.k8s.io/v1/namespaces"
    for where, what in ((at.dns, "services"), (at.dns, "configmaps"), (at.home, "endpoints")):
        yield _KEPT, "DELETE", f"{where}/{what}", None
    yield _KEPT, "DELETE", f"{slices}/{at.own}-default/endpointslices", None
    yield _KEPT, "DELETE", f"/apis/apps/v1/namespaces/{at.own}-kube-system/deployments", None
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{at.own}-web"
    yield _KEPT, "DELETE", f"{roles}/rolebindings", None
    alias = {"apiVersion": "v1", "kind": "Service", "metadata": {"labels": {"a": "b"}}}
    if at.real:
        yield _KEPT, "APPLY", f"{at.home}/services/kubernetes-default", alias
    yield _KEPT, "MERGE", f"{at.home}/endpoints/kubernetes-default", {"subsets": []}
    arktos = "/apis/arktos.futurewei.com/v1"
    for what in ("networkports", "networkaccesses", "tenants"):
        yield "not for tenants", "POST", f"{arktos}/{what}", _platform_object(what, at)
    yield "not for tenants", "MERGE", f"{arktos}/tenants/{at.own}", _admins("anna")


def _admins(name: str) -> dict[str, Any]:
    return {"spec": {"admins": [{"kind": "User", "name": name}]}}


def _platform_object(what: str, at: Place) -> dict[str, Any]:
    kinds = {"networkports": "NetworkPort", "networkaccesses": "NetworkAccess", "tenants": "Tenant"}
    specs: dict[str, Any] = {
        "networkports": {
            "network": f"{at.own}.vpc",
            "subnet": "a",
            "address": "10.204.0.2",
            "mac": "02:00:00:00:00:01",
            "pod": {"namespace": f"{at.own}-web", "name": "web", "uid": "u"},
        },
        "networkaccesses": {"networks": [f"{at.own}.*"], "to": [{"nodes": True}]},
        "tenants": {},
    }
    kind = {"apiVersion": "arktos.futurewei.com/v1", "kind": kinds[what]}
    return {**kind, **_named("mine", spec=specs[what])}


_WORKLOADS = {
    "/apis/apps/v1": ("daemonsets", "replicasets", "deployments"),
    "/apis/batch/v1": ("jobs", "cronjobs"),
    "/api/v1": ("replicationcontrollers",),
}


def webhook_rows(at: Place) -> Iterator[Row]:
    """What an agent refuses by what it knows; the tenant's administrator asks."""
    yield from _workload_rows(at)
    yield from _network_rows(at)
    pods, vpc = f"{at.space}/pods", {NETWORK: "vpc"}
    pinned = {"metadata": {"name": "x", "labels": vpc}, "spec": {**POD, "nodeName": "node"}}
    yield "spec.nodeName", "POST", pods, pinned
    for nic, why in (
        ('{"ip": "10.205.0.9"}', "10.205.0.9"),
        ('{"ip": "10.204.0.1"}', "gateway"),
        ('{"subnet": "of nobody"}', "of nobody"),
        ("not JSON", NIC),
    ):
        metadata = {"name": "x", "labels": vpc, "annotations": {NIC: nic}}
        yield why, "POST", pods, {"metadata": metadata, "spec": POD}
    missing = {"metadata": {"name": "x", "labels": {NETWORK: "nowhere"}}, "spec": POD}
    yield "nowhere", "POST", pods, missing
    service = {"metadata": {"name": "x", "labels": {NETWORK: "nowhere"}}}
    yield "nowhere", "POST", f"{at.space}/services", {**service, "spec": {"ports": [{"port": 1}]}}


def _workload_rows(at: Place) -> Iterator[Row]:
    for group, kinds in _WORKLOADS.items():
        for kind in kinds if at.real or group != "/api/v1" else ():
            path = f"{group}/namespaces/{at.own}-web/{kind}"
            for pod, labels, why in (
                ({**POD, "hostNetwork": True}, {}, "hostNetwork"),
                (POD, {TENANT: at.victim}, TENANT),
                (POD, {NETWORK: "nowhere"}, NETWORK),
            ):
                yield why, "POST", path, _named("x", spec=_workload(kind, pod, labels))


def _workload(kind: str, pod: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """The spec of a workload with a template of such a pod."""
    if kind in ("jobs", "cronjobs"):
        template = {"metadata": {"labels": labels}, "spec": {**pod, "restartPolicy": "Never"}}
        job = {"template": template}
        return job if kind == "jobs" else {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    own = {"a": "b"}
    selector = own if kind == "replicationcontrollers" else {"matchLabels": own}
    return {
        "selector": selector,
        "template": {"metadata": {"labels": {**own, **labels}}, "spec": pod},
    }


def _network_rows(at: Place) -> Iterator[Row]:
    """Networks that the administrator of a tenant asks for, or changes."""
    path = "/apis/arktos.futurewei.com/v1/networks"

    def created(short: str, tenant: str = at.own, **spec: Any) -> dict[str, Any]:
        kind = {"apiVersion": "arktos.futurewei.com/v1", "kind": "Network"}
        return {
            **kind,
            **_named(f"{at.own}.{short}", spec={"type": "flat", "tenant": tenant, **spec}),
        }

    for owner, range_ in at.ranges.items():
        yield owner.replace("_", " "), "POST", path, created("x", service={"cidrs": [range_]})
    for range_ in ("127.9.0.0/24", "169.254.169.0/24", "230.0.0.0/24", "0.0.0.0/8", "10.1.0.1/24"):
        yield range_, "POST", path, created("x", service={"cidrs": [range_]})
    two = ["10.206.0.0/24", "10.206.0.128/25"]
    yield "keep ranges apart", "POST", path, created("x", service={"cidrs": two})
    yield "is of tenant", "POST", path, created("x", type="vpc", vpcID=f"{at.victim}-v")
    shared = [{"name": "b", "cidr": "10.204.0.0/25"}]
    again = created("x", type="vpc", vpcID=f"{at.own}-v", subnets=shared)
    yield "overlaps", "POST", path, again
    yield "spec.tenant", "POST", path, created("x", at.victim)
    for change in (
        {"type": "flat"},
        {"vpcID": "another"},
        {"subnets": [{"name": "a", "cidr": "10.207.0.0/24"}]},
    ):
        yield f"spec.{next(iter(change))}", "MERGE", f"{path}/{at.own}.vpc", {"spec": change}
    opened = {"metadata": {"finalizers": None}}
    for verb, body in (("MERGE", {"spec": {"subnets": []}}), ("MERGE", opened), ("DELETE", None)):
        yield "no administrator", verb, f"{path}/{at.victim}.vpc", body


def requests(rows: Iterator[Row]) -> Iterator[tuple[str, str, Request]]:
    """What the refusal of each says, what it is, and its request."""
    for why, method, path, body in rows:
        query = [("dryRun", "All")]
        if method == "APPLY":
            query += [("fieldManager", "x"), ("force", "true")]
        verb = "PATCH" if method in _TYPES else method
        text = b"" if body is None else json.dumps(body).encode()
        kind = _TYPES.get(method, "application/json")
        request = Request(verb, path, tuple(query), body=text, content_type=kind)
        yield why, f"{method} {path} {text.decode()[:120]}", request
