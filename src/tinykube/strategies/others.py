"""Strategies of the smaller kinds: namespaces, configuration, leases, claims, roles and others."""

import re
from base64 import b64encode
from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from tinykube.errors import (
    FieldError,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from tinykube.resources import Object
from tinykube.strategies.label_selectors import label_selector_errors
from tinykube.strategy import Strategy
from tinykube.validation import dns1123_label_problems, path_segment_problems

_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_MESSAGE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_TOTAL = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


def prepare_namespace(namespace: Object) -> None:
    """Set the name label, the finalizer `kubernetes` and the phase Active of a new namespace.

    In place; given spec.finalizers stay, all else in spec and status is dropped.
    """
    metadata = namespace["metadata"]
    labels = metadata.get("labels") or {}
    metadata["labels"] = {**labels, "kubernetes.io/metadata.name": metadata["name"]}
    finalizers = (namespace.get("spec") or {}).get("finalizers") or []
    if "kubernetes" not in finalizers:
        finalizers = [*finalizers, "kubernetes"]
    namespace["spec"] = {"finalizers": finalizers}
    namespace["status"] = {"phase": "Active"}


def prepare_namespace_update(new: Object, old: Object) -> None:
    """Keep the name label and the old spec, which only /finalize changes, in place."""
    labels = new["metadata"].get("labels") or {}
    name = new["metadata"]["name"]
    new["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": name}
    new["spec"] = old.get("spec", {})


NAMESPACE_STRATEGY = Strategy(
    prepare_for_create=prepare_namespace,
    prepare_for_update=prepare_namespace_update,
    name_problems=dns1123_label_problems,
    returns_deleted_object=True,
)


def _key_errors(entries: dict[str, str], field: str) -> Iterator[FieldError]:
    """Errors of the keys of a ConfigMap's or Secret's data: length, characters, dots."""
    for key in entries:
        if len(key) > 253:
            yield invalid(f"{field}[{key}]", key, "must be no more than 253 characters")
        if not _KEY.fullmatch(key):
            yield invalid(f"{field}[{key}]", key, _KEY_MESSAGE)
        elif key in (".", ".."):
            yield invalid(f"{field}[{key}]", key, f"must not be '{key}'")


def config_map_errors(found: Object) -> Iterator[FieldError]:
    """Validation errors of a ConfigMap: keys, keys in both maps, a size over 1 MiB."""
    text, binary = found.get("data") or {}, found.get("binaryData") or {}
    yield from _key_errors(text, "data")
    for key in text:
        if key in binary:
            detail = "duplicate of key present in binaryData"
            yield invalid(f"data[{key}]", key, detail)
    yield from _key_errors(binary, "binaryData")
    if sum(len(value) for value in (*text.values(), *binary.values())) > _TOTAL:
        yield too_long("", _TOTAL)


def _immutable_errors(new: Object, old: Object, fields: tuple[str, ...]) -> Iterator[FieldError]:
    """Errors of changes to these fields of an object with `immutable`, and of unsetting that."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _IMMUTABLE)
    for field in fields:
        if new.get(field) != old.get(field):
            yield forbidden(field, _IMMUTABLE)


def config_map_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Errors of changed data or binaryData, or unset `immutable`, of an immutable ConfigMap."""
    yield from _immutable_errors(new, old, ("data", "binaryData"))


CONFIG_MAP_STRATEGY = Strategy(validate=config_map_errors, validate_update=config_map_update_errors)


def default_secret(secret: Object) -> None:
    """Move stringData, in base64, into data, and default the type to Opaque, in place.

    For a key in both, stringData wins.
    """
    strings = secret.pop("stringData", None)
    if strings:
        encoded = {key: b64encode(text.encode()).decode() for key, text in strings.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    secret.setdefault("type", "Opaque")


_SECRET_KEYS = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def secret_errors(secret: Object) -> Iterator[FieldError]:
    """Validation errors of a Secret: keys, a size over 1 MiB, keys that its type requires.

    A service account token requires no key, but the annotation that names the account.
    """
    entries = secret.get("data") or {}
    yield from _key_errors(entries, "data")
    if sum(len(value) * 3 // 4 for value in entries.values()) > _TOTAL:
        yield too_long("data", _TOTAL)
    for key in _SECRET_KEYS.get(secret.get("type", ""), ()):
        if key not in entries:
            yield required(f"data[{key}]")
    if secret.get("type") == "kubernetes.io/service-account-token":
        annotations = secret["metadata"].get("annotations") or {}
        if not annotations.get("kubernetes.io/service-account.name"):
            yield required("metadata.annotations[kubernetes.io/service-account.name]")


def secret_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Errors of a changed type.

    Of a Secret with `immutable` also of changed data, and of unsetting that.
    """
    if new.get("type") != old.get("type"):
        yield invalid("type", new.get("type"), "field is immutable")
    yield from _immutable_errors(new, old, ("data",))


SECRET_STRATEGY = Strategy(
    default=default_secret, validate=secret_errors, validate_update=secret_update_errors
)


def lease_errors(lease: Object) -> Iterator[FieldError]:
    """Errors of a leaseDurationSeconds that is not positive and of negative leaseTransitions."""
    spec = lease.get("spec") or {}
    for field in ("leaseDurationSeconds", "leaseTransitions"):
        value = spec.get(field)
        if value is None:
            continue
        if field == "leaseDurationSeconds" and value <= 0:
            yield invalid(f"spec.{field}", value, "must be greater than 0")
        if field == "leaseTransitions" and value < 0:
            yield invalid(f"spec.{field}", value, "must be greater than or equal to 0")


LEASE_STRATEGY = Strategy(
    validate=lease_errors, allow_create_on_update=True, allow_unconditional_update=False
)


def default_claim(claim: Object) -> None:
    """Default the volumeMode of a claim to Filesystem, in place."""
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def prepare_claim(claim: Object) -> None:
    """Set the status of a new claim to the phase Pending, in place."""
    claim["status"] = {"phase": "Pending"}


def claim_errors(claim: Object) -> Iterator[FieldError]:
    """Errors of a claim without accessModes or without a storage request."""
    spec = claim["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        yield required("spec.resources[storage]")


def claim_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """An error if the spec of a PersistentVolumeClaim changes.

    Changes are allowed of resources, volumeAttributesClassName, and a volumeName that was not set.
    """
    free = ("resources", "volumeAttributesClassName")
    sides = [
        {key: value for key, value in side["spec"].items() if key not in free}
        for side in (new, old)
    ]
    if not old["spec"].get("volumeName"):
        sides[0].pop("volumeName", None)
    if sides[0] != sides[1]:
        detail = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", detail)


CLAIM_STRATEGY = Strategy(
    default=default_claim,
    prepare_for_create=prepare_claim,
    validate=claim_errors,
    validate_update=claim_update_errors,
    returns_deleted_object=True,
)


def default_volume(volume: Object) -> None:
    """Default the reclaim policy (Retain) and volumeMode (Filesystem) of a volume, in place."""
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")


def prepare_volume(volume: Object) -> None:
    """Set the status of a new volume to the phase Pending, in place."""
    volume["status"] = {"phase": "Pending"}


VOLUME_STRATEGY = Strategy(
    default=default_volume, prepare_for_create=prepare_volume, returns_deleted_object=True
)


def default_role_binding(binding: Object) -> None:
    """Default the apiGroup of roleRef, and of users and groups in subjects, in place.

    It is `rbac.authorization.k8s.io`; service accounts keep what they have.
    """
    group = "rbac.authorization.k8s.io"
    reference = binding.get("roleRef") or {}
    if reference and not reference.get("apiGroup"):
        reference["apiGroup"] = group
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", group)


def binding_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """An error if the roleRef changes."""
    if new.get("roleRef") != old.get("roleRef"):
        yield invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


ROLE_STRATEGY = Strategy(name_problems=path_segment_problems, allow_create_on_update=True)
ROLE_BINDING_STRATEGY = Strategy(
    default=default_role_binding,
    validate_update=binding_update_errors,
    name_problems=path_segment_problems,
    allow_create_on_update=True,
)


def default_webhooks(configuration: Object) -> None:
    """Default the webhooks of a configuration in place.

    failurePolicy Fail, matchPolicy Equivalent, selectors empty, timeout 10 s, scope `*` of rules,
    port 443 of a service; in a MutatingWebhookConfiguration also reinvocationPolicy Never.
    """
    mutating = configuration.get("kind") == "MutatingWebhookConfiguration"
    for webhook in configuration.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if mutating:
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service:
            service.setdefault("port", 443)


def webhook_errors(configuration: Object) -> Iterator[FieldError]:
    """Errors of each webhook: name, clientConfig, sideEffects, failurePolicy, timeout, selectors.

    Also of missing admissionReviewVersions.
    """
    for at, webhook in enumerate(configuration.get("webhooks") or ()):
        field = f"webhooks[{at}]"
        name = webhook.get("name", "")
        if name.count(".") < 2:
            detail = "should be a domain with at least three segments separated by dots"
            yield invalid(f"{field}.name", name, detail)
        client = webhook.get("clientConfig") or {}
        if bool(client.get("url")) == bool(client.get("service")):
            detail = "exactly one of url or service is required"
            yield required(f"{field}.clientConfig", detail)
        if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            value = webhook.get("sideEffects", "")
            yield unsupported(f"{field}.sideEffects", value, ("None", "NoneOnDryRun"))
        if not webhook.get("admissionReviewVersions"):
            detail = "must specify one of v1, v1beta1"
            yield required(f"{field}.admissionReviewVersions", detail)
        if webhook.get("failurePolicy") not in ("Fail", "Ignore"):
            value = webhook.get("failurePolicy", "")
            yield unsupported(f"{field}.failurePolicy", value, ("Fail", "Ignore"))
        if not 1 <= webhook.get("timeoutSeconds", 10) <= 30:
            detail = "the timeout value must be between 1 and 30 seconds"
            yield invalid(f"{field}.timeoutSeconds", webhook["timeoutSeconds"], detail)
        for name in ("namespaceSelector", "objectSelector"):
            yield from label_selector_errors(webhook.get(name), f"{field}.{name}")


WEBHOOK_STRATEGY = Strategy(
    default=default_webhooks,
    validate=webhook_errors,
    tracks_generation=True,
    allow_unconditional_update=False,
)


def service_cidr_errors(cidr: Object) -> Iterator[FieldError]:
    """Errors of a ServiceCIDR without CIDRs, and of CIDRs malformed or with host bits set."""
    cidrs = (cidr.get("spec") or {}).get("cidrs") or []
    if not cidrs:
        yield required("spec.cidrs", "at least one CIDR required")
    for at, text in enumerate(cidrs):
        try:
            ip_network(text)
        except ValueError:
            detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield invalid(f"spec.cidrs[{at}]", text, detail)


def service_range_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """An error if the first CIDR changes or there are fewer than before; adding is allowed."""
    given = (new.get("spec") or {}).get("cidrs") or []
    held = (old.get("spec") or {}).get("cidrs") or []
    if given[:1] != held[:1] or len(given) < len(held):
        yield invalid("spec.cidrs", given, "field is immutable")


SERVICE_CIDR_STRATEGY = Strategy(
    validate=service_cidr_errors, validate_update=service_range_update_errors
)


def address_name_problems(name: str) -> list[str]:
    """Why a name is not an IP address in canonical form; empty if it is one."""
    try:
        normal = str(ip_address(name))
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return [] if normal == name else ["must be a valid address in canonical format"]


IP_ADDRESS_STRATEGY = Strategy(name_problems=address_name_problems)


def default_network_policy(policy: Object) -> None:
    """Default a NetworkPolicy in place: policyTypes, and the protocol TCP of ports.

    policyTypes default to Ingress, with Egress if there are egress rules.
    """
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for side in ("ingress", "egress"):
        for rule in spec.get(side) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


def default_priority_class(priority: Object) -> None:
    """Default the preemptionPolicy of a PriorityClass to PreemptLowerPriority, in place."""
    priority.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_storage_class(found: Object) -> None:
    """Default a StorageClass in place: reclaimPolicy Delete, volumeBindingMode Immediate."""
    found.setdefault("reclaimPolicy", "Delete")
    found.setdefault("volumeBindingMode", "Immediate")


def prepare_node(node: Object) -> None:
    """Add an empty spec and status to a new node that has none, in place."""
    node.setdefault("spec", {})
    node.setdefault("status", {})


def event_errors(event: Object) -> Iterator[FieldError]:
    """An error unless an event is in the namespace of its object, `default` if cluster-scoped."""
    core = event["apiVersion"] == "v1"
    about = event.get("involvedObject" if core else "regarding") or {}
    namespace = about.get("namespace", "")
    if (namespace or "default") != event["metadata"]["namespace"]:
        field = "involvedObject.namespace"
        yield invalid(field, namespace, "does not match event.namespace")


def disruption_budget_errors(budget: Object) -> Iterator[FieldError]:
    """Errors of the selector of a PodDisruptionBudget."""
    yield from label_selector_errors((budget.get("spec") or {}).get("selector"), "spec.selector")


NODE_STRATEGY = Strategy(prepare_for_create=prepare_node, accepts_status_on_create=True)
ENDPOINTS_STRATEGY = Strategy(allow_create_on_update=True)
EVENT_STRATEGY = Strategy(validate=event_errors, allow_create_on_update=True)
SERVICE_ACCOUNT_STRATEGY = Strategy(returns_deleted_object=True)
NETWORK_POLICY_STRATEGY = Strategy(default=default_network_policy, tracks_generation=True)
DISRUPTION_BUDGET_STRATEGY = Strategy(
    validate=disruption_budget_errors, tracks_generation=True, allow_unconditional_update=False
)
GENERATION_STRATEGY = Strategy(tracks_generation=True)
PRIORITY_CLASS_STRATEGY = Strategy(default=default_priority_class, tracks_generation=True)
STORAGE_CLASS_STRATEGY = Strategy(default=default_storage_class, returns_deleted_object=True)
