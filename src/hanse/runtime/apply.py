"""Applies actions: step by step in each cluster, every write with its precondition."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, assert_never

from msgspec import Struct

from hanse.kube.clock import Clock
from hanse.kube.concurrency_limit import BEFORE_SENDING
from hanse.kube.errors import (
    AlreadyExists,
    ApiError,
    BadCredentials,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Unanswered,
)
from hanse.kube.requests import JsonPatch
from hanse.model.facts import PausedObject, WriteOutcome, WriteResult
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, Wire
from hanse.model.ownership import OWNER
from hanse.model.plan import EntryChange
from hanse.runtime.actions import Action, Create, Delete, Diff, Update, is_omission, target_ref
from hanse.runtime.api import Api
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.ownership import owner_of
from hanse.runtime.workqueue import Item


class _LeadershipLost(Exception):
    """Raised instead of sending a write."""


class Fence(Protocol):
    """Decides at the moment of a write whether this agent still may send it."""

    def may_write(self, member: ClusterId | None) -> bool:
        """Whether we may write now as the leader of a member, or with None as this agent.

        False if another replica or another supervisor may be the leader by now.
        """
        ...


class NoFence:
    """The fence of an agent that has no replicas and leads no member."""

    def may_write(self, member: ClusterId | None) -> bool:
        """True for None; False for every member, as without elections this agent leads none."""
        return member is None


class WriteReport(Struct, frozen=True):
    """How one action ended."""

    action: Action
    result: WriteResult
    message: str = ""
    error: KubeError | None = None
    resource_version: str = ""
    """The version that a create or update returned; else empty."""

    @property
    def target(self) -> ClusterObjectRef:
        """The object that the action writes, with its cluster."""
        return target_ref(self.action)


class Writer:
    """The only part of Hanse that writes to clusters."""

    def __init__(
        self,
        informers: ClusterInformers,
        fence: Fence,
        on_write: Callable[[WriteReport], None],
    ) -> None:
        """`fence` is asked before each write is sent; `on_write` gets every report."""
        self._informers = informers
        self._fence = fence
        self._on_write = on_write

    async def apply(
        self, actions: Sequence[Action], finished: Callable[[ClusterId], None] = lambda _: None
    ) -> list[WriteReport]:
        """Send actions, clusters in parallel, and return the reports of those that were tried.

        Within a cluster they are sent step by step; a failure stops the actions of its own cluster
        alone. `finished` is called with each cluster once its last write has ended.
        """
        by_cluster: dict[ClusterId, list[Action]] = {}
        for action in actions:
            by_cluster.setdefault(action.where, []).append(action)

        async def apply_to(where: ClusterId, several: list[Action]) -> list[WriteReport]:
            """Apply one cluster's actions, then call `finished` with it; returns the reports."""
            reports = await self._apply_in_steps(several)
            finished(where)
            return reports

        parts = await _gather([apply_to(where, several) for where, several in by_cluster.items()])
        return [report for reports in parts for report in reports]

    async def _apply_in_steps(self, actions: Iterable[Action]) -> list[WriteReport]:
        """Send the actions of one cluster step after step, and return the reports of those tried.

        The writes of one step run at the same time. After a step with a failed write nothing is
        sent; after one with any other result than Done only deletions by omission are.
        """
        reports: list[WriteReport] = []
        steps: dict[int, list[Action]] = {}
        for action in actions:
            steps.setdefault(action.step, []).append(action)
        refused = False
        for step in sorted(steps):
            due = [a for a in steps[step] if not refused or is_omission(a)]
            step_reports = await _gather([self._write_if_leader(action) for action in due])
            reports.extend(step_reports)
            if any(report.result == "Failed" for report in step_reports):
                break
            refused = refused or any(report.result != "Done" for report in step_reports)
        return reports

    async def _write_if_leader(self, action: Action) -> WriteReport:
        """Send an action; Fenced, unsent, if we are no active replica or do not lead its member.

        The fence is checked for every action, and again as the client sends it; `on_write` gets
        every report.
        """

        def check_fence() -> None:
            """Raise `_LeadershipLost` if the fence does not let us write now."""
            if not self._fence.may_write(action.as_leader_of):
                raise _LeadershipLost

        token = BEFORE_SENDING.set(check_fence)  # once more: a client may keep requests back
        try:
            check_fence()
            report = await self._send(action)
        except _LeadershipLost:
            led = action.as_leader_of or "this agent's replicas"
            report = WriteReport(action, "Fenced", f"no longer the leader of {led}")
        finally:
            BEFORE_SENDING.reset(token)
        self._on_write(report)
        return report

    async def _send(self, action: Action) -> WriteReport:
        """Send one write and observe its answer in the stores; a `KubeError` becomes a report.

        `Failed`, unsent, if the cluster is not connected, or is being left and the write would make
        an object ours that leaving deletes. A create that finds an object is judged by
        `_report_existing`; a change since the observation is `Failed` with Conflict, other errors
        are as in `result_of`.
        """
        connection = self._informers.connections.get(action.where)
        if connection is None:
            return _not_connected(action)
        claims = _makes_ours(action)
        if claims and connection.leaving and self._is_withdrawn(action):
            return WriteReport(action, "Failed", f"{action.where} is being left")
        version = ""
        connection.claims_under_way += claims
        try:
            match action:
                case Create(where, obj):
                    created = await connection.api.create(obj)
                    version = created.metadata.resource_version
                    self._informers.observe_write(where, created)
                case Update():
                    version = await self._patch(action, connection.api)
                case Delete():
                    await self._delete(action, connection.api)
        except AlreadyExists as error:
            return await self._report_existing(action, error)
        except KubeError as error:
            if claims and isinstance(error, Unanswered):
                connection.expect_late_claim()
            if isinstance(error, ApiError) and _has_changed_meanwhile(error, action):
                return WriteReport(action, "Failed", str(error), Conflict(error.status))
            return WriteReport(action, result_of(error), str(error), error)
        finally:
            connection.claims_under_way -= claims
        return WriteReport(action, "Done", resource_version=version)

    def _is_withdrawn(self, action: Action) -> bool:
        """Whether leaving the action's cluster would delete the object that is written.

        In the local cluster only if it is written as that cluster's leader, elsewhere always.
        """
        return action.as_leader_of == action.where or action.where != self._informers.local

    async def _patch(self, action: Update, api: Api) -> str:
        """Patch an object and return its new resourceVersion.

        It is a JSON patch of one entry if the action has one, else a merge patch with
        resourceVersion and uid as preconditions. The store observes the answer, except that of the
        scale subresource.
        """
        base = action.base
        patched = await api.patch(
            type(base),
            base.metadata.name,
            base.metadata.namespace,
            with_preconditions(action.change, base)
            if action.entry is None
            else entry_patch(action.entry, base),
            subresource=action.subresource,
        )
        if action.subresource != "scale":
            self._informers.observe_write(action.where, patched)
        return patched.metadata.resource_version

    async def _delete(self, action: Delete, api: Api) -> None:
        """Delete the object with this uid; if `as_seen`, only in the version seen.

        An absent object counts as deleted. The store observes the deletion, or the object that
        finalizers hold.
        """
        meta = action.base.metadata
        try:
            remaining: Object | None = await api.delete(
                type(action.base),
                meta.name,
                meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version if action.as_seen else "",
            )
        except NotFound:
            remaining = None
        if remaining is None:
            self._informers.observe_deletion(action.where, action.base)
        else:  # finalizers hold it
            self._informers.observe_write(action.where, remaining)

    async def _report_existing(self, action: Action, error: AlreadyExists) -> WriteReport:
        """Report a create that found an object, which is read live, and observed by the store.

        `Failed` with AlreadyExists, to be planned again, if it has the owner that was to be
        written, or neither has one; else `Foreign`. Also `Failed` if it cannot be read, or its
        cluster is no longer connected.
        """
        assert isinstance(action, Create), "only creates find an object"
        obj, connection = action.object, self._informers.connections.get(action.where)
        if connection is None:
            return _not_connected(action)
        try:
            found = await connection.api.read(type(obj), obj.metadata.name, obj.metadata.namespace)
        except KubeError as failed:
            return WriteReport(action, "Failed", str(failed), failed)
        self._informers.observe_write(action.where, found)
        if owner_of(found) == owner_of(obj):
            return WriteReport(action, "Failed", "it was there already", error)
        message = f"{target_ref(action).ref} exists already and was not made for this"
        return WriteReport(action, "Foreign", message)


def _makes_ours(action: Action) -> bool:
    """Whether a write creates an object or sets the owner label, so that it may become ours."""
    match action:
        case Create():
            return True
        case Update():
            return OWNER in action.change.get("metadata", {}).get("labels", {})
        case Delete():
            return False
        case _:
            assert_never(action)


def _has_changed_meanwhile(error: ApiError, action: Action) -> bool:
    """Whether an error says that the object is not as it was observed, so that it is planned again.

    True for NotFound of an update, or of a create that names the created object itself, and for
    Invalid of an entry's patch, of which a test failed; not for Conflict, which is one already.
    """
    match error:
        case NotFound():
            return isinstance(action, Update) or _is_about_itself(error, action)
        case Invalid():
            return isinstance(action, Update) and action.entry is not None
        case _:
            return False


def _is_about_itself(error: NotFound, action: Action) -> bool:
    """Whether a create was answered with a NotFound that names the object to be created.

    An API server does that for a RoleBinding whose Role is so new that it cannot compare its rights
    with the writer's yet.
    """
    if not isinstance(action, Create):
        return False
    obj = action.object
    return f'{type(obj).kind.definition} "{obj.metadata.name}" not found' in str(error)


def _not_connected(action: Action) -> WriteReport:
    """The report `Failed` of an action that was not sent, as its cluster is not connected."""
    return WriteReport(action, "Failed", f"{action.where} is not connected")


def with_preconditions(change: Wire, base: Object) -> Wire:
    """The merge patch with resourceVersion and uid of the observed object as preconditions."""
    meta = base.metadata
    precondition = {"resourceVersion": meta.resource_version, "uid": meta.uid}
    return {**change, "metadata": {**change.get("metadata", {}), **precondition}}


def entry_patch(change: EntryChange, base: Object) -> JsonPatch:
    """The JSON patch that sets the changed fields of one entry; those that become None are removed.

    It fails unless the object's uid and the entry's fields before are as observed.
    """
    entry = "/" + "/".join(change.path)
    tests = {f"{entry}/{field}": value for field, value in change.before.items()}
    tests["/metadata/uid"] = base.metadata.uid
    return (
        *({"op": "test", "path": path, "value": value} for path, value in tests.items()),
        *(
            {"op": "add", "path": f"{entry}/{field}", "value": value}
            if value is not None
            else {"op": "remove", "path": f"{entry}/{field}"}
            for field, value in change.after.items()
            if value != change.before.get(field)
        ),
    )


def result_of(error: KubeError) -> WriteResult:
    """`Forbidden` for missing rights or rejected credentials, `Refused` for Invalid and NotFound.

    All other errors are `Failed`: they may pass.
    """
    match error:
        case Forbidden() | BadCredentials():
            return "Forbidden"
        case Conflict():
            return "Failed"
        case Invalid() | NotFound():
            return "Refused"
        case ApiError() | KubeError():
            return "Failed"


async def _gather(several: Sequence[Any]) -> list[Any]:
    """Await all at the same time and return their results in order; an error cancels the others."""
    if len(several) == 1:
        return [await several[0]]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(awaitable, name="write") for awaitable in several]
    return [task.result() for task in tasks]


class WriteOutcomes:
    """Keeps a fact for each object that could not be written, or that a person paused."""

    def __init__(self, informers: ClusterInformers, clock: Clock) -> None:
        self._informers = informers
        self._clock = clock
        self._by_item: dict[Item, set[ClusterObjectRef]] = {}
        self._paused_by_item: dict[Item, frozenset[ClusterObjectRef]] = {}

    def record(
        self,
        item: Item,
        found: Diff,
        reports: Iterable[WriteReport],
        tried: set[ClusterObjectRef],
    ) -> None:
        """Put and drop `WriteOutcome` and `PausedObject` facts after one plan of a key.

        Obstacles of the diff, and reports that are not Done, put an outcome, but for reports of
        Conflict or AlreadyExists: the key is planned again. The key's other outcomes are dropped,
        except that of an action that is planned and was not `tried`, because it is backed off.
        """
        known = item in self._by_item or item in self._paused_by_item
        if not (known or found.actions or found.obstacles or found.paused):
            return  # as of almost every key of a settled fleet
        self._record_pauses(item, found.paused)
        failures: dict[ClusterObjectRef, tuple[WriteResult, str]] = {
            obstacle.target: (obstacle.result, obstacle.message) for obstacle in found.obstacles
        }
        for report in reports:
            if report.result != "Done" and not isinstance(report.error, Conflict | AlreadyExists):
                failures[report.target] = (report.result, report.message)
        before = self._by_item.pop(item, set())
        planned = {target_ref(action) for action in found.actions}
        pending = {place for place in planned if place in before and place not in tried}
        for place in sorted(before - failures.keys() - pending):
            self._informers.drop_fact(WriteOutcome, place)
        for place, (result, message) in failures.items():
            self._put_outcome(place, result, message)
        if kept := failures.keys() | pending:
            self._by_item[item] = set(kept)

    def has_failed_in(self, cluster: ClusterId) -> bool:
        """Whether a write to a cluster last ended as Failed or Forbidden, which may pass soon."""
        return any(
            outcome.target.where == cluster and outcome.result in ("Failed", "Forbidden")
            for outcome in self._informers.facts.all(WriteOutcome)
        )

    def _record_pauses(self, item: Item, paused: frozenset[ClusterObjectRef]) -> None:
        """Put `PausedObject` for each object that is paused now, and drop those of the plan before.

        `paused` has all that this plan of the key found.
        """
        before = self._paused_by_item.pop(item, frozenset())
        for place in sorted(before - paused):
            self._informers.drop_fact(PausedObject, place)
        for place in sorted(paused - before):
            self._informers.put_fact(PausedObject(place))
        if paused:
            self._paused_by_item[item] = paused

    def _put_outcome(self, place: ClusterObjectRef, result: WriteResult, message: str) -> None:
        """Put a `WriteOutcome` fact if its result or message differs from the known one.

        A `Failed` after a `Failed` changes nothing, whatever its message.
        """
        known = self._informers.facts.get(WriteOutcome, place)
        if known is not None and known.result == result == "Failed":
            return  # a failing server's message may differ each time: no reason to enqueue a key
        if known is None or (known.result, known.message) != (result, message):
            self._informers.put_fact(WriteOutcome(place, result, message, self._clock.now()))
