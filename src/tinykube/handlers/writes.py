"""The verbs create, update and patch, for objects and their status and scale."""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from tinykube import custom_resources, object_meta
from tinykube.admission_chain import AdmissionChain
from tinykube.admission_rules import AdmissionAttributes
from tinykube.clock import Clock
from tinykube.conversion import to_served, to_stored
from tinykube.errors import (
    StatusError,
    already_exists,
    conflict,
    invalid,
    invalid_object,
    name_not_generated,
    not_found,
    stale,
)
from tinykube.handlers import bodies, patches
from tinykube.handlers.calls import Call
from tinykube.handlers.scale import scale_of, with_replicas
from tinykube.handlers.write_checks import (
    check_name,
    check_namespace,
    create_attributes,
    deletion_is_complete,
    etcd_key,
    require_name,
    reset_status,
    spec_changed,
    with_new_status,
)
from tinykube.rbac.authorizer import Authorizer
from tinykube.rbac.escalation import check_grants
from tinykube.resources import Object, Resource
from tinykube.service_allocator import ServiceAllocator
from tinykube.storage import KeyExists, Storage, name_of
from tinykube.strategies import strategy_for
from tinykube.strategy import Strategy

UpdateFunc = Callable[[Object], Object]
"""Returns the updated object for the current one."""

_NAME_ATTEMPTS = 8
_SPEC_ENDPOINTS = ("", "scale", "binding")
"""The object itself and the subresources that write its spec."""
_TIMED_STORES = frozenset(("leases.coordination.k8s.io",))
"""Kinds whose writes are stamped with `managedFields`: how old a Lease is by the server's clock."""


class WriteResult(Struct, frozen=True):
    """The object and the status code to answer with."""

    object: Object
    code: int = 200


class WriteHandler:
    """The verbs create, update and patch over one storage, with defaulting and admission."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        admission: AdmissionChain,
        allocator: ServiceAllocator,
        random: Random,
        authorizer: Authorizer,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._admission = admission
        self._allocator = allocator
        self._random = random
        self._authorizer = authorizer

    async def create(self, call: Call) -> WriteResult:
        """POST to a collection: stores the object unless on a dry run; answers with 201.

        Raises 400 for a bad body, 409 if the name is taken, 422 if it is not valid, 404 or 403 for
        a namespace that is missing or terminating, and what admission raises.
        """
        obj = bodies.decode_object(call)
        return await self._create(call, obj)

    async def update(self, call: Call) -> WriteResult:
        """PUT of an object or its status; creates a missing object if its strategy allows that.

        Then the user needs the right to create (403). Raises 404 for a missing one otherwise, 405
        without a name, 400 for another name or namespace in the body, 409 for another uid or
        resourceVersion.
        """
        require_name(call)
        sent = bodies.decode_object(call)
        resource, target = call.resource, call.target
        meta = object_meta.metadata_of(sent)
        object_meta.ensure_namespace_matches(meta, resource, target.namespace)
        check_name(meta, target.name)
        old = self._storage.get(resource.store, target.namespace, target.name)
        if old is None and strategy_for(resource).allow_create_on_update and not target.subresource:
            self._authorizer.check(call.user, create_attributes(call))
            return await self._create(call, sent)
        return await self._guaranteed_update(call, lambda _: sent)

    async def patch(self, call: Call) -> WriteResult:
        """PATCH of an object, or of its status; raises 404 if it does not exist.

        Raises 405 without a name, 415 or 400 for a body that is no patch. It is applied again to
        the newest object when another write came between.
        """
        require_name(call)
        apply = patches.patch_for(call)
        return await self._guaranteed_update(call, lambda old: self._apply_patch(call, old, apply))

    async def scale(self, call: Call) -> WriteResult:
        """PUT or PATCH of a Scale: writes the object's replicas; the result holds the new Scale."""
        resource = call.resource
        if call.verb == "update":
            sent = bodies.decode_object(call)
            result = await self._guaranteed_update(
                call, lambda old: with_replicas(resource, old, sent)
            )
        else:
            apply = patches.patch_for(call)

            def update(old: Object) -> Object:
                """The object with the replicas of its Scale after the patch."""
                wanted = patches.decode_patched(call, apply(scale_of(resource, old)))
                return with_replicas(resource, old, wanted)

            result = await self._guaranteed_update(call, update)
        return WriteResult(scale_of(resource, result.object), result.code)

    async def update_with(self, call: Call, update: UpdateFunc) -> WriteResult:
        """Update the object of a call by a function of the current one; raises 404 if it is absent.

        The function is called again when another write came between. Defaults, admission and
        validation are those of the call's subresource.
        """
        return await self._guaranteed_update(call, update)

    def _apply_patch(self, call: Call, old: Object, apply: UpdateFunc) -> Object:
        """The patched and decoded object; raises 400 if the patch changes name or namespace."""
        new = patches.decode_patched(call, apply(old))
        meta = object_meta.metadata_of(new)
        object_meta.ensure_namespace_matches(meta, call.resource, call.target.namespace)
        check_name(meta, call.target.name)
        return new

    async def _create(self, call: Call, obj: Object) -> WriteResult:
        """Default, admit, validate and store; tries anew if a generated name is taken.

        It tries 8 names. Changes `obj`. Raises 409 if the given name is taken, or all generated
        ones are, and what the checks raise. A dry run stores nothing.
        """
        resource, target = call.resource, call.target
        strategy = strategy_for(resource)
        meta = object_meta.metadata_of(obj)
        object_meta.clear_system_fields(meta)
        object_meta.ensure_namespace_matches(meta, resource, target.namespace)
        strategy.default(obj)
        named = bool(meta.get("name"))
        check_namespace(self._storage, resource, target.namespace, meta)
        attributes = AdmissionAttributes(call, "CREATE", obj, None)
        obj = await self._admission.mutate(attributes)
        check_grants(self._authorizer, call, obj, None)
        for attempt in range(_NAME_ATTEMPTS):
            candidate = self._before_create(resource, strategy, obj)
            self._validate_new(resource, strategy, candidate)
            await self._admission.validate(AdmissionAttributes(call, "CREATE", candidate, None))
            for warning in strategy.warnings(candidate):
                call.warn(warning)
            try:
                return WriteResult(self._store_new(call, resource, candidate), 201)
            except KeyExists:
                taken = candidate["metadata"]["name"]
                if named:
                    raise already_exists(resource, taken) from None
                if attempt + 1 == _NAME_ATTEMPTS:
                    raise name_not_generated(resource, taken) from None
        raise AssertionError("every attempt returned or raised")

    def _before_create(self, resource: Resource, strategy: Strategy, obj: Object) -> Object:
        """A copy with uid, creationTimestamp and, if generated, a name; prepared by its kind.

        With generation 1 if the kind tracks it. A status that is a subresource is reset unless the
        kind accepts one on creation.
        """
        meta = dict(obj["metadata"])
        made = {**obj, "metadata": meta}
        if meta.get("generateName") and not meta.get("name"):
            meta["name"] = object_meta.generated_name(meta["generateName"], self._random)
        meta["uid"] = object_meta.new_uid(self._random)
        meta["creationTimestamp"] = object_meta.timestamp(self._clock.now())
        if strategy.tracks_generation:
            meta["generation"] = 1
        if resource.subresource("status") is not None and not strategy.accepts_status_on_create:
            reset_status(resource, made)
        strategy.prepare_for_create(made)
        return made

    def _validate_new(self, resource: Resource, strategy: Strategy, obj: Object) -> None:
        """Raise 422 with all errors of a new object, 500 if it has a resourceVersion."""
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        builtin = resource.custom is None
        errors = [*object_meta.metadata_errors(meta, strategy.name_problems, builtin=builtin)]
        errors += (
            custom_resources.validation_errors(resource, obj)
            if resource.custom
            else strategy.validate(obj)
        )
        errors = errors or [*object_meta.path_segment_errors(meta)]
        if errors:
            kind = obj.get("kind") or resource.kind
            raise invalid_object(kind, resource.group, meta.get("name", ""), errors)

    def _store_new(self, call: Call, resource: Resource, obj: Object) -> Object:
        """Store an object, a Service with its allocations; returns it in the version requested.

        A dry run stores nothing. Raises `KeyExists`, and for a namespace missing or terminating.
        """
        namespace, name = name_of(obj)
        if self._storage.get(resource.store, namespace, name) is not None:
            raise KeyExists(name)
        check_namespace(self._storage, resource, namespace, obj["metadata"])
        dry = call.dry_run
        if resource.store == "services":
            obj = self._allocator.allocate(obj, None, dry_run=dry)
        if dry:
            return obj
        obj = self._stamp_time(call, obj)
        return to_served(resource, self._storage.create(resource.store, to_stored(resource, obj)))

    async def _guaranteed_update(self, call: Call, update: UpdateFunc) -> WriteResult:
        """Update one object, or raise 404; starts again when another write came between.

        Each attempt calls `update` and passes admission, the checks of granted rights,
        preconditions and validation. A dry run stores nothing.
        """
        resource, target = call.resource, call.target
        strategy = strategy_for(resource)
        while True:
            stored = self._storage.get(resource.store, target.namespace, target.name)
            if stored is None:
                raise not_found(resource, target.name)
            old = to_served(resource, stored)
            new = self._restrict_to_endpoint(call, update(old), old)
            new = await self._admission.mutate(AdmissionAttributes(call, "UPDATE", new, old))
            check_grants(self._authorizer, call, new, old)
            self._check_preconditions(resource, strategy, new, old)
            new = self._before_update(call, strategy, new, old)
            self._validate_update(call, strategy, new, old)
            await self._admission.validate(AdmissionAttributes(call, "UPDATE", new, old))
            if self._storage.get(resource.store, target.namespace, target.name) is stored:
                return WriteResult(self._store_change(call, new, old))

    def _restrict_to_endpoint(self, call: Call, new: Object, old: Object) -> Object:
        """The update without fields that the endpoint may not write.

        The old object with the new status for `status`, with new metadata and spec.finalizers for
        `finalize`; all is written for `scale` and `binding`. For the object itself the old status
        is kept if that is a subresource. For it and `status` defaults are set in `new`.
        """
        match call.target.subresource:
            case "status":
                strategy_for(call.resource).default(new)
                return with_new_status(call.resource, new, old)
            case "finalize":
                spec = {**old.get("spec", {}), "finalizers": new.get("spec", {}).get("finalizers")}
                kept_spec = {key: value for key, value in spec.items() if value}
                return {**old, "metadata": new["metadata"], "spec": kept_spec}
            case "scale" | "binding":
                return new
            case _:
                strategy_for(call.resource).default(new)
                if call.resource.subresource("status") is None:
                    return new
                status = {"status": old["status"]} if "status" in old else {}
                return {**{k: v for k, v in new.items() if k != "status"}, **status}

    def _check_preconditions(
        self, resource: Resource, strategy: Strategy, new: Object, old: Object
    ) -> None:
        """Raise 409 for another uid or resourceVersion, 422 for none where one is required.

        Also 500 for a resourceVersion that is no number.
        """
        meta, present = new["metadata"], old["metadata"]
        if meta.get("uid") and meta["uid"] != present["uid"]:
            raise conflict(
                resource,
                present["name"],
                f"StorageError: invalid object, Code: 4, Key: {etcd_key(resource, present)}, "
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
                f"{meta['uid']}, UID in object meta: {present['uid']}",
            )
        version = meta.get("resourceVersion") or "0"
        if not version.isdecimal():
            raise StatusError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version == "0":
            if not strategy.allow_unconditional_update:
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise invalid_object(resource.plural, resource.group, present["name"], [error])
        elif version != present["resourceVersion"]:
            raise stale(resource, present["name"])

    def _before_update(self, call: Call, strategy: Strategy, new: Object, old: Object) -> Object:
        """A copy with the old system fields and resourceVersion, prepared by its kind's strategy.

        Prepared only where the spec is written, not at `status` or `finalize`; a spec that is
        changed so, but not by a binding, increments the generation of kinds that track it.
        """
        meta = dict(new["metadata"])
        made = {**new, "metadata": meta}
        object_meta.keep_system_fields(meta, old["metadata"])
        meta["resourceVersion"] = old["metadata"]["resourceVersion"]
        if call.target.subresource in _SPEC_ENDPOINTS:
            strategy.prepare_for_update(made, old)
            counted = strategy.tracks_generation and call.target.subresource != "binding"
            if counted and spec_changed(call.resource, strategy, made, old):
                meta["generation"] = old["metadata"].get("generation", 0) + 1
        return made

    def _validate_update(self, call: Call, strategy: Strategy, new: Object, old: Object) -> None:
        """Raise 422 with all errors; a built-in is validated as a whole if its change has none.

        Of a built-in's subresources, except scale, only metadata is checked.
        """
        resource = call.resource
        errors = [
            *object_meta.metadata_update_errors(
                new["metadata"],
                old["metadata"],
                strategy.name_problems,
                builtin=resource.custom is None,
            )
        ]
        if resource.custom is not None:
            errors += custom_resources.validation_errors(
                resource, new, old, call.target.subresource
            )
        elif call.target.subresource in ("", "scale"):
            errors += strategy.validate_update(new, old)
            errors = errors or [*strategy.validate(new)]
        if errors:
            name = new["metadata"]["name"]
            raise invalid_object(resource.kind, resource.group, name, errors)

    def _store_change(self, call: Call, new: Object, old: Object) -> Object:
        """Store a change, or remove the object if its deletion is complete; returns the new state.

        Allocates and releases a Service's addresses. An update without change and a dry run store
        nothing.
        """
        resource, dry = call.resource, call.dry_run
        if resource.store == "services" and call.target.subresource in _SPEC_ENDPOINTS:
            new = self._allocator.allocate(new, old, dry_run=dry)
        if dry:
            return new
        if deletion_is_complete(resource, new, old):
            self._storage.remove(resource.store, *name_of(old))
            if resource.store == "services":
                self._allocator.release(old)
            return new
        if new == old:
            return old
        new = self._stamp_time(call, new)
        return to_served(resource, self._storage.replace(resource.store, to_stored(resource, new)))

    def _stamp_time(self, call: Call, obj: Object) -> Object:
        """A copy of a Lease with manager and time of this write in managedFields; others as is."""
        if call.resource.store not in _TIMED_STORES:
            return obj
        manager = dict(call.request.query).get("fieldManager", "")
        entries = object_meta.managed_fields(manager, call.resource.api_version, self._clock.now())
        return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}
