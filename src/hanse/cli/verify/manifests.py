"""The objects that `hanse verify` creates in each cluster, all in a namespace of its own."""

from collections.abc import Sequence
from typing import Any

from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import Wire

PORT = 8081
"""The port on which servers answer."""
SERVICE_PORT = 80
SERVER, GUARDED, SERVICE = "server", "guarded", "verify"
"""The pod that answers, the one that a NetworkPolicy isolates, and the exported Service."""
MANAGED_BY = {"app.kubernetes.io/managed-by": "hanse-verify"}

_SECURITY: Wire = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_POD_SECURITY: Wire = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def namespace(name: str) -> Wire:
    """A Namespace of a run, with the Pod Security level restricted."""
    labels = {**MANAGED_BY, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def server_pod(name: str, cluster: str, image: str) -> Wire:
    """A pod that answers TCP connections on `PORT` with the name of its cluster, among others."""
    container = {
        **_container("server", image, ["serve", f"--tcp={PORT}"]),
        "env": [{"name": "CLUSTER", "value": cluster}],
        "ports": [{"name": "tcp", "containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
    }
    return _pod(name, {"app": name}, [container], "Always")


def client_pod(name: str, image: str, commands: Sequence[Sequence[str]]) -> Wire:
    """A pod with a container `try-N` for each command of `netcheck`; they are not restarted."""
    containers = [_container(f"try-{n}", image, list(one)) for n, one in enumerate(commands)]
    return _pod(name, {"app": "client"}, containers, "Never")


def service() -> Wire:
    """The Service `verify`, port 80, of the server pod; its target port is a name."""
    ports = [{"name": "tcp", "port": SERVICE_PORT, "targetPort": "tcp"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "labels": MANAGED_BY},
        "spec": {"selector": {"app": SERVER}, "ports": ports},
    }


def isolation_policy() -> Wire:
    """A NetworkPolicy that allows no connections to the pod `guarded`."""
    spec: Wire = {
        "podSelector": {"matchLabels": {"app": GUARDED}},
        "policyTypes": ["Ingress"],
        "ingress": [],
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "isolated", "labels": MANAGED_BY},
        "spec": spec,
    }


def service_export() -> Wire:
    """The ServiceExport of the Service `verify`."""
    kind = ServiceExport.kind
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": SERVICE, "labels": MANAGED_BY},
    }


def _container(name: str, image: str, arguments: list[str]) -> dict[str, Any]:
    """A container that runs `netcheck`, a command of its image, with these arguments.

    It is unprivileged and has small requests.
    """
    return {
        "name": name,
        "image": image,
        "args": ["netcheck", *arguments],
        "securityContext": _SECURITY,
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }


def _pod(name: str, labels: dict[str, str], containers: list[dict[str, Any]], restart: str) -> Wire:
    """A pod that meets the Pod Security level restricted, without a ServiceAccount's token.

    `restart` is its restartPolicy; it ends without a grace period.
    """
    spec: Wire = {
        "containers": containers,
        "restartPolicy": restart,
        "securityContext": _POD_SECURITY,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
    }
    meta = {"name": name, "labels": {**MANAGED_BY, **labels}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
