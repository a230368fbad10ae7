"""The DNS server of a network: its Service, its Deployment and its permissions."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from hanse.features.networks.lookups import FLAT, SLICES_BY_SERVICE
from hanse.features.networks.names import (
    DNS,
    FEATURE_DOMAIN,
    NETWORK,
    SHARED_DNS,
    TENANT,
    NetworkName,
    shorten_name,
)
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.zone import NAMESPACES
from hanse.model.kinds.apps import Deployment, DeploymentSpec
from hanse.model.kinds.core import ConfigMap, Service, ServiceAccount, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, EndpointSlice
from hanse.model.kinds.networking import LabelSelector
from hanse.model.kinds.networks import Network
from hanse.model.kinds.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from hanse.model.kinds.rbac import BoundSubject, PolicyRule, RbacRole, RoleBinding, RoleRef
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Meta, Object, Wire
from hanse.model.snapshot import Snapshot

PORT = 53
REPLICAS = 2
HEALTH_PORT = 8080
LAST_ANSWERS_SECONDS = 5
"""How long a server that is about to end answers: until no node sends it questions."""
COREDNS_READY_PORT = 8181
UNPRIVILEGED_PORTS = {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
"""Lets a non-root process bind port 53, within the pod's network namespace."""
READABLE_RESOURCES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("services", "pods")),
    ("discovery.k8s.io", ("endpointslices",)),
)
"""API group and resources that the DNS server may read in the tenant's namespaces."""


def network_labels(name: NetworkName) -> dict[str, str]:
    """The labels tenant and network of the objects of a network."""
    return {TENANT: name.tenant, NETWORK: name.network}


def dns_service(name: NetworkName, address: str) -> Service:
    """The DNS Service of a network, which selects its DNS pods, on port 53 of UDP and TCP.

    With an empty address the API server allocates one.
    """
    meta = Meta(
        name=name.kube_dns,
        namespace=name.dns_namespace,
        labels={**network_labels(name), "kubernetes.io/name": "KubeDNS"},
    )
    ports = (
        ServicePort(name="dns", port=PORT, target_port=PORT, protocol="UDP"),
        ServicePort(name="dns-tcp", port=PORT, target_port=PORT, protocol="TCP"),
    )
    selector = {TENANT: name.tenant, DNS: name.network}
    return Service(
        metadata=meta, spec=ServiceSpec(selector=selector, ports=ports, cluster_ip=address)
    )


def copied_slices(
    slices: Iterable[EndpointSlice], name: NetworkName, service: str, namespace: str
) -> Iterator[EndpointSlice]:
    """Copies of EndpointSlices for a Service of a network, as `SERVICE-SLICE` in a namespace.

    Endpoints and ports are the same; of the metadata only our labels remain.
    """
    for endpoint_slice in slices:
        labels = {**network_labels(name), KUBE_SERVICE: service, MANAGED_BY: FEATURE_DOMAIN}
        slice_name = shorten_name(f"{service}-{endpoint_slice.metadata.name}", 253)
        meta = Meta(name=slice_name, namespace=namespace, labels=labels)
        yield replace(endpoint_slice, metadata=meta)


def is_shared(network: Network, options: NetworksOptions) -> bool:
    """Whether a network is answered by the shared DNS server.

    Flat networks are, if the options choose workload `shared`; others never.
    """
    return options.dns_workload == "shared" and network.spec.type == FLAT


def shared_slices(name: NetworkName, snapshot: Snapshot) -> list[EndpointSlice]:
    """Copies of the shared DNS server's EndpointSlices for a network's own DNS Service."""
    found = sorted(
        snapshot.by(snapshot.local, SLICES_BY_SERVICE, f"{SYSTEM_NAMESPACE}/{SHARED_DNS}"),
        key=lambda s: s.metadata.name,
    )
    return [*copied_slices(found, name, name.kube_dns, name.dns_namespace)]


def is_answering(slices: Iterable[EndpointSlice]) -> bool:
    """Whether at least one endpoint of these EndpointSlices is ready."""
    endpoints = (endpoint for one in slices for endpoint in one.endpoints or ())
    return any(endpoint.ready for endpoint in endpoints)


def dns_workload(
    name: NetworkName, namespaces: Iterable[str], options: NetworksOptions
) -> Iterator[Object]:
    """The DNS server's account, rights in the tenant's namespaces, ConfigMap, Deployment, PDB.

    The ConfigMap holds a Corefile for CoreDNS, and else the namespaces that are served.
    """
    namespace, object_name = name.dns_namespace, name.kube_dns
    labels = network_labels(name)
    spaces = tuple(sorted(namespaces))
    yield ServiceAccount(metadata=Meta(name=object_name, namespace=namespace, labels=labels))
    for space in spaces:
        meta = Meta(name=object_name, namespace=space, labels=labels)
        own = (_config_rule(name),) if space == namespace else ()
        yield RbacRole(metadata=meta, rules=(*_read_rules(), *own))
        yield RoleBinding(
            metadata=meta,
            role_ref=RoleRef(kind="Role", name=object_name),
            subjects=(BoundSubject(kind="ServiceAccount", name=object_name, namespace=namespace),),
        )
    data = {NAMESPACES: " ".join(spaces)}
    if options.dns_workload == "coredns":
        data = {"Corefile": render_corefile(name, options.domain, spaces)}
    meta = Meta(name=object_name, namespace=namespace, labels=labels)
    yield ConfigMap(metadata=meta, data=data)
    yield _deployment(name, options)
    yield PodDisruptionBudget(
        metadata=Meta(name=object_name, namespace=namespace, labels=labels),
        spec=PodDisruptionBudgetSpec(
            min_available=1, selector=LabelSelector(match_labels=_pod_selector(name))
        ),
    )


def _read_rules() -> tuple[PolicyRule, ...]:
    """RBAC rules to get, list and watch `READABLE_RESOURCES`."""
    return tuple(
        PolicyRule(verbs=("get", "list", "watch"), api_groups=(group,), resources=resources)
        for group, resources in READABLE_RESOURCES
    )


def _config_rule(name: NetworkName) -> PolicyRule:
    """The right to list and watch the ConfigMap that names the tenant's namespaces."""
    return PolicyRule(
        verbs=("list", "watch"),
        api_groups=("",),
        resources=("configmaps",),
        resource_names=(name.kube_dns,),
    )


def _pod_selector(name: NetworkName) -> dict[str, str]:
    """The labels that select the DNS pods of a network."""
    return {TENANT: name.tenant, DNS: name.network}


def _deployment(name: NetworkName, options: NetworksOptions) -> Deployment:
    """The Deployment of a network's DNS server, with 2 replicas.

    It is the same whichever namespaces the tenant has.
    """
    labels = {**network_labels(name), DNS: name.network}
    template: Wire = {
        "metadata": {"labels": labels},
        "spec": {
            "serviceAccountName": name.kube_dns,
            "dnsPolicy": "Default",
            "securityContext": {"sysctls": [UNPRIVILEGED_PORTS]},
            "containers": [_container(name, options)],
            "volumes": _volumes(name, options),
        },
    }
    return Deployment(
        metadata=Meta(name=name.kube_dns, namespace=name.dns_namespace, labels=labels),
        spec=DeploymentSpec(
            replicas=REPLICAS, selector={"matchLabels": _pod_selector(name)}, template=template
        ),
    )


def _container(name: NetworkName, options: NetworksOptions) -> Wire:
    """The DNS container: CoreDNS with its Corefile, or else `hanse dns`."""
    container: Wire = {
        "name": "dns",
        "image": options.dns_image,
        "ports": [
            {"name": "dns", "containerPort": PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": PORT, "protocol": "TCP"},
        ],
        "lifecycle": {"preStop": {"sleep": {"seconds": LAST_ANSWERS_SECONDS}}},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        },
    }
    scratch = {"name": "scratch", "mountPath": "/tmp"}  # noqa: S108 - the pod's own
    container["volumeMounts"] = [scratch]
    if options.dns_workload == "coredns":
        mount = {"name": "config", "mountPath": "/etc/coredns", "readOnly": True}
        arguments = ["-conf", "/etc/coredns/Corefile"]
        probes = _probes("/health", HEALTH_PORT, "/ready", COREDNS_READY_PORT)
        return {**container, **probes, "args": arguments, "volumeMounts": [scratch, mount]}
    arguments = ["dns", "--network", str(name), "--follow", "--zone", options.domain]
    arguments += ["--listen", f"0.0.0.0:{PORT}", "--forward", "/etc/resolv.conf"]
    arguments += ["--metrics-listen", f"0.0.0.0:{HEALTH_PORT}"]
    probes = _probes("/healthz", HEALTH_PORT, "/readyz", HEALTH_PORT)
    return {**container, **probes, "args": arguments}


def _probes(alive: str, alive_port: int, ready: str, ready_port: int) -> Wire:
    """A liveness probe, which restarts a server that hangs, and a readiness probe."""
    return {
        "livenessProbe": {"httpGet": {"path": alive, "port": alive_port}, "periodSeconds": 20},
        "readinessProbe": {"httpGet": {"path": ready, "port": ready_port}, "periodSeconds": 5},
    }


def _volumes(name: NetworkName, options: NetworksOptions) -> list[Wire]:
    """The scratch volume, and for workload coredns also the ConfigMap with the Corefile."""
    scratch: Wire = {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}}
    if options.dns_workload != "coredns":
        return [scratch]
    return [scratch, {"name": "config", "configMap": {"name": name.kube_dns}}]


def render_corefile(name: NetworkName, domain: str, namespaces: Iterable[str]) -> str:
    """A Corefile that serves the Services and pods of one network, by their labels.

    CoreDNS watches whole clusters, so its account needs that permission. The well-known names
    `kubernetes` and `kube-dns` are rewritten to the network's Services and back; other names are
    forwarded.
    """
    spaces = " ".join(sorted(namespaces))
    kubernetes = f"{name.kubernetes}.{name.alias_namespace}.svc.{domain}"
    kube_dns = f"{name.kube_dns}.{name.dns_namespace}.svc.{domain}"
    return (
        ".:53 {\n"
        "    errors\n"
        f"    health :{HEALTH_PORT}\n"
        f"    ready :{COREDNS_READY_PORT}\n"
        f"    rewrite name exact kubernetes.default.svc.{domain} {kubernetes} answer auto\n"
        f"    rewrite name exact kube-dns.kube-system.svc.{domain} {kube_dns} answer auto\n"
        f"    kubernetes {domain} in-addr.arpa ip6.arpa {{\n"
        f"        labels {TENANT}={name.tenant},{NETWORK}={name.network}\n"
        f"        namespaces {spaces}\n"
        "        pods verified\n"
        "        ttl 5\n"
        "    }\n"
        "    forward . /etc/resolv.conf\n"
        "    loop\n"
        "    reload\n"
        "}\n"
    )
