"""Each field of the Pod Security Standards with allowed and denied values, for several tests."""

from typing import Any

import pytest

from hanse.model.kinds.acceptance import PodSecurityLevel
from hanse.model.objects import Wire

CONTAINERS = ("containers[0]", "initContainers[0]", "ephemeralContainers[0]")
WITH_POD = ("", *(f"{c}." for c in CONTAINERS))
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS = ("lifecycle.postStart", "lifecycle.preStop")


def template(level: PodSecurityLevel = "baseline") -> Wire:
    """A template with a container of each sort that meets a level and no more."""
    context: Wire = {}
    pod: Wire = {}
    if level == "restricted":
        pod = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

    def container(name: str) -> Wire:
        ports = [{"containerPort": 80}]
        return {"name": name, "image": "c", "ports": ports, "securityContext": copied(context)}

    return {
        "metadata": {"labels": {"app": "etcd"}, "annotations": {}},
        "spec": {
            "securityContext": copied(pod),
            "containers": [container("c")],
            "initContainers": [container("i")],
            "ephemeralContainers": [container("e")],
            "volumes": [{"name": "data"}],
        },
    }


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def put(target: Wire, path: str, value: Any) -> Wire:
    """The template with one field of its spec set; a field of value `...` is removed."""
    parent: Any = target["spec"]
    steps = path.replace("[", ".[").split(".")
    for step in steps[:-1]:
        if step.startswith("["):
            parent = parent[int(step[1:-1])]
        else:
            follows = steps[steps.index(step) + 1] if step in steps else ""
            parent = parent.setdefault(step, [{}] if follows.startswith("[") else {})
    last = steps[-1]
    if value is ...:
        parent.pop(last, None)
    elif last.startswith("["):
        parent[int(last[1:-1])] = value
    else:
        parent[last] = value
    return target


def each(*paths: str, allowed: tuple[Any, ...], denied: tuple[Any, ...]) -> list[Any]:
    """One row for each path with its allowed and its denied values."""
    return [pytest.param(path, allowed, denied, id=path) for path in paths]


BASELINE = [
    *each(
        *(f"{at}securityContext.windowsOptions.hostProcess" for at in WITH_POD),
        allowed=(..., None, False),
        denied=(True,),
    ),
    *each("hostNetwork", "hostPID", "hostIPC", allowed=(..., None, False), denied=(True, "true")),
    *each(
        *(f"{at}.securityContext.privileged" for at in CONTAINERS),
        allowed=(..., None, False),
        denied=(True,),
    ),
    *each(
        *(f"{at}.ports[0].hostPort" for at in CONTAINERS),
        allowed=(..., None, 0),
        denied=(80, "80"),
    ),
    *each(
        *(
            f"{at}.{handler}.{action}.host"
            for at in CONTAINERS
            for handler in (*PROBES, *HOOKS)
            for action in ("httpGet", "tcpSocket")
        ),
        allowed=(..., None, ""),
        denied=("127.0.0.1", "169.254.169.254"),
    ),
    *each(
        *(f"{at}securityContext.appArmorProfile.type" for at in WITH_POD),
        allowed=(..., None, "RuntimeDefault", "Localhost"),
        denied=("Unconfined", "", {}),
    ),
    *each(
        *(f"{at}securityContext.seLinuxOptions.type" for at in WITH_POD),
        allowed=(
            ...,
            None,
            "",
            "container_t",
            "container_init_t",
            "container_kvm_t",
            "container_engine_t",
        ),
        denied=("spc_t", "unconfined_t"),
    ),
    *each(
        *(
            f"{at}securityContext.seLinuxOptions.{name}"
            for at in WITH_POD
            for name in ("user", "role")
        ),
        allowed=(..., None, ""),
        denied=("system_u",),
    ),
    *each(
        *(f"{at}.securityContext.procMount" for at in CONTAINERS),
        allowed=(..., None, "Default"),
        denied=("Unmasked", ""),
    ),
    *each(
        *(f"{at}securityContext.seccompProfile.type" for at in WITH_POD),
        allowed=(..., None, "RuntimeDefault", "Localhost"),
        denied=("Unconfined", "", 1),
    ),
]


RESTRICTED = [
    *each(
        *(f"{at}.securityContext.allowPrivilegeEscalation" for at in CONTAINERS),
        allowed=(False,),
        denied=(..., None, True),
    ),
    *each("securityContext.runAsUser", allowed=(..., None, 1, 65534), denied=(0, "0", False)),
    *each(
        *(f"{at}.securityContext.runAsUser" for at in CONTAINERS),
        allowed=(..., None, 1000),
        denied=(0,),
    ),
    *each(
        *(f"{at}.securityContext.runAsNonRoot" for at in CONTAINERS),
        allowed=(..., None, True),
        denied=(False,),
    ),
    *each(
        *(f"{at}.securityContext.capabilities.drop" for at in CONTAINERS),
        allowed=(["ALL"], ["CHOWN", "ALL"]),
        denied=(..., None, [], ["CHOWN"], ["all"]),
    ),
]
