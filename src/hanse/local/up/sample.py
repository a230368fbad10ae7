"""What a local federation holds from its start; pure."""

from msgspec import Struct

from hanse.features.admission.configuration import NAME as WEBHOOKS
from hanse.features.services.broker_policies import CLUSTER_UID
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.services.manifests import FIRST_LEASE_SECONDS
from hanse.features.statefulsets.policies import annotation_policy, name_policy
from hanse.local.up.sample import FEDERATED, things_outside
from hanse.local.up.topology import Member
from hanse.model.crds import crds, stand_ins
from hanse.model.kinds.federation import SYSTEM
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Wire

SYSTEM_NAMESPACES = (SYSTEM_NAMESPACE, SYSTEM, NAMESPACE)
SAMPLE_NAMESPACE = "shop"
SAMPLE_TENANT = "acme"

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FORMER_WEBHOOKS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}/{WEBHOOKS}"
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
)
SIGNS_OF_LIFE = f"/apis/coordination.k8s.io/v1/namespaces/{BROKER_NAMESPACE}/leases"
IDENTITY = "/api/v1/namespaces/kube-system"
"""The namespace whose uid tells clusters apart."""


class Wanted(Struct, frozen=True):
    """An object and the collection it belongs to."""

    collection: str
    object: Wire

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.object['metadata']['name']}"


CLUSTER_SET = Wanted(
    "/apis/hanse.dev/v1alpha1/clustersets",
    {"apiVersion": "hanse.dev/v1alpha1", "kind": "ClusterSet", "metadata": {"name": "local"}},
)
"""The rules of the fleet, with their defaults."""


def definitions() -> tuple[Wanted, ...]:
    """Our kinds, and stand-ins for those of others."""
    return tuple(Wanted(DEFINITIONS, definition) for definition in (*crds(), *stand_ins()))


def foundation(member: Member) -> tuple[Wanted, ...]:
    """What every cluster has, and on the broker the rules of the fleet."""
    made = tuple(_namespace(name) for name in SYSTEM_NAMESPACES)
    if member.runs_workloads:
        return made
    return (*made, _namespace(BROKER_NAMESPACE), CLUSTER_SET, *_at_the_door())


def _at_the_door() -> tuple[Wanted, ...]:
    """What the broker's API server refuses of StatefulSets, where it evaluates such policies."""
    policies = (*annotation_policy(BROKER_NAMESPACE), *name_policy(BROKER_NAMESPACE))
    return tuple(Wanted(f"/apis/{m.kind.api_version}/{m.kind.plural}", m.wire) for m in policies)


def place_of(member: Member, uid: str) -> Wanted:
    """A member's Lease on the broker as joining makes it: its id is that cluster's only."""
    marks = {"name": member.name, "namespace": BROKER_NAMESPACE, "annotations": {CLUSTER_UID: uid}}
    made: Wire = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": marks,
        "spec": {"leaseDurationSeconds": FIRST_LEASE_SECONDS},
    }
    return Wanted(SIGNS_OF_LIFE, made)


def sample(member: Member) -> tuple[Wanted, ...]:
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
        _namespace(SAMPLE_NAMESPACE),
        Wanted(f"/apis/apps/v1/{inside}/deployments", deployment),
        Wanted(f"/api/v1/{inside}/services", service),
        Wanted(f"/apis/multicluster.x-k8s.io/v1beta1/{inside}/serviceexports", export),
        Wanted("/apis/arktos.futurewei.com/v1/tenants", tenant),
        *(
            Wanted(f"/apis/{one['apiVersion']}/{inside}/{one['kind'].lower()}s", one)
            for one in things_outside(member, SAMPLE_NAMESPACE)
        ),
    )


def submitted() -> tuple[Wanted, ...]:
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
        _namespace(SAMPLE_NAMESPACE),
        Wanted(f"/api/v1/{inside}/services", service),
        Wanted(f"/apis/apps/v1/{inside}/statefulsets", stateful_set),
    )


def is_ready(obj: Wire) -> bool:
    """Whether an object of the sample does what it is there for."""
    status = obj.get("status") or {}
    match obj["kind"]:
        case "Deployment":
            return bool(status.get("availableReplicas", 0) >= obj["spec"].get("replicas", 1))
        case "ServiceExport":
            conditions = status.get("conditions") or ()
            return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        case _:
            return True


def _namespace(name: str) -> Wanted:
    made: Wire = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return Wanted("/api/v1/namespaces", made)
