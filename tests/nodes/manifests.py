"""Objects that answer and make connections, as JSON for `kubectl apply`."""

from typing import Any

from hanse.local.real.nodes.image import NETCHECK_IMAGE

Manifest = dict[str, Any]

HTTP, TCP, UDP = 8080, 8081, 8082
"""The ports on which every server answers."""


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pod_spec(cluster: str, http: int = HTTP) -> Manifest:
    """A pod that answers on all ports, and ends at once when it is deleted."""
    container = {
        "name": "netcheck",
        "image": NETCHECK_IMAGE,
        "args": ["serve", f"--http={http}", f"--tcp={TCP}", f"--udp={UDP}"],
        "env": [{"name": "CLUSTER", "value": cluster}],
        "readinessProbe": {"tcpSocket": {"port": TCP}, "periodSeconds": 1},
    }
    return {"containers": [container], "terminationGracePeriodSeconds": 0}


def client(name: str = "client") -> Manifest:
    """A pod from which tests connect; its programs are run by `kubectl exec`."""
    container = {"name": "netcheck", "image": NETCHECK_IMAGE, "args": ["pause"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def workload(
    kind: str, cluster: str, name: str = "web", replicas: int = 1, http: int = HTTP
) -> Manifest:
    """A Deployment or StatefulSet of servers with the label app=NAME."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(cluster, http)}
    spec: Manifest = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": template,
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def draining(deployment: Manifest, seconds: int) -> Manifest:
    """The workload with pods that go on answering for a time after they are deleted."""
    pods = deployment["spec"]["template"]["spec"]
    pods["terminationGracePeriodSeconds"] = seconds + 1
    pods["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": seconds}}}
    return deployment


def never_ready(cluster: str, name: str, replicas: int) -> Manifest:
    """A Deployment of pods of the Service NAME whose readiness probes fail."""
    deployment = workload("Deployment", cluster, f"{name}-never-ready", replicas)
    labels = {"app": name, "state": "never-ready"}
    deployment["spec"]["selector"] = {"matchLabels": labels}
    deployment["spec"]["template"]["metadata"] = {"labels": labels}
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    container["readinessProbe"]["tcpSocket"] = {"port": 1}
    return deployment


def service(name: str = "web", **more: Any) -> Manifest:
    """A Service of the servers with the label app=NAME: HTTP on 80, TCP on 81, UDP on 82."""
    annotations, http = more.pop("annotations", {}), more.pop("http", HTTP)
    ports = [
        {"name": "http", "port": 80, "targetPort": http},
        {"name": "tcp", "port": 81, "targetPort": TCP},
        {"name": "udp", "port": 82, "targetPort": UDP, "protocol": "UDP"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"selector": {"app": name}, "ports": ports, **more},
    }


def export(name: str = "web") -> Manifest:
    return {
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceExport",
        "metadata": {"name": name},
    }


def federated_set(name: str, replicas: int) -> tuple[Manifest, Manifest]:
    """A StatefulSet for the broker, whose replicas have a load balancer each, and its Service."""
    replicated = workload("StatefulSet", "any", name, replicas)
    annotations = {"federation.kubernetes.io/statefulset-lb-needed": "true"}
    replicated["metadata"]["annotations"] = annotations
    governing = service(name, clusterIP="None")
    governing["spec"]["ports"] = [{"name": "tcp", "port": TCP, "targetPort": TCP}]
    return governing, replicated
