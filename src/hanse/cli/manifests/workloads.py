"""The parts that workloads of an installation have in common."""

from typing import Any

from hanse import __version__
from hanse.cli.manifests.value_source import ValueSource
from hanse.model.manifests import PART_OF
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Wire

NON_ROOT_USER = 65532
METRICS_PORT = 8080
BROKER_FOLDER = "/var/run/hanse/broker"
DNS_PROTOCOLS = (("dns", "UDP"), ("dns-tcp", "TCP"))
"""The ports of a name server, by name."""


def labels_of(name: str) -> dict[str, str]:
    """The labels of a workload's objects: its name, and that they are part of Hanse."""
    return {"app.kubernetes.io/name": name, PART_OF: "hanse"}


def make_object(api_version: str, kind: str, name: str, spec: Wire) -> Wire:
    """An object of that name in hanse-system, with the labels of `labels_of`."""
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels_of(name)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def make_deployment(
    values: ValueSource,
    name: str,
    account: str,
    replicas: Any,
    container: Wire,
    volumes: list[Wire],
) -> Wire:
    """A Deployment of one container, not as root, spread over zones and nodes if possible.

    A pod ends when the one that replaces it is ready, also where there is one replica.
    """
    labels = labels_of(name)
    pod = {
        "serviceAccountName": account,
        "priorityClassName": values.value("priorityClassName"),
        "nodeSelector": values.value("nodeSelector"),
        "tolerations": values.value("tolerations"),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NON_ROOT_USER,
            "runAsGroup": NON_ROOT_USER,
            "fsGroup": NON_ROOT_USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ],
        "containers": [container],
        "volumes": volumes,
    }
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    made = make_object("apps/v1", "Deployment", name, spec)
    made["metadata"]["labels"] = {**labels, "app.kubernetes.io/version": __version__}
    return made


def make_container(
    values: ValueSource, name: str, arguments: list[Any], environment: dict[str, Any]
) -> Wire:
    """A container with our image, without privileges, on a read-only root filesystem.

    A dict among the values of the environment becomes `valueFrom`, others `value`.
    """
    return {
        "name": name,
        "image": values.image(),
        "imagePullPolicy": values.value("image.pullPolicy"),
        "args": arguments,
        "env": [
            {"name": name, "value": value}
            if not isinstance(value, dict)
            else {"name": name, "valueFrom": value}
            for name, value in environment.items()
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def shared_environment(values: ValueSource) -> dict[str, Any]:
    """The environment variables that the agent and name servers have in common."""
    return {
        "HANSE_CLUSTER_ID": values.value("clusterId"),
        "HANSE_FEATURES": values.joined("features"),
        "HANSE_BROKER_KUBECONFIG": values.either("broker.enabled", f"{BROKER_FOLDER}/kubeconfig"),
        "HANSE_BROKER_CONTEXT": values.value("broker.context"),
        "HANSE_BROKER_NAMESPACE": values.value("broker.namespace"),
        "HANSE_REPLICA_ZONE": values.value("statefulsets.replicaZone"),
        "HANSE_FEDERATION": values.value("statefulsets.federation"),
    }


def name_server_environment(values: ValueSource) -> dict[str, Any]:
    """The environment variables that all name servers have in common."""
    return {
        **shared_environment(values),
        "HANSE_DNS_ZONE": values.value("dns.zone"),
        "HANSE_DNS_PROFILE": values.value("dns.profile"),
        "HANSE_DNS_LOCAL_FIRST": values.either("dns.localFirst", "true", "false"),
        "HANSE_DNS_WORKERS": values.text("dns.workers"),
        "HANSE_DNS_RATE_LIMIT": values.text("dns.rateLimit"),
        "HANSE_DNS_LOG_EVERY": values.text("dns.logEvery"),
    }


def name_server_container(
    values: ValueSource, arguments: list[str], environment: dict[str, Any], port: int, last: int
) -> Wire:
    """The container `dns` of a name server, answering on `port`, with probes and resources.

    `name_server_volumes` are mounted. When its pod is to end, it answers for `last` seconds more.
    """
    return {
        **make_container(values, "dns", arguments, environment),
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            *({"name": n, "containerPort": port, "protocol": p} for n, p in DNS_PROTOCOLS),
        ],
        "livenessProbe": http_probe("/healthz", 20),
        "readinessProbe": http_probe("/readyz", 5),
        "lifecycle": {"preStop": {"sleep": {"seconds": last}}},
        "volumeMounts": [
            {"name": "broker", "mountPath": BROKER_FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        ],
        "resources": values.value("dns.resources"),
    }


def name_server_volumes(values: ValueSource) -> list[Wire]:
    """The volumes that every name server has: the broker's Secret, and scratch space."""
    return [
        secret_volume("broker", values.value("broker.secret")),
        {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}},
    ]


def pod_field(path: str) -> Wire:
    """The `valueFrom` of a variable with a field of the pod itself."""
    return {"fieldRef": {"fieldPath": path}}


def secret_volume(name: str, secret: Any) -> Wire:
    """A volume of a Secret, which need not exist."""
    return {"name": name, "secret": {"secretName": secret, "optional": True}}


def http_probe(path: str, every: int) -> Wire:
    """A probe of the port `metrics` every so many seconds, each with 5 s to answer."""
    get = {"path": path, "port": "metrics"}
    return {"httpGet": get, "periodSeconds": every, "timeoutSeconds": 5}


def disruption_budget(name: str) -> Wire:
    """A PodDisruptionBudget of a workload: one pod stays available."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels_of(name)}}
    return make_object("policy/v1", "PodDisruptionBudget", name, spec)


def make_service(name: str, ports: list[Wire]) -> Wire:
    """A Service in hanse-system that selects the pods of the same name's workload."""
    return make_object("v1", "Service", name, {"selector": labels_of(name), "ports": ports})
