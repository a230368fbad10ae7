"""Sending writes of controllers through the API, so that validation and admission apply."""

from collections.abc import Sequence
from typing import Protocol, assert_never

import msgspec
from msgspec import Struct

from tinykube.clock import Clock
from tinykube.controllers.controller import (
    Create,
    Delete,
    Patch,
    RecordEvent,
    Replace,
    Write,
)
from tinykube.controllers.events import EventRecorder
from tinykube.controllers.objects import name_of, namespace_of, uid_of
from tinykube.request import MERGE_PATCH, Request, RequestLike, Response
from tinykube.resources import Object, Registry, Resource
from tinykube.storage import Storage
from tinykube.users import CONTROLLERS, User

_encode = msgspec.json.Encoder().encode


class _Metadata(Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""


class _ObjectVersion(Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


_decode_version = msgspec.json.Decoder(_ObjectVersion).decode


class _Status(Struct, frozen=True):
    reason: str = ""
    message: str = ""


_decode_status = msgspec.json.Decoder(_Status).decode


class WriteError(Exception):
    """The API server rejected a write of a controller."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        """The text of the error is the message, else the reason, else the code."""
        super().__init__(message or reason or f"status {code}")
        self.code = code
        self.reason = reason

    @property
    def is_conflict(self) -> bool:
        """Whether it is a 409 other than AlreadyExists: the object changed since it was read."""
        return self.code == 409 and self.reason != "AlreadyExists"


class ControlledApi(Protocol):
    """The part of an API server that controllers use: stored objects, resources and writes."""

    @property
    def storage(self) -> Storage: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def clock(self) -> Clock: ...

    async def send(self, request: RequestLike, user: User) -> Response: ...


class Writer:
    """Sends the writes of one cluster's controllers."""

    def __init__(self, api: ControlledApi, recorder: EventRecorder) -> None:
        """Nothing is sent yet; Events go through the recorder."""
        self._api = api
        self._recorder = recorder
        self._resources: dict[str, Resource] = {}
        self._generation = -1

    async def send_all(self, writes: Sequence[Write]) -> None:
        """Send writes to the API server in order; raises `WriteError` at the first that fails.

        Those before it stay sent. A patch of an absent object, and a deletion of one that is absent
        or was replaced, count as done. Events are only recorded, to be written later.
        """
        versions: dict[str, str] = {}
        for write in writes:
            match write:
                case RecordEvent():
                    self._recorder.record(write)
                case Create():
                    await self._send(self._create_request(write))
                case Replace():
                    await self._send(self._replace_request(write))
                case Patch():
                    await self._patch(write, versions)
                case Delete():
                    await self._delete(write)
                case _:
                    assert_never(write)

    async def _send(self, request: Request) -> bytes:
        """Send a request as the controllers' user.

        Returns the body, raises `WriteError` for any status but 2xx.
        """
        response = await self._api.send(request, CONTROLLERS)
        if not 200 <= response.status < 300:
            raise _write_error(response)
        return response.body

    async def _patch(self, write: Patch, versions: dict[str, str]) -> None:
        """Send a patch with uid and resourceVersion as preconditions; an absent object is no error.

        Stores the new resourceVersion in `versions`, which later patches of the object use. Raises
        `WriteError` for any other failure.
        """
        target = write.target
        resource = self.resource(write.store)
        version = versions.get(uid_of(target)) or target["metadata"].get("resourceVersion")
        metadata = {**(write.body.get("metadata") or {}), "uid": uid_of(target)}
        if version:
            metadata["resourceVersion"] = version
        path = resource.path(namespace_of(target), name_of(target), write.subresource)
        body = _encode({**write.body, "metadata": metadata})
        try:
            response_body = await self._send(
                Request("PATCH", path, body=body, content_type=MERGE_PATCH)
            )
        except WriteError as error:
            if error.code != 404:
                raise
            return  # deleted meanwhile; that change enqueues its keys
        versions[uid_of(target)] = _decode_version(response_body).metadata.resource_version

    async def _delete(self, write: Delete) -> None:
        """Delete an object with its uid as precondition.

        An absent one or a conflict is no error; raises `WriteError` for any other failure.
        """
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": write.propagation,
            "preconditions": {"uid": uid_of(write.target)},
        }
        if write.grace_seconds is not None:
            options["gracePeriodSeconds"] = write.grace_seconds
        resource = self.resource(write.store)
        path = resource.path(namespace_of(write.target), name_of(write.target))
        try:
            await self._send(Request("DELETE", path, body=_encode(options)))
        except WriteError as error:
            if error.code != 404 and not error.is_conflict:
                raise
            return  # already deleted, or recreated with another uid

    def _create_request(self, write: Create) -> Request:
        """The POST to a collection, or to a subresource of the named object.

        Raises `WriteError` if the store is not served.
        """
        namespace = namespace_of(write.object)
        name = name_of(write.object) if write.subresource else ""
        path = self.resource(write.store).path(namespace, name, write.subresource)
        return Request("POST", path, body=_encode(write.object))

    def _replace_request(self, write: Replace) -> Request:
        """The PUT of an object, or of a subresource of it; raises `WriteError` if not served."""
        resource = self.resource(write.store)
        path = resource.path(namespace_of(write.object), name_of(write.object), write.subresource)
        return Request("PUT", path, body=_encode(write.object))

    def resource(self, store: str) -> Resource:
        """The resource of a store, cached per registry generation.

        Raises `WriteError` if not served.
        """
        registry = self._api.registry
        if self._generation != registry.generation:
            self._resources = {one.store: one for one in reversed(list(registry.stored()))}
            self._generation = registry.generation
        found = self._resources.get(store)
        if found is None:
            raise WriteError(404, "NotFound", f"{store} is no longer served")
        return found


def _write_error(response: Response) -> WriteError:
    """The error to raise for a response's Status; a body that is no Status becomes the message."""
    try:
        status = _decode_status(response.body)
    except msgspec.DecodeError:
        status = _Status(message=response.body.decode("utf-8", "replace").strip())
    return WriteError(response.status, status.reason, status.message)
