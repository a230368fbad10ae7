"""The guard of an installation: a DaemonSet, its account, and what it may read."""

from typing import Any

from hanse.cli.manifests.value_source import ChartFile, Condition, ValueSource
from hanse.features.networks.cni import STATE_FOLDER
from hanse.features.networks.guard.watches import GUARD_WATCHES
from hanse.model.facts import Role
from hanse.model.manifests import (
    PART_OF,
    SERVICE_ACCOUNT,
    Subject,
    binding_manifests,
    manifest,
    role_manifests,
)
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Wire
from hanse.model.rbac import RbacRule, rbac_rules

GUARD = "hanse-guard"
METRICS_PORT = 9342
"""A port of the node: the guard shares its network."""

_LABELS = {"app.kubernetes.io/name": GUARD, PART_OF: "hanse"}
_WHEN = Condition("networks.guard", ("networks",))


def guard_files() -> tuple[ChartFile, ...]:
    """The rights of the guard, then its DaemonSet."""
    return (
        ChartFile("guard-rights", lambda _: _rights(), _WHEN),
        ChartFile("guard", lambda values: [_daemon_set(values)], _WHEN),
    )


def _rights() -> list[Wire]:
    """The account and roles of the guard: to read what it watches, and its own DaemonSet."""
    own = RbacRule(SYSTEM_NAMESPACE, "apps", "daemonsets", ("get",), (GUARD,))
    rules = [*rbac_rules(GUARD_WATCHES, Role.LOCAL), own]
    account = manifest(SERVICE_ACCOUNT, GUARD, SYSTEM_NAMESPACE)
    subject = Subject(GUARD, SYSTEM_NAMESPACE)
    bound = binding_manifests(GUARD, GUARD, rules, subject, {})
    return [one.wire for one in (account, *role_manifests(GUARD, rules), *bound)]


def _daemon_set(values: ValueSource) -> Wire:
    """The guard on each node, in the node's network, as root with CAP_NET_ADMIN alone."""
    environment: dict[str, Wire] = {
        "HANSE_NODE": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        "HANSE_DAEMONSET": {"value": f"{SYSTEM_NAMESPACE}/{GUARD}"},
        "HANSE_LISTEN": {"value": f"127.0.0.1:{METRICS_PORT}"},
        "HANSE_CNI_CONFIG": {"value": values.value_if("networks.cni", "networks.cniConfig")},
        "HANSE_CNI_PLUGINS": {"value": values.value("networks.cniPlugins")},
    }
    folders = {  # each by the path that it has on the node, also for one that removes the plugin
        "cni-config": values.value("networks.cniConfig"),
        "cni-plugins": values.value("networks.cniPlugins"),
        "cni-state": STATE_FOLDER,
    }
    container = {
        "name": "guard",
        "image": values.image(),
        "imagePullPolicy": values.value("image.pullPolicy"),
        "args": ["guard"],
        "env": [{"name": name, **value} for name, value in environment.items()],
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "livenessProbe": _probe("/healthz", 20),
        "readinessProbe": _probe("/readyz", 5),
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in folders.items()],
    }
    pod = {
        "serviceAccountName": GUARD,
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [_host_folder(name, path) for name, path in folders.items()],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": GUARD, "namespace": SYSTEM_NAMESPACE, "labels": _LABELS},
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
        },
    }


def _host_folder(name: str, path: Any) -> Wire:
    """A volume of a folder of the node, which is created if it is missing."""
    return {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def _probe(path: str, every: int) -> Wire:
    request = {"host": "127.0.0.1", "path": path, "port": METRICS_PORT}
    return {"httpGet": request, "periodSeconds": every}
