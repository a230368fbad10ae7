"""Pods and pod templates: defaulting and validation."""

from collections.abc import Iterator
from typing import Any

from tinykube.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tinykube.resources import Object
from tinykube.strategy import Strategy
from tinykube.validation import dns1123_label_problems

_POLICIES = ("Always", "Never", "OnFailure")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MODE = 0o644


def default_pod_spec(spec: dict[str, Any]) -> None:
    """Default the spec of a pod or template, its containers and volumes, in place.

    serviceAccount and serviceAccountName default to each other.
    """
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def _default_container(container: dict[str, Any]) -> None:
    """Set the defaults of a container, its ports, env and probes, in place.

    The pull policy is Always for tag `latest` or no tag, unless there is a digest.
    """
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition(":")[2]
    fresh = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if fresh else "IfNotPresent")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field:
            field.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _default_probe(container[name])


def _default_probe(probe: dict[str, Any]) -> None:
    """Set the defaults of a probe in place; of handlers only httpGet has any."""
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _default_volume(volume: dict[str, Any]) -> None:
    """Default the defaultMode (0644) of a volume's source in place.

    Sources are secret, configMap, downwardAPI and projected; a volume without any source gets an
    emptyDir.
    """
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", _MODE)
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}


def default_pod(pod: Object) -> None:
    """Default a pod in place: its spec with containers and volumes, podIPs from podIP.

    A request that a container does not give is that of its limit.
    """
    spec = pod.setdefault("spec", {})
    spec.setdefault("enableServiceLinks", True)
    status = pod.get("status") or {}
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    default_pod_spec(spec)


def prepare_pod(pod: Object) -> None:
    """Set priority, preemptionPolicy, tolerations and status of a new pod, in place.

    The priority is 0 unless given. Tolerations of nodes not ready and unreachable, for 300 s, are
    added unless given or all taints are tolerated. The status is replaced by the phase Pending and
    QoS class.
    """
    spec = dict(pod["spec"])
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = list(spec.get("tolerations") or ())
    known = {toleration.get("key") for toleration in tolerations}
    for state in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{state}"
        if key not in known and not any(_tolerates_all(one) for one in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            )
    spec["tolerations"] = tolerations
    pod["spec"] = spec
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}


def _tolerates_all(toleration: dict[str, Any]) -> bool:
    """Whether a toleration has the operator Exists and no key."""
    return not toleration.get("key") and toleration.get("operator") == "Exists"


def qos_class(spec: dict[str, Any]) -> str:
    """The QoS class by the resources of containers and init containers.

    BestEffort without any requests and limits; Guaranteed if in each container the limits of cpu
    and memory are given and equal the requests; else Burstable.
    """
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = [container.get("resources") or {} for container in containers]
    named = ("cpu", "memory")
    if not any((r.get("requests") or {}) or (r.get("limits") or {}) for r in asked):
        return "BestEffort"
    guaranteed = all(
        all(name in (r.get("limits") or {}) for name in named)
        and all((r.get("requests") or {}).get(name) == r["limits"][name] for name in named)
        for r in asked
    )
    return "Guaranteed" if guaranteed else "Burstable"


def pod_spec_errors(spec: dict[str, Any], field: str) -> Iterator[FieldError]:
    """Validation errors of the spec of a pod or template, with paths below `field`.

    Checked are containers, restartPolicy, grace period, hostname and subdomain, nothing else.
    """
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{field}.containers")
    names: set[str] = set()
    for kind in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(kind) or ()):
            yield from _container_errors(container, f"{field}.{kind}[{at}]", names)
    policy = spec.get("restartPolicy", "")
    if policy not in _POLICIES:
        yield unsupported(f"{field}.restartPolicy", policy, _POLICIES)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        value = spec["terminationGracePeriodSeconds"]
        detail = "must be greater than or equal to 0"
        yield invalid(f"{field}.terminationGracePeriodSeconds", value, detail)
    for name in ("hostname", "subdomain"):
        for problem in dns1123_label_problems(spec[name]) if spec.get(name) else ():
            yield invalid(f"{field}.{name}", spec[name], problem)


def _container_errors(
    container: dict[str, Any], field: str, names: set[str]
) -> Iterator[FieldError]:
    """Errors of name, image, pull policy and ports; the name is added to `names`."""
    name = container.get("name", "")
    if not name:
        yield required(f"{field}.name")
    else:
        for problem in dns1123_label_problems(name):
            yield invalid(f"{field}.name", name, problem)
        if name in names:
            yield duplicate(f"{field}.name", name)
        names.add(name)
    image = container.get("image", "")
    if not image:
        yield required(f"{field}.image")
    elif image != image.strip():
        yield invalid(f"{field}.image", image, "must not have leading or trailing whitespace")
    policy = container.get("imagePullPolicy", "")
    if policy not in _PULL_POLICIES:
        yield unsupported(f"{field}.imagePullPolicy", policy, _PULL_POLICIES)
    for at, port in enumerate(container.get("ports") or ()):
        number = port.get("containerPort", 0)
        path = f"{field}.ports[{at}].containerPort"
        if not number:
            yield required(path)
        elif not 1 <= number <= 65535:
            yield invalid(path, number, "must be between 1 and 65535, inclusive")


def pod_errors(pod: Object) -> Iterator[FieldError]:
    """Validation errors of the spec of a pod."""
    yield from pod_spec_errors(pod["spec"], "spec")


_OTHER_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def pod_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Errors of changes to immutable fields of a pod, and of changed or removed tolerations.

    The tolerationSeconds may change; tolerations may be added.
    """
    if _immutable_fields(new["spec"]) != _immutable_fields(old["spec"]):
        yield forbidden("spec", _OTHER_CHANGES)
    kept, given = (
        [{**one, "tolerationSeconds": None} for one in side["spec"].get("tolerations") or ()]
        for side in (old, new)
    )
    if any(toleration not in given for toleration in kept):
        yield forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )


def _immutable_fields(spec: dict[str, Any]) -> dict[str, Any]:
    """A copy of a pod spec without its mutable fields; images of containers are blanked."""
    free = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    fixed = {key: value for key, value in spec.items() if key not in free}
    for kind in ("containers", "initContainers"):
        if fixed.get(kind):
            fixed[kind] = [{**container, "image": ""} for container in fixed[kind]]
    return fixed


POD_STRATEGY = Strategy(
    default=default_pod,
    prepare_for_create=prepare_pod,
    validate=pod_errors,
    validate_update=pod_update_errors,
    tracks_generation=True,
    returns_deleted_object=True,
)
