"""Admission webhooks: which ones match a request, and what they answer."""

import asyncio
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import msgspec
from msgspec import Struct, structs

from tinykube import custom_resources, serializer
from tinykube.admission_rules import (
    EXEMPT,
    AdmissionAttributes,
    MatchCache,
    admission_request,
    matching_version,
    selectors_match,
)
from tinykube.builtin_types import type_of
from tinykube.conversion import to_served
from tinykube.errors import StatusError, bad_request, internal_error
from tinykube.handlers import bodies
from tinykube.json_patch import PatchFailed, apply_json_patch
from tinykube.object_meta import new_uid
from tinykube.resources import Object, Registry, Resource
from tinykube.storage import Storage
from tinykube.strategies import strategy_for
from tinykube.webhook_client import (
    ServiceResolver,
    WebhookCall,
    WebhookCaller,
    WebhookFailed,
)

_MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
_VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_DRY_RUN_SAFE = ("None", "NoneOnDryRun")


class _Hook(Struct, frozen=True):
    """A webhook that matches, and the resource in the version that its rules name."""

    spec: dict[str, Any]
    resource: Resource


class WebhookAdmission:
    """Calls the webhooks of the stored webhook configurations."""

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        random: Random,
        call: WebhookCaller,
        resolve: ServiceResolver,
    ) -> None:
        """Call webhooks through `call`, at the addresses that `resolve` gives for Services."""
        self._storage = storage
        self._registry = registry
        self._random = random
        self._caller = call
        self._resolve = resolve
        self._matches = {
            store: MatchCache[_Hook](storage, registry, store) for store in (_MUTATING, _VALIDATING)
        }

    async def mutate(self, attributes: AdmissionAttributes) -> Object:
        """The object after all mutating webhooks, by names of configurations; {} without an object.

        Which ones match is decided by the object as requested, and each is called once. The first
        denial or failure is raised; a failure with failurePolicy Ignore leaves the object as it is.
        """
        obj = attributes.object
        for hook in [*self._matching_hooks(_MUTATING, attributes)]:
            current = structs.replace(attributes, object=obj)
            response = await self._call_hook(hook, current)
            if response is not None and response.get("patch") and obj is not None:
                obj = _patched(hook, attributes.call.resource, obj, response)
        return obj if obj is not None else {}

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Call the validating webhooks concurrently and wait for all of them.

        Raises the error of the first, in the order of configurations, that denies or fails; a
        failure with failurePolicy Ignore is none.
        """
        hooks = [*self._matching_hooks(_VALIDATING, attributes)]
        if not hooks:
            return
        results = await asyncio.gather(
            *(self._call_hook(hook, attributes) for hook in hooks), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _matching_hooks(self, store: str, attributes: AdmissionAttributes) -> Iterator[_Hook]:
        """The webhooks of a store of configurations whose rules and selectors match the request.

        Yields nothing for `EXEMPT` resources: webhook configurations, policies and their bindings.
        """
        if attributes.call.resource.store in EXEMPT or not self._storage.count(store):
            return
        found = self._matches[store].matching(attributes, partial(self._find_hooks, store))
        for hook in found:
            if selectors_match(self._storage, hook.spec, attributes):
                yield hook

    def _find_hooks(self, store: str, attributes: AdmissionAttributes) -> Iterator[_Hook]:
        """The webhooks of a store of configurations whose rules match the request.

        Selectors are not compared; the order is that of the configurations' names.
        """
        for configuration in self._storage.objects(store):
            for spec in configuration.get("webhooks") or ():
                policy, rules = spec.get("matchPolicy"), spec.get("rules") or ()
                resource = matching_version(self._registry, policy, rules, attributes)
                if resource is not None:
                    yield _Hook(spec, resource)

    async def _call_hook(
        self, hook: _Hook, attributes: AdmissionAttributes
    ) -> dict[str, Any] | None:
        """The response of a webhook that allows; None if it failed and its failurePolicy is Ignore.

        Raises a denial, a 500 for other failures, and, without a call, a 400 on a dry run if it may
        have side effects. Warnings in the response are added to the call.
        """
        name = hook.spec["name"]
        if attributes.dry_run and hook.spec.get("sideEffects") not in _DRY_RUN_SAFE:
            raise bad_request(f'admission webhook "{name}" does not support dry run')
        uid = new_uid(self._random)
        try:
            response = await self._review(hook, attributes, uid)
        except WebhookFailed as error:
            if hook.spec.get("failurePolicy") == "Ignore":
                return None
            raise internal_error(
                f'failed calling webhook "{name}": failed to call webhook: {error}'
            ) from error
        for warning in response.get("warnings") or ():
            attributes.call.warn(warning)
        if not response.get("allowed"):
            raise _denied(name, response.get("status") or {})
        return response

    async def _review(
        self, hook: _Hook, attributes: AdmissionAttributes, uid: str
    ) -> dict[str, Any]:
        """Send an AdmissionReview to a webhook and return the `response` of its answer.

        Raises `WebhookFailed` if it cannot be called, after timeoutSeconds, and for a caBundle or
        answer that is malformed.
        """
        request = _admission_review(hook, attributes, uid)
        client = hook.spec.get("clientConfig") or {}
        seconds = hook.spec.get("timeoutSeconds", 10)
        try:
            authority = b64decode(client.get("caBundle") or "")
        except BadBase64 as error:
            raise WebhookFailed(f"unable to load root certificates: {error}") from error
        call = WebhookCall(
            url=client.get("url") or "",
            authority=authority,
            body=msgspec.json.encode(request),
            timeout=timedelta(seconds=seconds),
        )
        service = client.get("service")
        if service:
            call = self._resolve(service, call)
        try:
            async with asyncio.timeout(seconds):
                body = await self._caller(call)
        except TimeoutError as error:
            raise WebhookFailed("context deadline exceeded") from error
        return _read_response(body, uid)


def _read_response(body: bytes, uid: str) -> dict[str, Any]:
    """The response of an AdmissionReview; raises `WebhookFailed` if malformed or of another uid."""
    try:
        review = msgspec.json.decode(body, type=dict[str, Any])
        response = msgspec.convert(review.get("response"), dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise WebhookFailed("received invalid webhook response") from error
    if response.get("uid") != uid:
        raise WebhookFailed(f'expected response.uid="{uid}", got "{response.get("uid")}"')
    return response


def _admission_review(hook: _Hook, attributes: AdmissionAttributes, uid: str) -> dict[str, Any]:
    """The AdmissionReview for a webhook, with the objects in the version that its rules name."""
    resource = hook.resource
    request: dict[str, Any] = {
        "uid": uid,
        **admission_request(attributes, resource),
        "object": to_served(resource, attributes.object) if attributes.object is not None else None,
        "oldObject": to_served(resource, attributes.old) if attributes.old is not None else None,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _denied(name: str, status: dict[str, Any]) -> StatusError:
    """The error to raise for a webhook's denial: code (at least 400) and reason of its status."""
    denied = f'admission webhook "{name}" denied the request'
    reason = status.get("reason") or ""
    text = status.get("message") or reason
    message = f"{denied}: {text}" if text else f"{denied} without explanation"
    code = status.get("code") or 0
    return StatusError(max(code, 400), reason, message, status.get("details"))


def _patched(hook: _Hook, requested: Resource, obj: Object, response: dict[str, Any]) -> Object:
    """The object with the JSON patch of a webhook, in the requested version, decoded and defaulted.

    Raises a 500 if the patch is malformed or cannot be applied.
    """
    name = hook.spec["name"]
    if response.get("patchType") not in (None, "JSONPatch"):
        raise internal_error(f'admission webhook "{name}" sent an unknown patchType')
    try:
        operations = bodies.parse_json(b64decode(response["patch"]))
        patched = apply_json_patch(serializer.clone(to_served(hook.resource, obj)), operations)
    except (BadBase64, bodies.DecodeError, PatchFailed, TypeError) as error:
        raise internal_error(str(error)) from error
    patched = {**patched, "apiVersion": requested.api_version, "kind": requested.kind}
    return _decode_patched(requested, patched)


def _decode_patched(resource: Resource, patched: Object) -> Object:
    """A patched object without unknown fields and with defaults.

    Raises a 500 for a value of a wrong type, of a custom resource a 400 for wrong metadata.
    """
    if resource.custom is not None:
        return custom_resources.prune_and_default(resource, patched)[0]
    try:
        made, _ = serializer.decode(type_of(resource.api_version, resource.kind), patched)
    except serializer.TypeMismatch as error:
        raise internal_error(str(error)) from error
    made = {"kind": resource.kind, "apiVersion": resource.api_version, **made}
    default: Callable[[Object], None] = strategy_for(resource).default
    default(made)
    return made
