"""DELETE of objects and collections: preconditions, grace periods, finalizers, propagation."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tinykube.admission_chain import AdmissionChain
from tinykube.admission_rules import AdmissionAttributes
from tinykube.clock import Clock
from tinykube.conversion import to_served, to_stored
from tinykube.crds import CRD_CLEANUP, CRDS
from tinykube.errors import (
    StatusError,
    bad_request,
    invalid,
    invalid_object,
    not_allowed,
    not_found,
    unsupported,
)
from tinykube.handlers import bodies
from tinykube.handlers.calls import Call
from tinykube.handlers.reads import check_list_options, selector_for
from tinykube.object_meta import timestamp
from tinykube.resources import Object, Resource
from tinykube.service_allocator import ServiceAllocator
from tinykube.storage import Storage, name_of
from tinykube.strategies import strategy_for

_IMMORTAL_NAMESPACES = frozenset(("default", "kube-system", "kube-public"))
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_POLICIES = ("Foreground", "Background", "Orphan", "nil")


class Preconditions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What must be true of an object for it to be deleted."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The meta/v1 DeleteOptions."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None


NO_OPTIONS = DeleteOptions()


class DeleteResult(Struct, frozen=True):
    """The object to answer with, and whether the deletion is complete."""

    object: Object
    gone: bool
    code: int = 200


def decode_options(call: Call) -> DeleteOptions:
    """The options of a DELETE request, from its body or, if that is empty, from its query.

    Raises 400 for malformed and 422 for unsupported ones, 413 or 415 for a body that is too large
    or of another content type.
    """
    try:
        value = bodies.parse(call.request) if call.request.body else _query_options(call)
    except bodies.DecodeError as error:
        raise bad_request(str(error)) from error
    return parse_options(value)


def parse_options(value: object) -> DeleteOptions:
    """Delete options from their decoded body.

    Raises 400 for another kind or a wrong type, 422 for values that are not supported.
    """
    kind = value.get("kind", "DeleteOptions") if isinstance(value, dict) else "DeleteOptions"
    if kind != "DeleteOptions" and isinstance(value, dict):
        version = value.get("apiVersion", "v1")
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme ""')
    try:
        options = msgspec.convert(value, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(str(error)) from error
    errors = []
    policy = options.propagation_policy
    if policy is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", policy, detail))
    if policy is not None and policy not in _POLICIES[:3]:
        errors.append(unsupported("propagationPolicy", policy, _POLICIES))
    errors += [
        unsupported("dryRun", [requested], ("All",))
        for requested in options.dry_run or ()
        if requested != "All"
    ]
    if errors:
        raise invalid_object("DeleteOptions", "meta.k8s.io", "", errors)
    return options


def _options_object(options: DeleteOptions) -> Object:
    """The options as an AdmissionReview shows them, without those not given."""
    given: Object = msgspec.to_builtins(options)
    return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **given}


def _query_options(call: Call) -> dict[str, Any]:
    """The DeleteOptions fields that the query string sets; those not given are left out.

    Raises 400 if gracePeriodSeconds is no number.
    """
    value: dict[str, Any] = {}
    if call.option("gracePeriodSeconds"):
        value["gracePeriodSeconds"] = call.number("gracePeriodSeconds")
    if call.option("propagationPolicy"):
        value["propagationPolicy"] = call.option("propagationPolicy")
    if call.option("orphanDependents"):
        value["orphanDependents"] = call.flag("orphanDependents")
    if call.option("dryRun"):
        value["dryRun"] = [call.option("dryRun")]
    return value


class DeleteHandler:
    """The verbs delete and deletecollection."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        admission: AdmissionChain,
        allocator: ServiceAllocator,
    ) -> None:
        """Only references are kept; the allocator gets back the addresses of deleted Services."""
        self._storage = storage
        self._clock = clock
        self._admission = admission
        self._allocator = allocator

    async def delete(self, call: Call) -> DeleteResult:
        """DELETE of one object: deletes it, and gives the object or Status to answer with.

        The code is 202 if orphanDependents is false and finalizers or a grace period hold it.
        """
        options = decode_options(call)
        target = call.target
        result = await self.delete_object(call, target.namespace, target.name, options)
        accepted = not result.gone and options.orphan_dependents is False
        return DeleteResult(result.object, result.gone, 202 if accepted else 200)

    async def delete_collection(self, call: Call) -> list[Object]:
        """DELETE of a collection, or of the objects that the selectors match.

        Returns them as they were before, also those that vanish meanwhile, which is no error. Any
        other error is raised at once, and the rest is not deleted.
        """
        check_list_options(call)
        options, selected = decode_options(call), selector_for(call)
        store = call.resource.store
        chosen = selected.select(self._storage.objects(store, call.target.namespace))
        for obj in chosen:
            try:
                await self.delete_object(call, *name_of(obj), options)
            except StatusError as error:
                if error.code != 404:
                    raise
        return [to_served(call.resource, obj) for obj in chosen]

    async def delete_object(
        self, call: Call, namespace: str, name: str, options: DeleteOptions
    ) -> DeleteResult:
        """Delete one object after preconditions and admission; tried again if it changed meanwhile.

        Raises 404 if it does not exist, 403 for namespaces that may not be deleted, 409 if a
        precondition fails.
        """
        resource = call.resource
        while True:
            stored = self._storage.get(resource.store, namespace, name)
            if stored is None:
                raise not_found(resource, name)
            if resource.store == "namespaces" and name in _IMMORTAL_NAMESPACES:
                raise not_allowed(resource, name, "this namespace may not be deleted")
            old = to_served(resource, stored)
            _check_preconditions(resource, old, options)
            attributes = AdmissionAttributes(call, "DELETE", None, old, _options_object(options))
            await self._admission.mutate(attributes)
            await self._admission.validate(attributes)
            if self._storage.get(resource.store, namespace, name) is stored:
                return self.remove(resource, stored, options)

    def remove(
        self, resource: Resource, stored: Object, options: DeleteOptions = NO_OPTIONS
    ) -> DeleteResult:
        """Remove a stored object, or mark it deleted where finalizers or a grace period hold it.

        Without preconditions and admission. A dry run stores nothing; a pod that is terminating
        with a grace period is left as it is unless that becomes shorter.
        """
        dry = bool(options.dry_run)
        now = self._clock.now()
        metadata = stored["metadata"]
        finalizers = _deletion_finalizers(resource, metadata, options)
        grace = _grace_period(resource, stored, options)
        if grace is not UNSET and grace is None:
            return DeleteResult(to_served(resource, stored), gone=False)
        held = bool(finalizers) or _has_spec_finalizers(resource, stored)
        if isinstance(grace, UnsetType) and not held:
            return self._remove_from_storage(resource, stored, dry=dry)
        seconds = 0 if isinstance(grace, UnsetType) or grace is None else grace
        marked = _mark_deleted(resource, stored, finalizers, seconds, now)
        if not dry and marked != stored:
            marked = self._storage.replace(resource.store, marked)
        if held or seconds:
            return DeleteResult(to_served(resource, marked), gone=False)
        return self._remove_from_storage(resource, marked, dry=dry)

    def _remove_from_storage(
        self, resource: Resource, stored: Object, *, dry: bool
    ) -> DeleteResult:
        """Remove the object and release the addresses of a Service; a dry run does neither.

        The result is the object or a Status, by its strategy.
        """
        metadata = stored["metadata"]
        last = stored
        if not dry:
            last = self._storage.remove(resource.store, *name_of(stored))
            if resource.store == "services":
                self._allocator.release(stored)
        if strategy_for(resource).returns_deleted_object:
            return DeleteResult(to_served(resource, last), gone=True)
        details = {
            "name": metadata["name"],
            "group": resource.group,
            "kind": resource.plural,
            "uid": metadata["uid"],
        }
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {key: value for key, value in details.items() if value},
        }
        return DeleteResult(status, gone=True)


def _check_preconditions(resource: Resource, obj: Object, options: DeleteOptions) -> None:
    """Raise 409 Conflict if uid or resourceVersion differ from the preconditions, if any."""
    wanted = options.preconditions
    if wanted is None:
        return
    metadata = obj["metadata"]
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    why = ""
    if wanted.uid is not None and wanted.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
    elif wanted.resource_version not in (None, metadata["resourceVersion"]):
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match "
            f"the ResourceVersion in record ({metadata['resourceVersion']}). The object might "
            "have been modified"
        )
    if why:
        details = {"name": metadata["name"], "group": resource.group, "kind": resource.kind}
        raise StatusError(
            409,
            "Conflict",
            f'Operation cannot be fulfilled on {kind} "{metadata["name"]}": {why}',
            {key: value for key, value in details.items() if value},
        )


def _deletion_finalizers(
    resource: Resource, metadata: dict[str, Any], options: DeleteOptions
) -> list[str]:
    """The object's finalizers, with that of the garbage collector for the propagation policy.

    A CRD also gets its cleanup finalizer.
    """
    present = metadata.get("finalizers") or []
    others = [finalizer for finalizer in present if finalizer not in (ORPHAN, FOREGROUND)]
    if resource.store == CRDS:
        others = list(dict.fromkeys([*others, CRD_CLEANUP]))
    match _propagation(resource, present, options):
        case "orphan":
            return [*others, ORPHAN]
        case "foreground":
            return [*others, FOREGROUND]
        case _:
            return others


def _propagation(resource: Resource, present: list[str], options: DeleteOptions) -> str:
    """What happens to dependents: "orphan", "foreground" or empty for background.

    Events are always background. orphanDependents decides before propagationPolicy; without both it
    is the present finalizers, then the kind: Jobs orphan.
    """
    if resource.store == "events":
        return ""
    if options.orphan_dependents is not None:
        return "orphan" if options.orphan_dependents else ""
    match options.propagation_policy:
        case "Orphan":
            return "orphan"
        case "Foreground":
            return "foreground"
        case "Background":
            return ""
    if ORPHAN in present:
        return "orphan"
    if FOREGROUND in present:
        return "foreground"
    return "orphan" if resource.store == "jobs.batch" else ""


def _grace_period(
    resource: Resource, obj: Object, options: DeleteOptions
) -> int | UnsetType | None:
    """The grace period of a pod in seconds; None to leave a running deletion alone, or UNSET.

    UNSET for other kinds, and for a deletion that has no time left. Without option it is that of
    the spec, 30 by default; 0 for a pod without node or that has finished. Of a running deletion
    only a shorter one counts; a negative one is 1.
    """
    if resource.store != "pods":
        return UNSET
    requested = options.grace_period_seconds
    if requested is not None and requested < 0:
        requested = 1
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    if metadata.get("deletionTimestamp"):
        present = metadata.get("deletionGracePeriodSeconds") or 0
        if not present:
            return UNSET
        return requested if requested is not None and requested < present else None
    period = requested if requested is not None else spec.get("terminationGracePeriodSeconds", 30)
    phase = (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Failed", "Succeeded"):
        return 0
    return int(period)


def _has_spec_finalizers(resource: Resource, obj: Object) -> bool:
    """Whether it is a namespace with spec.finalizers, which waits for its content to be deleted."""
    return resource.store == "namespaces" and bool((obj.get("spec") or {}).get("finalizers"))


def _mark_deleted(
    resource: Resource, stored: Object, finalizers: list[str], grace: int, now: datetime
) -> Object:
    """A copy with deletionTimestamp, these finalizers and, the first time, a higher generation.

    deletionTimestamp is `grace` seconds from now; a former one stays if neither deletion has a
    grace period. A namespace gets phase Terminating, other kinds deletionGracePeriodSeconds, a CRD
    also, the first time, the condition Terminating.
    """
    metadata = dict(stored["metadata"])
    if not metadata.get("deletionTimestamp") and metadata.get("generation"):
        metadata["generation"] += 1
    first = not metadata.get("deletionTimestamp")
    if first or grace or metadata.get("deletionGracePeriodSeconds"):
        metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
    if resource.store != "namespaces":
        metadata["deletionGracePeriodSeconds"] = grace
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
    marked = {**stored, "metadata": metadata}
    if resource.store == "namespaces":
        marked["status"] = {**stored.get("status", {}), "phase": "Terminating"}
    if resource.store == CRDS and first:
        marked["status"] = _with_terminating_condition(stored.get("status", {}), now)
    return to_stored(resource, marked) if resource.custom else marked


def _with_terminating_condition(status: Object, now: datetime) -> Object:
    """A status with the condition Terminating, in place of an earlier one."""
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": timestamp(now),
        "reason": "InstanceDeletionPending",
        "message": (
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        ),
    }
    others = [c for c in status.get("conditions") or () if c["type"] != "Terminating"]
    return {**status, "conditions": [*others, condition]}
