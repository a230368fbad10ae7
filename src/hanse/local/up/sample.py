"""The objects of the sample application of a local federation; pure."""

import base64
import json
from collections.abc import Sequence

from hanse.features.gslb.names import HOSTNAMES, SECRET, SECRET_KEY
from hanse.local.kubeconfig import Context, kubeconfig
from hanse.local.real.nodes.image import NETCHECK_IMAGE
from hanse.local.up.bootstrap import BootstrapObject, namespace_object
from hanse.local.up.topology import LocalMember
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Wire

SAMPLE_NAMESPACE = "shop"
SAMPLE_TENANT = "acme"

EXTERNAL_HOSTNAME = "{name}.{namespace}.hanse.example"
"""The host names of federated Services for clients outside the clusters, such as VMs."""
EXTERNAL_ZONE = "hanse.example"

GLOBAL_ZONE = "global.test"
HOST = f"web.{GLOBAL_ZONE}"
"""The host name that the GSLB answers for the shops of all clusters."""

_ANTREA_API_VERSION = "antreaplus.vmware-tanzu.com/v1alpha1"
_FEDERATED_SERVICE = "svc.global.federated.antreaplus.vmware.com"
"""The annotation or tag that makes a Service a member of a federated Service."""
_AMKO_VERSION = "1.5.1"
_GSLB_LABELS = {"gslb": "shared"}


def sample_objects(member: LocalMember) -> tuple[BootstrapObject, ...]:
    """A shop, alike in every cluster: two replicas of `web` behind an exported Service.

    Also a tenant with its own network, and external resources, by the member's role, that federated
    Services select. The first object is the namespace. Empty for the broker.
    """
    if not member.runs_workloads:
        return ()
    labels = {"app": "web"}
    metadata = {"name": "web", "namespace": SAMPLE_NAMESPACE, "labels": labels}
    container = {
        "name": "web",
        "image": NETCHECK_IMAGE,
        "args": ["serve", "--http=8080"],
        "env": [{"name": "CLUSTER", "value": member.name}],
        "ports": [{"name": "http", "containerPort": 8080}],
    }
    deployment: Wire = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    service: Wire = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "annotations": {_FEDERATED_SERVICE: "web"}},
        "spec": {
            "selector": labels,
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    export: Wire = {
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceExport",
        "metadata": {"name": "web", "namespace": SAMPLE_NAMESPACE},
    }
    tenant: Wire = {
        "apiVersion": "arktos.futurewei.com/v1",
        "kind": "Tenant",
        "metadata": {"name": SAMPLE_TENANT},
        "spec": {"namespaces": ["web"]},
    }
    inside = f"namespaces/{SAMPLE_NAMESPACE}"
    return (
        namespace_object(SAMPLE_NAMESPACE, takes_workloads=True),
        BootstrapObject(f"/apis/apps/v1/{inside}/deployments", deployment),
        BootstrapObject(f"/api/v1/{inside}/services", service),
        BootstrapObject(f"/apis/multicluster.x-k8s.io/v1beta1/{inside}/serviceexports", export),
        BootstrapObject("/apis/arktos.futurewei.com/v1/tenants", tenant),
        *(
            BootstrapObject(f"/apis/{one['apiVersion']}/{inside}/{one['kind'].lower()}s", one)
            for one in _external_resources(member, SAMPLE_NAMESPACE)
        ),
    )


def submitted_objects() -> tuple[BootstrapObject, ...]:
    """The sample's objects for the broker: a namespace, a headless Service, a StatefulSet of 3.

    The StatefulSet `store` asks by annotation for load balancers; its Service is `etcd`.
    """
    labels = {"app": "etcd"}
    inside = f"namespaces/{SAMPLE_NAMESPACE}"
    service: Wire = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "etcd", "namespace": SAMPLE_NAMESPACE, "labels": labels},
        "spec": {
            "clusterIP": "None",
            "selector": labels,
            "ports": [{"name": "store", "port": 80}],
        },
    }
    container = {
        "name": "etcd",
        "image": NETCHECK_IMAGE,
        "args": ["serve", "--tcp=80"],
        "ports": [{"name": "store", "containerPort": 80}],
    }
    stateful_set: Wire = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "store",
            "namespace": SAMPLE_NAMESPACE,
            "annotations": {"federation.kubernetes.io/statefulset-lb-needed": "true"},
        },
        "spec": {
            "serviceName": "etcd",
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    return (
        namespace_object(SAMPLE_NAMESPACE),
        BootstrapObject(f"/api/v1/{inside}/services", service),
        BootstrapObject(f"/apis/apps/v1/{inside}/statefulsets", stateful_set),
    )


def _external_resources(member: LocalMember, namespace: str) -> tuple[Wire, ...]:
    """The external resources of a member, which are backends of federated Services.

    A VirtualMachine with a database in a child; a NetworkInterface and a NativeService, a message
    queue, in a supervisor.
    """
    address = str(member.ranges.external[200])
    if member.role == "child":
        return (_virtual_machine(namespace, address),)
    return (_network_interface(namespace, address), _native_service(namespace))


def _virtual_machine(namespace: str, address: str) -> Wire:
    """The VM `db-1` with that address as ExternalIP and the port `sql`, 5432/TCP.

    Its tags make it a member of the federated Service `db`.
    """
    return {
        "apiVersion": _ANTREA_API_VERSION,
        "kind": "VirtualMachine",
        "metadata": {"name": "db-1", "namespace": namespace},
        "spec": {
            "id": "i-0a1b2c",
            "tags": {
                "svc.antreaplus.vmware.com": "db",
                "ports.antreaplus.vmware.com": "sql:5432/TCP",
                _FEDERATED_SERVICE: "db",
            },
            "networkInterfaces": [
                {"name": "eth0", "ips": [{"addressType": "ExternalIP", "address": address}]}
            ],
        },
    }


def _network_interface(namespace: str, address: str) -> Wire:
    """The NetworkInterface `queue`, with a fixed internal and the given external address."""
    return {
        "apiVersion": _ANTREA_API_VERSION,
        "kind": "NetworkInterface",
        "metadata": {"name": "queue", "namespace": namespace},
        "spec": {"internalIP": "10.255.0.1", "externalIP": address},
    }


def _native_service(namespace: str) -> Wire:
    """The NativeService `queue` on the NetworkInterface `queue`, with the port `amqp`, 5672/TCP.

    Its annotation makes it a member of the federated Service `queue`.
    """
    return {
        "apiVersion": _ANTREA_API_VERSION,
        "kind": "NativeService",
        "metadata": {
            "name": "queue",
            "namespace": namespace,
            "annotations": {_FEDERATED_SERVICE: "queue"},
        },
        "spec": {
            "networkInterface": "queue",
            "ports": [{"name": "amqp", "port": 5672, "protocol": "TCP"}],
        },
    }


def gslb_sample_objects(
    member: LocalMember, members: Sequence[LocalMember], contexts: Sequence[Context]
) -> tuple[BootstrapObject, ...]:
    """A load balancer for the shop, credentials and AMKOCluster of a member; empty for the broker.

    The first member is the GSLB leader, and gets its GSLBConfig and GlobalDeploymentPolicy, too.
    The credentials are the Secret of `contexts_secret`.
    """
    names = [m.name for m in members if m.runs_workloads]
    if not member.runs_workloads:
        return ()
    is_leader = member.name == names[0]
    secret = contexts_secret(members, contexts)
    common = (_load_balancer_service(), secret, _amko_cluster(member.name, names, is_leader))
    return (*common, _gslb_config(names), _global_deployment_policy(names)) if is_leader else common


def _load_balancer_service() -> BootstrapObject:
    """The LoadBalancer `front` for the pods of `web`, with the host name and label of the GSLB."""
    service: Wire = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "front",
            "namespace": SAMPLE_NAMESPACE,
            "labels": _GSLB_LABELS,
            "annotations": {HOSTNAMES: HOST},
        },
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    return BootstrapObject(f"/api/v1/namespaces/{SAMPLE_NAMESPACE}/services", service)


def contexts_secret(members: Sequence[LocalMember], contexts: Sequence[Context]) -> BootstrapObject:
    """The GSLB leader's Secret: a kubeconfig of those contexts whose clusters run workloads.

    That of the broker is left out.
    """
    names = {m.name for m in members if m.runs_workloads}
    workload_contexts = [context for context in contexts if context.cluster in names]
    text = json.dumps(kubeconfig(workload_contexts)).encode()
    secret: Wire = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": {SECRET_KEY: base64.b64encode(text).decode()},
    }
    return BootstrapObject(f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)


def _amko_cluster(name: str, names: Sequence[str], is_leader: bool) -> BootstrapObject:
    """The AMKOCluster of a member: whether it is the GSLB leader, and the names of all members."""
    spec = {
        "isLeader": is_leader,
        "clusterContext": name,
        "version": _AMKO_VERSION,
        "clusters": list(names),
    }
    return _amko_object("v1alpha1", "AMKOCluster", "amkoclusters", "amkocluster-federation", spec)


def _gslb_config(names: Sequence[str]) -> BootstrapObject:
    """The GSLBConfig `gc-1` with the clusters of these names as members."""
    spec = {"memberClusters": [{"clusterContext": name} for name in names]}
    return _amko_object("v1alpha1", "GSLBConfig", "gslbconfigs", "gc-1", spec)


def _global_deployment_policy(names: Sequence[str]) -> BootstrapObject:
    """The GlobalDeploymentPolicy for Services with the GSLB's label, in clusters of these names.

    The first has weight 3, the others 1; the last, if there are several, has a lower priority, so
    that it is used when no other is up.
    """
    split: list[Wire] = [{"cluster": names[0], "weight": 3, "priority": 20}]
    split += [{"cluster": name, "weight": 1, "priority": 20} for name in names[1:-1]]
    split += [{"cluster": name, "weight": 1, "priority": 10} for name in names[1:][-1:]]
    spec: Wire = {
        "matchRules": {"appSelector": {"label": _GSLB_LABELS}},
        "matchClusters": [{"cluster": name} for name in names],
        "trafficSplit": split,
        "controlPlaneHmOnly": True,
        "ttl": 5,
    }
    plural = "globaldeploymentpolicies"
    return _amko_object("v1alpha2", "GlobalDeploymentPolicy", plural, "global-gdp", spec)


def _amko_object(version: str, kind: str, plural: str, name: str, spec: Wire) -> BootstrapObject:
    """An object of AMKO's API group in its namespace, with the path of its collection."""
    obj: Wire = {
        "apiVersion": f"amko.vmware.com/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }
    return BootstrapObject(f"/apis/amko.vmware.com/{version}/namespaces/{NAMESPACE}/{plural}", obj)
