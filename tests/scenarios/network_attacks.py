"""What an administrator of one tenant tries, with every right that RBAC can give."""

import json
from collections.abc import Iterator
from typing import Any

from hanse.features.networks.names import CNI_ARGS, DNS, NETWORK, TENANT
from hanse.kube.client import Client
from hanse.kube.transport import Request
from hanse.model.kinds.apps import Deployment, StatefulSet
from hanse.model.kinds.core import (
    ConfigMap,
    Endpoints,
    Namespace,
    Pod,
    Service,
    ServiceAccount,
)
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import (
    Network,
    NetworkAccess,
    NetworkPeering,
    NetworkPort,
    Tenant,
)
from hanse.model.kinds.rbac import RbacRole, RoleBinding
from hanse.model.objects import Object
from hanse.model.ownership import OWNER
from tests.scenarios.networks import made
from tests.scenarios.test_networks_tenants import POD

PORTS = {"ports": [{"port": 80}]}
SECURITY = "pod-security.kubernetes.io/enforce"


class Attacker:
    """An administrator of one tenant, and the names of the other's things."""

    def __init__(self, client: Client, space: str, other: str, platform: tuple[str, ...]) -> None:
        """Attack from a namespace of one tenant; `platform` are addresses of the cluster itself."""
        self.client = client
        self.platform = platform
        self.space, self.other = space, other
        self.own, self.victim = (s.removesuffix("-web") for s in (space, other))

    def creations(self) -> Iterator[tuple[str, Object]]:
        """New objects, each with what refuses it."""
        spec = {**POD, "hostNetwork": True}
        yield "hostNetwork", made(Pod, "host", self.space, spec=spec)
        taken = {TENANT: self.victim, NETWORK: "default"}
        yield "tenant", made(Pod, "forged", self.space, labels=taken, spec=POD)
        yield "tenant", made(Service, "forged", self.space, labels=taken, spec=PORTS)
        for address in ("10.0.0.1", "192.0.2.7"):
            exposed = {**PORTS, "externalIPs": [address]}
            yield "externalIPs", made(Service, "redirect", self.space, spec=exposed)
        yield from self._squatters()
        yield "tenants", made(Tenant, "mine")
        subject = {"networks": ["*"], "to": [{"cidr": "0.0.0.0/0"}]}
        yield "networkaccesses", made(NetworkAccess, "all", spec=subject)
        port: dict[str, Any] = {
            "network": f"{self.victim}.default",
            "subnet": "a",
            "address": "10.0.0.9",
        }
        port |= {"mac": "02:00:00:00:00:01", "pod": {"namespace": "a", "name": "b", "uid": "c"}}
        yield "networkports", made(NetworkPort, "x", spec=port)
        for tenant in (self.victim, self.own):
            yield "whose a namespace is", made(Namespace, "grab", labels={TENANT: tenant})
        yield from self._forgeries()

    def _forgeries(self) -> Iterator[tuple[str, Object]]:
        """Objects that look like ours."""
        ours = {OWNER: "networks-forged"}
        yield (
            DNS,
            made(Pod, "dns", f"{self.own}-kube-system", labels={DNS: "default"}, spec=POD),
        )
        kept = "kept by Hanse"
        yield kept, made(Service, "ours", self.space, labels=ours, spec=PORTS)
        yield (
            kept,
            made(EndpointSlice, "ours", self.space, labels=ours, addressType="IPv4", endpoints=[]),
        )
        yield kept, made(NetworkPolicy, "ours", self.space, labels=ours, spec={"podSelector": {}})
        yield kept, made(RbacRole, "ours", self.space, labels=ours)
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        yield kept, made(RoleBinding, "ours", self.space, labels=ours, roleRef=role)

    def node_access(self) -> Iterator[tuple[str, Request]]:
        """Pods that could change the rules of their node: no Pod Security level refuses them."""
        path = f"/api/v1/namespaces/{self.space}/pods"
        for more in self._privileged_specs():
            pod = {"metadata": {"name": "root"}, "spec": {**POD, **more}}
            body = json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}).encode()
            yield (
                "orbidden",
                Request("POST", path, (("dryRun", "All"),), body=body),
            )

    def _privileged_specs(self) -> Iterator[dict[str, Any]]:
        yield {"hostPID": True}
        yield {"hostIPC": True}
        yield {"volumes": [{"name": "all", "hostPath": {"path": "/"}}]}
        main = POD["containers"][0]
        for security in ({"privileged": True}, {"capabilities": {"add": ["NET_ADMIN"]}}):
            held = {**main, "securityContext": security}
            yield {"containers": [held]}
            yield {"initContainers": [{**held, "name": "first"}]}
        yield {"containers": [{**main, "ports": [{"containerPort": 53, "hostPort": 53}]}]}

    def _squatters(self) -> Iterator[tuple[str, Object]]:
        reserved = "kube-dns-* and kubernetes-*"
        home, system = f"{self.own}-default", f"{self.own}-kube-system"
        yield reserved, made(Service, "kube-dns-next", system, spec=PORTS)
        yield reserved, made(Service, "kubernetes-next", home, spec=PORTS)
        yield reserved, made(RbacRole, "kube-dns-next", self.space)
        yield reserved, made(ConfigMap, "kube-dns-next", system)
        yield reserved, made(ServiceAccount, "kube-dns-next", system)
        yield reserved, made(Endpoints, "kubernetes-next", home)
        labels = {"kubernetes.io/service-name": "kubernetes-default"}
        endpoints = [{"addresses": ["198.51.100.9"]}]
        more = {"addressType": "IPv4", "endpoints": endpoints}
        yield reserved, made(EndpointSlice, "joined", home, labels=labels, **more)

    def changes(self) -> Iterator[tuple[str, type[Object], str, str, dict[str, Any], str]]:
        """Changes of what is there: what refuses it, the object, the patch, the subresource."""
        for name in (TENANT, NETWORK, DNS):
            labels = {"metadata": {"labels": {name: "stolen"}}}
            for subresource in ("", "status"):
                yield "cannot be changed", Pod, "web", self.space, labels, subresource
            yield "cannot be changed", Service, "web", self.space, labels, ""
        for address in ("10.0.0.1", "192.0.2.1"):
            taken = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
            yield "a node says", Pod, "web", self.space, taken, "status"
        yield "a node says", Pod, "web", self.space, {"status": {"phase": "Failed"}}, "status"
        arguments = {"metadata": {"annotations": {CNI_ARGS: "IPV4=10.0.0.1"}}}
        yield CNI_ARGS, Pod, "web", self.space, arguments, ""
        external = {"spec": {"externalIPs": ["10.0.0.1"]}}
        yield "externalIPs", Service, "web", self.space, external, ""
        for label in (None, self.victim):
            moved = {"metadata": {"labels": {TENANT: label}}}
            for subresource in ("", "status"):
                yield "whose a namespace is", Namespace, self.space, "", moved, subresource
        dns = f"{self.own}-kube-system"
        freed = {"metadata": {"labels": {OWNER: None}}}
        for subresource in ("", "status"):
            yield "forbidden", Deployment, "kube-dns-default", dns, freed, subresource
            yield "forbidden", Service, "kube-dns-default", dns, freed, subresource
        spied = {"data": {"namespaces": self.other}}
        yield "kept by Hanse", ConfigMap, "kube-dns-default", dns, spied, ""
        balancer = {"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}
        yield "status", Service, "web", self.space, balancer, "status"
        privileged = {"metadata": {"labels": {SECURITY: "privileged"}}}
        yield SECURITY, Namespace, f"{self.own}-default", "", privileged, ""
        tenant = {"spec": {"admins": [{"name": "anna"}]}}
        yield "tenants", Tenant, self.victim, "", tenant, ""
        status = {"status": {"dnsServiceIP": "10.0.0.66"}}
        yield "networks", Network, f"{self.victim}.default", "", status, "status"
        peered = {"status": {"phase": "Ready", "tenantUID": "a", "peerTenantUID": "b"}}
        yield "networkpeerings", NetworkPeering, "mine", self.space, peered, "status"

    def deletions(self) -> Iterator[tuple[str, type[Object], str, str]]:
        """What is not theirs to delete."""
        yield "tenants", Tenant, self.victim, ""
        yield "tenants", Tenant, self.own, ""
        dns, home = f"{self.own}-kube-system", f"{self.own}-default"
        kept = "kept by Hanse"
        yield kept, Deployment, "kube-dns-default", dns
        yield kept, Service, "kube-dns-default", dns
        yield kept, ConfigMap, "kube-dns-default", dns
        yield kept, Service, "kubernetes-default", home
        yield kept, Endpoints, "kubernetes-default", home
        yield kept, EndpointSlice, "kubernetes-default-kubernetes", home

    def reviewed_creations(self) -> Iterator[tuple[str, Object]]:
        """What webhooks refuse, and nobody creates while they do not answer."""
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {**POD, "hostNetwork": True}}
        selector = {"matchLabels": {"a": "b"}}
        for kind, more in ((Deployment, {}), (StatefulSet, {"serviceName": "host"})):
            spec = {"selector": selector, "template": template, **more}
            yield "hostNetwork", made(kind, "host", self.space, spec=spec)
            for name in (DNS, OWNER):
                labelled = {"metadata": {"labels": {"a": "b", name: "default"}}, "spec": POD}
                spec = {"selector": selector, "template": labelled, **more}
                yield "not for tenants", made(kind, "host", self.space, spec=spec)
        arguments = {CNI_ARGS: "IPV4=10.0.0.1"}
        yield CNI_ARGS, made(Pod, "plugged", self.space, annotations=arguments, spec=POD)
        labels = {"kubernetes.io/service-name": "web"}
        for address in self.platform:
            backed = {"addressType": "IPv4", "endpoints": [{"addresses": [address]}]}
            yield "remove it", made(EndpointSlice, "web-2", self.space, labels=labels, **backed)
            subsets = [{"addresses": [{"ip": address}], "ports": [{"port": 443}]}]
            yield "remove it", made(Endpoints, "web-2", self.space, subsets=subsets)
        spec = {"type": "flat", "tenant": self.victim}
        yield "no administrator", made(Network, f"{self.victim}.spy", spec=spec)
        others = {"namespaceSelector": {"matchLabels": {TENANT: self.victim}}}
        for peers in ([others], []):
            spec = {"podSelector": {}, "ingress": [{"from": peers}]}
            yield "other tenants", made(NetworkPolicy, "open", self.space, spec=spec)

    def reviewed_deletions(self) -> Iterator[tuple[str, type[Object], str]]:
        """What webhooks keep from being deleted."""
        yield "no administrator", Network, f"{self.victim}.default"
        yield "no administrator", Network, f"{self.own}.default"
