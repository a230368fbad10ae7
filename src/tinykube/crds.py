"""CustomResourceDefinitions: validation, accepted names, and the resources that they define."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from tinykube.clock import Clock
from tinykube.crd_validation import crd_errors, crd_update_errors, is_established
from tinykube.expressions import CompileError
from tinykube.object_meta import timestamp
from tinykube.resources import (
    Column,
    CustomVersion,
    Object,
    Registry,
    Resource,
    ScalePaths,
    Subresource,
    version_rank,
)
from tinykube.schema_rules import RuleNode, compile_rules
from tinykube.storage import Change, Storage, StorageEvent
from tinykube.strategy import Strategy

CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
Remove = Callable[[Resource, Object], object]
"""Deletes one stored object like a DELETE without options."""
CRDS = "customresourcedefinitions.apiextensions.k8s.io"


class CrdRegistrar:
    """Registers the resources of stored CRDs, and cleans up those that are deleted."""

    def __init__(self, storage: Storage, registry: Registry, clock: Clock, remove: Remove) -> None:
        """Subscribe to changes of CRDs for as long as the storage lives.

        `remove` deletes the objects of a CRD that is being deleted.
        """
        self._storage = storage
        self._registry = registry
        self._clock = clock
        self._remove = remove
        self._terminating: set[str] = set()
        self._changed_groups: set[str] = set()
        """The groups of CRDs that changed: names must be unique within a group."""
        storage.subscribe(self._on_storage_event, CRDS)

    def after_write(self, resource: Resource) -> None:
        """Continue what a write of `resource` starts; to be called after every write.

        After a write of CRDs: stores accepted names and conditions of all CRDs in the groups of
        those that changed. After that, or a write of a terminating CRD's objects: deletes the
        objects of terminating CRDs, and the CRDs once none is left. Else does nothing.
        """
        if resource.store == CRDS:
            groups, self._changed_groups = self._changed_groups, set()
            for crd in [*self._storage.objects(CRDS)]:
                if crd["spec"]["group"] in groups:
                    self._accept_names(crd)
        if self._terminating and (resource.store == CRDS or resource.store in self._terminating):
            for name in [*self._terminating]:
                self._clean_up(name)

    def is_terminating(self, resource: Resource) -> bool:
        """Whether a resource's CRD is being deleted, so that no object may be created."""
        return resource.store in self._terminating

    def _accept_names(self, crd: Object) -> None:
        """Store the CRD's new names and conditions if they differ, unless it is being deleted."""
        if crd["metadata"].get("deletionTimestamp"):
            return
        settled = with_accepted_names(crd, self._registry, self._clock)
        if settled != crd:
            self._storage.replace(CRDS, settled)

    def _clean_up(self, name: str) -> None:
        """Delete a terminating CRD's objects; once none is left, remove its cleanup finalizer.

        The CRD itself is removed if that is its last finalizer. Objects that are being deleted
        already are waited for; none is deleted if the CRD serves no version. A missing CRD is no
        longer terminating.
        """
        crd = self._storage.get(CRDS, "", name)
        if crd is None:
            self._terminating.discard(name)
            return
        versions = resources_of(crd)
        for obj in [*self._storage.objects(name)]:
            if versions and not obj["metadata"].get("deletionTimestamp"):
                self._remove(versions[0], obj)
        finalizers = crd["metadata"].get("finalizers") or []
        if self._storage.count(name) or CRD_CLEANUP not in finalizers:
            return
        left = [finalizer for finalizer in finalizers if finalizer != CRD_CLEANUP]
        metadata = {key: v for key, v in crd["metadata"].items() if key != "finalizers"}
        if left:
            self._storage.replace(CRDS, {**crd, "metadata": {**metadata, "finalizers": left}})
        else:
            self._storage.remove(CRDS, "", name, {**crd, "metadata": metadata})

    def _on_storage_event(self, event: StorageEvent) -> None:
        """Define or withdraw the resources of the CRD that changed.

        After a restore those of all CRDs; resources of missing ones are withdrawn.
        """
        if isinstance(event, Change):
            self._update_registry(event.object, gone=event.type == "DELETED")
            return
        self._terminating.clear()
        present = {crd["metadata"]["name"]: crd for crd in self._storage.objects(CRDS)}
        for served in [versions[0].store for versions in self._registry.custom() if versions]:
            if served not in present:
                self._registry.withdraw(served)
        for crd in present.values():
            self._update_registry(crd, gone=False)

    def _update_registry(self, crd: Object, *, gone: bool) -> None:
        """Define the resources of an established CRD; withdraw them if it is not, or `gone`.

        Also notes whether it is terminating, and its group: `after_write` then settles which names
        of the CRDs in that group are accepted.
        """
        name = crd["metadata"]["name"]
        self._changed_groups.add(crd["spec"]["group"])
        if gone:
            self._terminating.discard(name)
        elif crd["metadata"].get("deletionTimestamp"):
            self._terminating.add(name)
        if gone or not is_established(crd):
            self._registry.withdraw(name)
        else:
            self._registry.define(name, resources_of(crd))


def resources_of(crd: Object) -> tuple[Resource, ...]:
    """The resources that a CRD serves, established or not: one per served version.

    The preferred version comes first.
    """
    spec = crd["spec"]
    stored = next(version["name"] for version in spec["versions"] if version.get("storage"))
    served = [version for version in spec["versions"] if version.get("served")]
    served.sort(key=lambda version: version_rank(version["name"]))
    return tuple(_resource(crd, version, f"{spec['group']}/{stored}") for version in served)


def _resource(crd: Object, version: dict[str, Any], stored_as: str) -> Resource:
    """The resource of one version of a CRD, with its subresources, columns and compiled rules.

    A deprecated version has a warning: its deprecationWarning, else one that names its kind.
    """
    spec, names = crd["spec"], crd["spec"]["names"]
    endpoints = version.get("subresources") or {}
    subresources: list[Subresource] = []
    if "scale" in endpoints:
        subresources.append(Subresource("scale", "Scale", group="autoscaling", version="v1"))
    if "status" in endpoints:
        subresources.append(Subresource("status", names["kind"]))
    warning = ""
    if version.get("deprecated"):
        kind = f"{spec['group']}/{version['name']} {names['kind']}"
        warning = version.get("deprecationWarning") or f"{kind} is deprecated"
    scale = endpoints.get("scale")
    columns = version.get("additionalPrinterColumns") or []
    fields = version.get("selectableFields") or []
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        namespaced=spec["scope"] == "Namespaced",
        subresources=tuple(subresources),
        categories=tuple(names.get("categories") or ()),
        store=crd["metadata"]["name"],
        list_kind=names.get("listKind") or f"{names['kind']}List",
        custom=CustomVersion(
            schema=(schema := (version.get("schema") or {}).get("openAPIV3Schema") or {}),
            rules=_rules(msgspec.json.encode(schema)),
            columns=msgspec.convert(columns, tuple[Column, ...]),
            scale=msgspec.convert(scale, ScalePaths) if scale else None,
            selectable_fields=tuple(field["jsonPath"].lstrip(".") for field in fields),
            deprecation_warning=warning,
            crd=crd["metadata"]["name"],
            stored_as=stored_as,
        ),
    )


@lru_cache(256)  # a CRD is registered with each change of its status, in each cluster of a process
def _rules(schema: bytes) -> RuleNode | None:
    """The CEL rules of an encoded schema.

    None if there are none, or one (stored unchecked) is not valid.
    """
    try:
        return compile_rules(msgspec.json.decode(schema))
    except CompileError:
        return None


def default_crd(crd: Object) -> None:
    """Default singular and listKind (from the kind, if any) and conversion of a CRD, in place.

    The conversion defaults to the strategy None; spec and names are added if missing.
    """
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def with_accepted_names(crd: Object, registry: Registry, clock: Clock) -> Object:
    """A copy of the CRD with new conditions, accepted names and storedVersions; nothing is stored.

    On a conflict with names of another resource, acceptedNames stay those accepted before. The
    storage version is appended to storedVersions if it is not among them.
    """
    before = crd.get("status") or {}
    conflict = _name_conflict(crd, registry)
    stored = next(version["name"] for version in crd["spec"]["versions"] if version.get("storage"))
    history = list(before.get("storedVersions") or ())
    if stored not in history:
        history.append(stored)
    names = crd["spec"]["names"]
    if conflict is not None:
        names = before.get("acceptedNames", {"plural": "", "kind": ""})
    conditions = _conditions(before.get("conditions") or [], conflict, timestamp(clock.now()))
    status = {"conditions": conditions, "acceptedNames": names, "storedVersions": history}
    return {**crd, "status": status}


class _Reason(Struct, frozen=True):
    """The reason and message of a condition."""

    reason: str
    message: str


def _conditions(before: list[Object], conflict: _Reason | None, now: str) -> list[Object]:
    """The conditions of a CRD: NamesAccepted and Established, False if there is a conflict.

    Established stays as it is once it is True. Conditions of other types are unchanged and come
    first.
    """
    known = {condition["type"]: condition for condition in before}
    status = "True" if conflict is None else "False"
    reason = conflict or _Reason("NoConflicts", "no conflicts found")
    made = [_crd_condition("NamesAccepted", status, reason, known, now)]
    established = known.get("Established")
    if established is None or established["status"] != "True":
        reason = _Reason("InitialNamesAccepted", "the initial names have been accepted")
        if conflict is not None:
            reason = _Reason("NotAccepted", "not all names are accepted")
        established = _crd_condition("Established", status, reason, known, now)
    others = [c for c in before if c["type"] not in ("NamesAccepted", "Established")]
    return [*others, *made, established]


def _crd_condition(
    kind: str, status: str, reason: _Reason, known: dict[str, Object], now: str
) -> Object:
    """A condition with this type (`kind`), status, reason and message.

    Its lastTransitionTime is that of the one in `known` while the status is the same, else `now`.
    """
    old = known.get(kind)
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": old["lastTransitionTime"] if old and old["status"] == status else now,
        "reason": reason.reason,
        "message": reason.message,
    }


def _name_conflict(crd: Object, registry: Registry) -> _Reason | None:
    """Why names are not accepted, or None: another resource of the group has one of them.

    Compared with the resources that are served, built-ins too, are plural, kind and listKind; not
    singular and short names.
    """
    spec, name = crd["spec"], crd["metadata"]["name"]
    names = spec["names"]
    for other in registry:
        if other.group != spec["group"] or other.store == name:
            continue
        if names["plural"] == other.plural:
            return _Reason("PluralConflict", f'"{names["plural"]}" is already in use')
        if names["kind"] == other.kind:
            return _Reason("KindConflict", f'"{names["kind"]}" is already in use')
        if names.get("listKind") == other.list_kind:
            return _Reason("ListKindConflict", f'"{names["listKind"]}" is already in use')
    return None


def set_stored_versions(crd: Object) -> None:
    """Set status.storedVersions of a new CRD, in place, to the versions marked as storage."""
    stored = [
        version["name"] for version in crd["spec"].get("versions") or () if version.get("storage")
    ]
    crd["status"] = {**crd.get("status", {}), "storedVersions": stored}


CRD_STRATEGY = Strategy(
    default=default_crd,
    prepare_for_create=set_stored_versions,
    validate=crd_errors,
    validate_update=crd_update_errors,
    tracks_generation=True,
    allow_unconditional_update=False,
)
