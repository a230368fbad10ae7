"""Rows as `kubectl get` shows them of namespaces, nodes, volumes, RBAC, policies, events."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tinykube.resources import Object
from tinykube.tables.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    age,
    condition,
    name,
    selector,
    time_since,
)
from tinykube.tables.columns import (
    AGE,
    NAME,
    Cell,
    Column,
    Printer,
    integer_columns,
    text_columns,
    value_at,
    wide_columns,
)

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _named(*middle: Callable[[Object], Cell]) -> Callable[[Object, datetime], list[Cell]]:
    """A function that gives the cells of a row: the name, those of the given functions, the age."""
    return lambda obj, now: [name(obj), *(cell(obj) for cell in middle), age(obj, now)]


def _length_cell(field: str) -> Callable[[Object], Cell]:
    """A function that gives the number of entries in a top-level field, 0 if it is missing."""
    return lambda obj: len(obj.get(field) or ())


def _data_size(obj: Object) -> Cell:
    """The number of entries (not bytes) in data and binaryData."""
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def _value_cell(*path: str) -> Callable[[Object], Cell]:
    """A function that gives the value at a path of an object as text, empty if missing."""
    return lambda obj: str(value_at(obj, *path, default=""))


def _node(obj: Object, now: datetime) -> list[Cell]:
    """Name, status, roles, age, kubelet version; addresses, OS image, kernel and runtime of a node.

    The status is Ready, NotReady (Ready is not True) or Unknown (no such condition), followed by
    `,SchedulingDisabled` if cordoned. Missing roles and addresses are `<none>`, the last three
    `<unknown>`.
    """
    ready = condition(obj, "Ready")
    states = ["Unknown" if not ready else "Ready" if ready == "True" else "NotReady"]
    if value_at(obj, "spec", "unschedulable"):
        states.append("SchedulingDisabled")
    info = value_at(obj, "status", "nodeInfo", default={})
    return [
        name(obj),
        ",".join(states),
        ",".join(sorted(_roles(obj))) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        _node_address(obj, "InternalIP"),
        _node_address(obj, "ExternalIP"),
        *(
            info.get(key) or UNKNOWN
            for key in ("osImage", "kernelVersion", "containerRuntimeVersion")
        ),
    ]


def _roles(obj: Object) -> set[str]:
    """The roles of a node by its labels `node-role.kubernetes.io/ROLE` and `kubernetes.io/role`."""
    labels = value_at(obj, "metadata", "labels", default={})
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return (roles | {labels.get("kubernetes.io/role", "")}) - {""}


def _node_address(obj: Object, kind: str) -> str:
    """The first address of a type in a node's status, or `<none>`."""
    found = value_at(obj, "status", "addresses", default=[])
    return next((str(one.get("address", "")) for one in found if one.get("type") == kind), NONE)


def _phase(obj: Object) -> str:
    """The status.phase of an object, empty if missing; Terminating while it is being deleted."""
    deleting = value_at(obj, "metadata", "deletionTimestamp") is not None
    return "Terminating" if deleting else str(value_at(obj, "status", "phase", default=""))


def _access_modes(modes: Any) -> str:
    """Access modes abbreviated, in a fixed order: `RWO,RWX`; unknown ones are left out."""
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def _volume(obj: Object, now: datetime) -> list[Cell]:
    """Name, capacity, access modes, reclaim policy, phase, claim, classes, reason, age and mode.

    The phase is Terminating during deletion, the claim `namespace/name`. What is missing is empty;
    the capacity `0`, the VolumeAttributesClass and the mode `<unset>`.
    """
    spec = value_at(obj, "spec", default={})
    claim = spec.get("claimRef")
    return [
        name(obj),
        str(value_at(spec, "capacity", "storage", default="0")),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        value_at(spec, "volumeAttributesClassName", default=UNSET),
        value_at(obj, "status", "reason", default=""),
        age(obj, now),
        value_at(spec, "volumeMode", default=UNSET),
    ]


def _claim(obj: Object, now: datetime) -> list[Cell]:
    """Name, phase, volume, capacity, access modes, classes, age and mode of a claim.

    The phase is Terminating during deletion. Capacity and access modes are empty until
    spec.volumeName is set; a missing VolumeAttributesClass or mode is `<unset>`.
    """
    spec = value_at(obj, "spec", default={})
    bound = bool(spec.get("volumeName"))
    capacity = str(value_at(obj, "status", "capacity", "storage", default="0"))
    return [
        name(obj),
        _phase(obj),
        spec.get("volumeName", ""),
        capacity if bound else "",
        _access_modes(value_at(obj, "status", "accessModes")) if bound else "",
        value_at(spec, "storageClassName", default=""),
        value_at(spec, "volumeAttributesClassName", default=UNSET),
        age(obj, now),
        value_at(spec, "volumeMode", default=UNSET),
    ]


def _storage_class(obj: Object, now: datetime) -> list[Cell]:
    """Name, provisioner, reclaim policy, binding mode, whether it may expand, and age.

    The default StorageClass, by its annotation, is marked at its name.
    """
    annotations = value_at(obj, "metadata", "annotations", default={})
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _event(obj: Object, now: datetime) -> list[Cell]:
    """Last seen, type, reason, object, field, source, message, first seen, count and name.

    Of Events of core/v1 and events.k8s.io/v1; of a series its own count and last time. The object
    is `kind/name`; the count is 1 if missing.
    """
    target = obj.get("involvedObject") or obj.get("regarding") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    first_seen = time_since(first or obj.get("eventTime"), now)
    last_seen = time_since(last, now) if last else first_seen
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if (series := obj.get("series")) is not None:
        last_seen, count = time_since(series.get("lastObservedTime"), now), series.get("count", 0)
    kind = str(target.get("kind", "")).lower()
    return [
        last_seen,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{target['name']}" if target.get("name") else kind,
        target.get("fieldPath", ""),
        _event_source(obj),
        str(obj.get("message") or obj.get("note") or "").strip(),
        first_seen,
        count,
        name(obj),
    ]


def _event_source(obj: Object) -> str:
    """`component, host` of an event, each from the source, else from its reporting field."""
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    reporter = obj.get("reportingComponent") or obj.get("reportingController")
    component = source.get("component") or reporter or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return ", ".join(part for part in (component, host) if part)


def _role_binding(obj: Object, now: datetime) -> list[Cell]:
    """Cells of a role binding: name, role (`kind/name`), age, users, groups and service accounts.

    Each kind of subjects is one text, joined by `, `; service accounts are `namespace/name`.
    """
    kind, role_name = (value_at(obj, "roleRef", key, default="") for key in ("kind", "name"))
    role = f"{kind}/{role_name}"
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or []:
        kind, who = subject.get("kind"), subject.get("name", "")
        if kind == "ServiceAccount":
            who = f"{subject.get('namespace', '')}/{who}"
        named.setdefault(kind, []).append(who)
    shown = (", ".join(named[kind]) for kind in ("User", "Group", "ServiceAccount"))
    return [name(obj), role, age(obj, now), *shown]


def _param_kind(obj: Object) -> Cell:
    """The paramKind of a policy as `apiVersion/kind`, or `<unset>`."""
    kind = value_at(obj, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def _parameter_reference(obj: Object) -> Cell:
    """The paramRef as `namespace/name` (`*` if no namespace), else its selector, else `<unset>`."""
    given = value_at(obj, "spec", "paramRef", default={})
    if given.get("name"):
        return f"{given.get('namespace') or '*'}/{given['name']}"
    return selector(given["selector"]) if given.get("selector") else UNSET


def _validation_count(obj: Object) -> Cell:
    """The number of validations of a ValidatingAdmissionPolicy, 0 if it has none."""
    return len(value_at(obj, "spec", "validations", default=()))


def _priority_class(obj: Object, now: datetime) -> list[Cell]:
    """Name, value, whether it is the global default, age and preemptionPolicy."""
    value, default = obj.get("value") or 0, bool(obj.get("globalDefault"))
    return [name(obj), value, default, age(obj, now), obj.get("preemptionPolicy", "")]


_BINDING = Printer(
    (NAME, *text_columns("Role"), AGE, *wide_columns("Users", "Groups", "ServiceAccounts")),
    _role_binding,
)
_WEBHOOKS = Printer((NAME, *integer_columns("Webhooks"), AGE), _named(_length_cell("webhooks")))
_EVENTS = Printer(
    (
        *text_columns("Last Seen", "Type", "Reason", "Object"),
        *wide_columns("Subobject", "Source"),
        *text_columns("Message"),
        *wide_columns("First Seen", "Count"),
        Column("Name", format="name", priority=1),
    ),
    _event,
)
_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"

CLUSTER = {
    ("", "Namespace"): Printer(
        (NAME, *text_columns("Status"), AGE), _named(_value_cell("status", "phase"))
    ),
    ("", "Secret"): Printer(
        (NAME, *text_columns("Type", "Data"), AGE),
        _named(_value_cell("type"), _length_cell("data")),
    ),
    ("", "ConfigMap"): Printer((NAME, *text_columns("Data"), AGE), _named(_data_size)),
    ("", "ServiceAccount"): Printer((NAME, AGE), _named()),
    ("", "Event"): _EVENTS,
    ("events.k8s.io", "Event"): _EVENTS,
    ("", "Node"): Printer(
        (
            NAME,
            *text_columns("Status", "Roles"),
            AGE,
            *text_columns("Version"),
            *wide_columns(
                "Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"
            ),
        ),
        _node,
    ),
    ("", "PersistentVolume"): Printer(
        (
            NAME,
            *text_columns(
                "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"
            ),
            *text_columns("VolumeAttributesClass", "Reason"),
            AGE,
            *wide_columns("VolumeMode"),
        ),
        _volume,
    ),
    ("", "PersistentVolumeClaim"): Printer(
        (
            NAME,
            *text_columns("Status", "Volume", "Capacity", "Access Modes", "StorageClass"),
            *text_columns("VolumeAttributesClass"),
            AGE,
            *wide_columns("VolumeMode"),
        ),
        _claim,
    ),
    ("storage.k8s.io", "StorageClass"): Printer(
        (
            NAME,
            *text_columns(
                "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion"
            ),
            AGE,
        ),
        _storage_class,
    ),
    ("coordination.k8s.io", "Lease"): Printer(
        (NAME, *text_columns("Holder"), AGE), _named(_value_cell("spec", "holderIdentity"))
    ),
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    (_ADMISSION, "MutatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "ValidatingAdmissionPolicy"): Printer(
        (NAME, *integer_columns("Validations"), *text_columns("ParamKind"), AGE),
        _named(_validation_count, _param_kind),
    ),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): Printer(
        (NAME, *text_columns("PolicyName", "ParamRef"), AGE),
        _named(_value_cell("spec", "policyName"), _parameter_reference),
    ),
    ("scheduling.k8s.io", "PriorityClass"): Printer(
        (
            NAME,
            *integer_columns("Value"),
            Column("Global-Default", "boolean"),
            AGE,
            *text_columns("PreemptionPolicy"),
        ),
        _priority_class,
    ),
}
