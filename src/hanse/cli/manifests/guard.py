"""The guard of an installation: a DaemonSet, its account, and what it may read."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from hanse.cli.manifests.value_source import ChartFile, Condition, ValueSource
from hanse.cli.manifests.values import CNI_CONFIG, CNI_PLUGINS
from hanse.features.networks.cni import STATE_FOLDER
from hanse.features.networks.guard.watches import GUARD_WATCHES
from hanse.model.facts import Role
from hanse.model.kinds.coordination import Lease
from hanse.model.manifests import (
    PART_OF,
    SERVICE_ACCOUNT,
    Subject,
    binding_manifests,
    manifest,
    role_manifests,
)
from hanse.model.naming import GUARDS_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.objects import Wire
from hanse.model.rbac import RbacRule, rbac_rules

GUARD = "hanse-guard"
METRICS_PORT = 9342
"""A port of the node: the guard shares its network."""

END_SECONDS = 180
"""How long a guard may take to end: its rules go after policies are there."""

_LABELS = {"app.kubernetes.io/name": GUARD, PART_OF: "hanse"}
_WHEN = Condition("networks.guard", ("networks",))
_WITHOUT_CNI = replace(_WHEN, unless="networks.cni")
_WITH_CNI = replace(_WHEN, also="networks.cni")


def guard_files() -> tuple[ChartFile, ...]:
    """The chart files of the guard's rights, and of its DaemonSet without or with a CNI plugin.

    They need the value `networks.guard` and the feature networks; `networks.cni` chooses the
    DaemonSet.
    """
    return (
        ChartFile("guard-rights", lambda _: _rights(), _WHEN),
        ChartFile("guard", lambda values: [_daemon_set(_container(values))], _WITHOUT_CNI),
        ChartFile("guard-cni", lambda values: [_cni_daemon_set(values)], _WITH_CNI),
    )


def _rights() -> list[Wire]:
    """The guard's ServiceAccount, roles and bindings as JSON values.

    It may read what it watches and its own DaemonSet, and write Leases in the guards' namespace.
    """
    own = RbacRule(SYSTEM_NAMESPACE, "apps", "daemonsets", ("get",), (GUARD,))
    verbs = ("create", "delete", "get", "patch")
    lease = RbacRule(GUARDS_NAMESPACE, Lease.kind.group, Lease.kind.plural, verbs)
    rules = [*rbac_rules(GUARD_WATCHES, Role.LOCAL), own, lease]
    account = manifest(SERVICE_ACCOUNT, GUARD, SYSTEM_NAMESPACE)
    subject = Subject(GUARD, SYSTEM_NAMESPACE)
    bound = binding_manifests(GUARD, GUARD, rules, subject, {})
    return [one.wire for one in (account, *role_manifests(GUARD, rules), *bound)]


def _container(
    values: ValueSource, environment: Wire | None = None, capabilities: Sequence[str] = ()
) -> Wire:
    """The container of the guard, which runs as root with CAP_NET_ADMIN and `capabilities` alone.

    `environment` has further variables, each with its `value` or `valueFrom`.
    """
    settings: Wire = {
        "HANSE_NODE": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        "HANSE_DAEMONSET": {"value": f"{SYSTEM_NAMESPACE}/{GUARD}"},
        "HANSE_LISTEN": {"value": f"127.0.0.1:{METRICS_PORT}"},
        **(environment or {}),
    }
    return {
        "name": "guard",
        "image": values.image(),
        "imagePullPolicy": values.value("image.pullPolicy"),
        "args": ["guard"],
        "env": [{"name": name, **value} for name, value in settings.items()],
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", *capabilities]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "livenessProbe": _probe("/healthz", 20),
        "readinessProbe": _probe("/readyz", 5),
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
    }


def _cni_daemon_set(values: ValueSource) -> Wire:
    """The guard's DaemonSet as a CNI plugin: mounts the nodes' CNI folders, has DAC_OVERRIDE."""
    config = values.text_or("networks.cniConfig", CNI_CONFIG)
    plugins = values.text_or("networks.cniPlugins", CNI_PLUGINS)
    folders = {"cni-config": config, "cni-plugins": plugins, "cni-state": STATE_FOLDER}
    environment = {"HANSE_CNI_CONFIG": {"value": config}, "HANSE_CNI_PLUGINS": {"value": plugins}}
    container = {
        **_container(values, environment, ["DAC_OVERRIDE"]),
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in folders.items()],
    }
    return _daemon_set(container, [_host_folder(name, path) for name, path in folders.items()])


def _daemon_set(container: Wire, volumes: Sequence[Wire] = ()) -> Wire:
    """The DaemonSet of the guard, on every node and in the node's network."""
    pod = {
        "serviceAccountName": GUARD,
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": END_SECONDS,
        "containers": [container],
        **({"volumes": [*volumes]} if volumes else {}),
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
    """An HTTP probe of the guard's metrics port on loopback, every so many seconds."""
    request = {"host": "127.0.0.1", "path": path, "port": METRICS_PORT}
    return {"httpGet": request, "periodSeconds": every}
