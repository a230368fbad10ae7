"""Requests as admission sees them, and which rules and selectors match them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from tinykube.handlers.calls import Call
from tinykube.resources import Object, Registry, Resource
from tinykube.selectors import matches_labels
from tinykube.storage import Storage
from tinykube.users import user_info

T = TypeVar("T")

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
_GROUP = "admissionregistration.k8s.io"
EXEMPT = frozenset(
    f"{plural}.{_GROUP}"
    for plural in (
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    )
)
"""The stores whose objects no webhook and no policy is asked about."""


class AdmissionAttributes(Struct, frozen=True):
    """A requested change: the new and the old object, of which one may be missing."""

    call: Call
    operation: Operation
    object: Object | None
    old: Object | None
    delete_options: Object | None = None
    """The DeleteOptions of a deletion, from the body or the query."""

    @property
    def options(self) -> Object:
        """The options as an AdmissionReview shows them.

        The DeleteOptions of a deletion if there are any, else those that the call's verb and query
        give.
        """
        return self.delete_options or self.call.options_object()

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be stored: by the DeleteOptions of a deletion, else by the query.

        Raises a 422 for a value other than `All` in the query.
        """
        if self.delete_options is not None:
            return bool(self.delete_options.get("dryRun"))
        return self.call.dry_run

    @property
    def namespace(self) -> str:
        """The namespace in the path, of a Namespace its own name; empty at the cluster scope."""
        if self.call.resource.store != "namespaces":
            return self.call.target.namespace
        metadata = ((self.object or self.old) or {}).get("metadata") or {}
        return str(metadata.get("name", ""))

    @property
    def name(self) -> str:
        """The name in the path or of the object; its generateName before a name is generated."""
        metadata = ((self.object or self.old) or {}).get("metadata") or {}
        return self.call.target.name or metadata.get("name") or metadata.get("generateName", "")


def admission_request(attributes: AdmissionAttributes, resource: Resource) -> dict[str, Any]:
    """The request of an AdmissionReview, in the version of a resource, without uid and objects.

    Its namespace is that of the path; for a Namespace it is the name of the Namespace itself.
    """
    call = attributes.call
    requested = call.resource
    objects = [side for side in (attributes.object, attributes.old) if side is not None]
    metadata = objects[0]["metadata"]
    request: dict[str, Any] = {
        "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "resource": {
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
        },
        "requestKind": {
            "group": requested.group,
            "version": requested.version,
            "kind": requested.kind,
        },
        "requestResource": {
            "group": requested.group,
            "version": requested.version,
            "resource": requested.plural,
        },
        "name": call.target.name or metadata.get("name", ""),
        "operation": attributes.operation,
        "userInfo": user_info(call.user),
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    if call.target.subresource:
        request["subResource"] = request["requestSubResource"] = call.target.subresource
    return request


class MatchCache(Generic[T]):
    """What matches requests by resource, subresource and operation alone, until something changes.

    It is found anew after a change of its stores, and of the resources that are served.
    """

    def __init__(self, storage: Storage, registry: Registry, *stores: str) -> None:
        """Subscribe to changes of the stores for as long as the storage lives."""
        self._registry = registry
        self._generation = -1
        self._found: dict[tuple[str, ...], list[T]] = {}
        for store in stores:
            storage.subscribe(lambda _: self._found.clear(), store)

    def matching(
        self,
        attributes: AdmissionAttributes,
        find: Callable[[AdmissionAttributes], Iterable[T]],
    ) -> list[T]:
        """What `find` gives for the request, or gave for one of the same resource and operation.

        The subresource has to be the same too. The list is cached until a store or the registry
        changes; it must not be modified.
        """
        if self._generation != self._registry.generation:
            self._found.clear()
            self._generation = self._registry.generation
        target, resource = attributes.call.target, attributes.call.resource
        kind = (resource.group, resource.version, resource.plural)
        key = (*kind, target.subresource, attributes.operation)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = [*find(attributes)]
        return found


def matching_version(
    registry: Registry,
    match_policy: str | None,
    rules: Sequence[dict[str, Any]],
    attributes: AdmissionAttributes,
) -> Resource | None:
    """The resource in the first version that a rule matches, or None.

    The requested version comes first; the others are tried unless the policy is Exact.
    """
    requested = attributes.call.resource
    variants = [requested]
    if match_policy != "Exact":
        variants += [r for r in registry.in_store(requested.store) if r is not requested]
    for variant in variants:
        if any(rule_matches(rule, variant, attributes) for rule in rules):
            return variant
    return None


def rule_matches(rule: dict[str, Any], resource: Resource, attributes: AdmissionAttributes) -> bool:
    """Whether operation, group, version, scope and resource of a request all match a rule.

    They are those of `resource`, which may be another version of the requested one; the subresource
    is that of the request. resourceNames are not compared.
    """

    def named(field: str, value: str) -> bool:
        """Whether a list of the rule has the value, or `*`."""
        allowed = rule.get(field) or ()
        return "*" in allowed or value in allowed

    scope = rule.get("scope") or "*"
    wanted = "Namespaced" if resource.namespaced else "Cluster"
    if resource.store == "namespaces":
        wanted = "Cluster"
    return (
        named("operations", attributes.operation)
        and named("apiGroups", resource.group)
        and named("apiVersions", resource.version)
        and scope in ("*", wanted)
        and _resource_matches(
            rule.get("resources") or (), resource, attributes.call.target.subresource
        )
    )


def _resource_matches(patterns: Iterable[str], resource: Resource, subresource: str) -> bool:
    """Whether a rule's pattern (`pods`, `pods/status`, `pods/*`, `*`, `*/*`) matches.

    Without a slash it matches no subresource; with `/*` also the resource itself.
    """
    for pattern in patterns:
        parent, slash, endpoint = pattern.partition("/")
        if parent not in ("*", resource.plural):
            continue
        if endpoint == subresource or (slash and endpoint == "*"):
            return True
    return False


def selectors_match(
    storage: Storage, spec: dict[str, Any], attributes: AdmissionAttributes
) -> bool:
    """Whether objectSelector (on the new or the old labels) and namespaceSelector match a request.

    The latter reads the labels of the stored namespace, of a Namespace its own; other
    cluster-scoped objects always match, a namespace that is missing only an empty selector.
    """
    objects = [side for side in (attributes.object, attributes.old) if side is not None]
    labels = [side["metadata"].get("labels") or {} for side in objects]
    object_selector = spec.get("objectSelector") or {}
    if not any(matches_labels(object_selector, found) for found in labels):
        return False
    namespace_selector = spec.get("namespaceSelector") or {}
    resource, namespace = attributes.call.resource, attributes.call.target.namespace
    if resource.store == "namespaces":
        return matches_labels(namespace_selector, labels[0])
    if not resource.namespaced:
        return True
    namespace_object = storage.get("namespaces", "", namespace)
    if namespace_object is None:
        return not namespace_selector
    return matches_labels(namespace_selector, namespace_object["metadata"].get("labels") or {})
