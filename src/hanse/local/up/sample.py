"""The sample application of a local federation; pure."""

import base64
import json
from collections.abc import Sequence

from hanse.features.gslb.names import HOSTNAMES, SECRET, SECRET_KEY
from hanse.local.kubeconfig import Context, kubeconfig
from hanse.local.up.bootstrap import BootstrapObject, namespace_object
from hanse.local.up.topology import Member
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Wire

SAMPLE_NAMESPACE = "shop"
SAMPLE_TENANT = "acme"


def sample(member: Member) -> tuple[BootstrapObject, ...]:
    """A small shop, the same in every cluster: two replicas of `web` behind an exported Service.

    Beside it a tenant with a network of its own, and things outside that federated Services share.
    """
    if not member.runs_workloads:
        return ()
    labels = {"app": "web"}
    metadata = {"name": "web", "namespace": SAMPLE_NAMESPACE, "labels": labels}
    container = {
        "name": "web",
        "image": "agnhost:2.53",
        "args": ["netexec", "--http-port=8080"],
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
        "metadata": {**metadata, "annotations": FEDERATED},
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
        namespace_object(SAMPLE_NAMESPACE),
        BootstrapObject(f"/apis/apps/v1/{inside}/deployments", deployment),
        BootstrapObject(f"/api/v1/{inside}/services", service),
        BootstrapObject(f"/apis/multicluster.x-k8s.io/v1beta1/{inside}/serviceexports", export),
        BootstrapObject("/apis/arktos.futurewei.com/v1/tenants", tenant),
        *(
            BootstrapObject(f"/apis/{one['apiVersion']}/{inside}/{one['kind'].lower()}s", one)
            for one in things_outside(member, SAMPLE_NAMESPACE)
        ),
    )


def submitted() -> tuple[BootstrapObject, ...]:
    """What the federation itself is asked for: one replica of `store` in each of three clusters."""
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
        "image": "etcd:3.6.5",
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


GROUP = "antreaplus.vmware-tanzu.com/v1alpha1"
GLOBAL = "svc.global.federated.antreaplus.vmware.com"

FEDERATED = {GLOBAL: "web"}
"""Makes each cluster's `web` a member of one federated Service."""

EXTERNAL_HOSTNAME = "{name}.{namespace}.hanse.example"
"""The names of federated Services for whoever is outside, such as machines."""
EXTERNAL_ZONE = "hanse.example"


def things_outside(member: Member, namespace: str) -> tuple[Wire, ...]:
    """Children have a machine with a database; supervisors have a queue that their cloud runs."""
    address = str(member.ranges.outside[200])
    if member.standing == "child":
        return (_machine(namespace, address),)
    return (_interface(namespace, address), _native(namespace))


def _machine(namespace: str, address: str) -> Wire:
    return {
        "apiVersion": GROUP,
        "kind": "VirtualMachine",
        "metadata": {"name": "db-1", "namespace": namespace},
        "spec": {
            "id": "i-0a1b2c",
            "tags": {
                "svc.antreaplus.vmware.com": "db",
                "ports.antreaplus.vmware.com": "sql:5432/TCP",
                GLOBAL: "db",
            },
            "networkInterfaces": [
                {"name": "eth0", "ips": [{"addressType": "ExternalIP", "address": address}]}
            ],
        },
    }


def _interface(namespace: str, address: str) -> Wire:
    return {
        "apiVersion": GROUP,
        "kind": "NetworkInterface",
        "metadata": {"name": "queue", "namespace": namespace},
        "spec": {"internalIP": "10.255.0.1", "externalIP": address},
    }


def _native(namespace: str) -> Wire:
    return {
        "apiVersion": GROUP,
        "kind": "NativeService",
        "metadata": {"name": "queue", "namespace": namespace, "annotations": {GLOBAL: "queue"}},
        "spec": {
            "networkInterface": "queue",
            "ports": [{"name": "amqp", "port": 5672, "protocol": "TCP"}],
        },
    }


GLOBAL_ZONE = "global.test"
HOST = f"web.{GLOBAL_ZONE}"
VERSION = "1.5.1"
LABELS = {"gslb": "shared"}
_AMKO = "/apis/amko.vmware.com/{version}/namespaces/" + NAMESPACE


def global_sample(
    member: Member, members: Sequence[Member], contexts: Sequence[Context]
) -> tuple[BootstrapObject, ...]:
    """A load balancer for the shop in every cluster; the first leads, the last stands by."""
    names = [m.name for m in members if m.runs_workloads]
    if not member.runs_workloads:
        return ()
    leads = member.name == names[0]
    secret = contexts_secret(members, contexts)
    common = (_front(), secret, _amko_cluster(member.name, names, leads))
    return (*common, _config(names), _policy(names)) if leads else common


def _front() -> BootstrapObject:
    service: Wire = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "front",
            "namespace": SAMPLE_NAMESPACE,
            "labels": LABELS,
            "annotations": {HOSTNAMES: HOST},
        },
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    return BootstrapObject(f"/api/v1/namespaces/{SAMPLE_NAMESPACE}/services", service)


def contexts_secret(members: Sequence[Member], contexts: Sequence[Context]) -> BootstrapObject:
    """The Secret by which a leader finds its followers: a context for each cluster."""
    names = {m.name for m in members if m.runs_workloads}
    mine = [context for context in contexts if context.cluster in names]
    text = json.dumps(kubeconfig(mine)).encode()
    secret: Wire = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": {SECRET_KEY: base64.b64encode(text).decode()},
    }
    return BootstrapObject(f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)


def _amko_cluster(name: str, names: Sequence[str], leads: bool) -> BootstrapObject:
    spec = {
        "isLeader": leads,
        "clusterContext": name,
        "version": VERSION,
        "clusters": list(names),
    }
    return _amko("v1alpha1", "AMKOCluster", "amkoclusters", "amkocluster-federation", spec)


def _config(names: Sequence[str]) -> BootstrapObject:
    spec = {"memberClusters": [{"clusterContext": name} for name in names]}
    return _amko("v1alpha1", "GSLBConfig", "gslbconfigs", "gc-1", spec)


def _policy(names: Sequence[str]) -> BootstrapObject:
    """Three answers in four are the first cluster's; the last serves when no other does."""
    split: list[Wire] = [{"cluster": names[0], "weight": 3, "priority": 20}]
    split += [{"cluster": name, "weight": 1, "priority": 20} for name in names[1:-1]]
    split += [{"cluster": name, "weight": 1, "priority": 10} for name in names[1:][-1:]]
    spec: Wire = {
        "matchRules": {"appSelector": {"label": LABELS}},
        "matchClusters": [{"cluster": name} for name in names],
        "trafficSplit": split,
        "controlPlaneHmOnly": True,
        "ttl": 5,
    }
    plural = "globaldeploymentpolicies"
    return _amko("v1alpha2", "GlobalDeploymentPolicy", plural, "global-gdp", spec)


def _amko(version: str, kind: str, plural: str, name: str, spec: Wire) -> BootstrapObject:
    made: Wire = {
        "apiVersion": f"amko.vmware.com/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }
    return BootstrapObject(f"{_AMKO.format(version=version)}/{plural}", made)
