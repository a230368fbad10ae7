"""Carries out actions: step by step in each destination, each write with its precondition."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from hanse.kube.errors import (
    AlreadyExists,
    ApiError,
    BadCredentials,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
)
from hanse.model.facts import WriteResult
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, Wire
from hanse.runtime.diff import Action, Create, Delete, Update, is_omission, target_ref
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.ownership import owner_of


class Fence(Protocol):
    """Whether we may still write, as a member's leader or as this agent, at this very moment."""

    def may_write(self, member: ClusterId | None) -> bool: ...


class WriteReport(Struct, frozen=True):
    """How one action ended."""

    action: Action
    result: WriteResult
    message: str = ""
    error: KubeError | None = None
    left: str = ""
    """The version that a write left behind; empty where nothing was left."""

    @property
    def place(self) -> ClusterObjectRef:
        return target_ref(self.action)


class Writer:
    """The only thing in Hanse that writes to clusters."""

    def __init__(
        self, informers: ClusterInformers, fence: Fence, count: Callable[[WriteReport], None]
    ) -> None:
        self._informers = informers
        self._fence = fence
        self._count = count

    async def carry_out(
        self, actions: Sequence[Action], ended: Callable[[ClusterId], None] = lambda _: None
    ) -> list[WriteReport]:
        """Do all of it as far as it goes; a failure stops its own destination alone.

        `ended` is told of each destination with which nothing more is to be done.
        """
        by_destination: dict[ClusterId, list[Action]] = {}
        for action in actions:
            by_destination.setdefault(action.where, []).append(action)

        async def there(where: ClusterId, several: list[Action]) -> list[WriteReport]:
            done = await self._in_steps(several)
            ended(where)
            return done

        parts = await _all([there(where, several) for where, several in by_destination.items()])
        return [written for several in parts for written in several]

    async def _in_steps(self, actions: Iterable[Action]) -> list[WriteReport]:
        done: list[WriteReport] = []
        steps: dict[int, list[Action]] = {}
        for action in actions:
            steps.setdefault(action.step, []).append(action)
        refused = False
        for step in sorted(steps):
            due = [a for a in steps[step] if not refused or is_omission(a)]
            ended = await _all([self._write(action) for action in due])
            done.extend(ended)
            if any(w.result == "Failed" for w in ended):
                break
            refused = refused or any(w.result != "Done" for w in ended)
        return done

    async def _write(self, action: Action) -> WriteReport:
        if not self._fence.may_write(action.as_leader_of):
            led = action.as_leader_of or "this agent's replicas"
            written = WriteReport(action, "Fenced", f"no longer the leader of {led}")
        else:
            written = await self._send(action)
        self._count(written)
        return written

    async def _send(self, action: Action) -> WriteReport:
        connection = self._informers.connections.get(action.where)
        if connection is None:
            return WriteReport(action, "Failed", f"{action.where} is not connected")
        left = ""
        try:
            match action:
                case Create(where, obj):
                    made = await connection.api.create(obj)
                    left = made.metadata.resource_version
                    self._informers.wrote(where, made)
                case Update(where, base):
                    meta = base.metadata
                    after = await connection.api.patch(
                        type(base),
                        meta.name,
                        meta.namespace,
                        with_preconditions(action.change, base),
                        subresource=action.subresource,
                    )
                    left = after.metadata.resource_version
                    if action.subresource != "scale":
                        self._informers.wrote(where, after)
                case Delete():
                    await self._delete(action, connection.api)
        except AlreadyExists as error:
            return await self._found_another(action, error)
        except NotFound as error:
            if isinstance(action, Update):  # gone meanwhile: its deletion is about to be told
                return WriteReport(action, "Failed", str(error), Conflict(error.status))
            return WriteReport(action, result_of(error), str(error), error)
        except KubeError as error:
            return WriteReport(action, result_of(error), str(error), error)
        return WriteReport(action, "Done", left=left)

    async def _delete(self, action: Delete, api: Any) -> None:
        meta = action.base.metadata
        try:
            left: Object | None = await api.delete(
                type(action.base),
                meta.name,
                meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version if action.as_seen else "",
            )
        except NotFound:
            left = None
        if left is None:
            self._informers.deleted(action.where, action.base)
        else:
            self._informers.wrote(action.where, left)

    async def _found_another(self, action: Action, error: AlreadyExists) -> WriteReport:
        """A create found an object that we had not seen: look whose it is."""
        assert isinstance(action, Create), "only creates find something"
        obj, connection = action.object, self._informers.connections.get(action.where)
        if connection is None:
            return WriteReport(action, "Failed", f"{action.where} is not connected")
        try:
            found = await connection.api.read(type(obj), obj.metadata.name, obj.metadata.namespace)
        except KubeError as failed:
            return WriteReport(action, "Failed", str(failed), failed)
        self._informers.wrote(action.where, found)
        if owner_of(found) == owner_of(obj):
            return WriteReport(action, "Failed", "it was there already", error)
        message = f"{target_ref(action).ref} exists already and was not made for this"
        return WriteReport(action, "Foreign", message)


def with_preconditions(change: Wire, base: Object) -> Wire:
    """The change, to be refused unless the object is still the one that was seen."""
    meta = base.metadata
    precondition = {"resourceVersion": meta.resource_version, "uid": meta.uid}
    return {**change, "metadata": {**change.get("metadata", {}), **precondition}}


def result_of(error: KubeError) -> WriteResult:
    """What an error means for the object: refused for what it is, forbidden, or just not yet."""
    match error:
        case Forbidden() | BadCredentials():
            return "Forbidden"
        case Conflict():
            return "Failed"
        case Invalid() | NotFound():
            return "Refused"
        case ApiError() | KubeError():
            return "Failed"


async def _all(several: Sequence[Any]) -> list[Any]:
    """Every result in order; most plans have one write, which needs no task of its own."""
    if len(several) == 1:
        return [await several[0]]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one, name="write") for one in several]
    return [task.result() for task in tasks]


class NoFence:
    """For an agent that is alone and leads nobody."""

    def may_write(self, member: ClusterId | None) -> bool:
        return member is None
