"""Records Kubernetes Events: of plans only those with whose object something was written."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, KubeError
from hanse.model.kinds.core import Event, EventSource, ObjectReference
from hanse.model.objects import ClusterId, Meta, Object
from hanse.model.plan import EventRequest
from hanse.model.snapshot import Change, ObjectChange
from hanse.runtime.apply import WriteReport
from hanse.runtime.connection import Connection
from hanse.runtime.informers import ClusterInformers

REPORTER = "hanse"


class EventRecorder:
    """Writes Events; one that cannot be written is dropped, since a condition says the same."""

    def __init__(
        self,
        informers: ClusterInformers,
        clock: Clock,
        event_handlers: Sequence[Callable[[Change], None]],
    ) -> None:
        """`event_handlers` get each Event as a change before it is sent."""
        self._informers = informers
        self._clock = clock
        self._event_handlers = event_handlers

    async def record(
        self, requests: Iterable[EventRequest], reports: Iterable[WriteReport]
    ) -> None:
        """Record the Events whose object was written (Done), by the reports of this plan.

        If `recorded_with` names another object, the write of that one counts instead.
        """
        written = {report.target for report in reports if report.result == "Done"}
        for request in requests:
            if (request.recorded_with or request.target) in written:
                await self.record_one(request)

    async def record_one(self, request: EventRequest) -> None:
        """Create an Event, or increment the count of the same one; API errors are ignored.

        Does nothing if the cluster is not connected, or if the target is not known and the request
        has no `recorded_with`. Event handlers get it before it is sent.
        """
        connection = self._informers.connections.get(request.target.where)
        regarding = self._informers.snapshot().find(request.target)
        if connection is None or (regarding is None and request.recorded_with is None):
            return
        event = self._build_event(request, regarding)
        for handle in self._event_handlers:  # no informer watches Events
            handle(ObjectChange(request.target.where, None, event))
        try:
            await connection.api.create(event)
        except AlreadyExists:
            await self._increment_count(connection, event)
        except KubeError:
            return

    async def _increment_count(self, connection: Connection, event: Event) -> None:
        """Add 1 to a stored Event's count and set its last time.

        API errors, as conflicts, are ignored.
        """
        name, namespace = event.metadata.name, event.metadata.namespace
        try:
            known = await connection.api.read(Event, name, namespace)
            change = {
                "count": known.count + 1,
                "lastTimestamp": self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                "metadata": {"resourceVersion": known.metadata.resource_version},
            }
            await connection.api.patch(Event, name, namespace, change)
        except KubeError:
            return

    def _build_event(self, request: EventRequest, regarding: Object | None) -> Event:
        """The Event object of a request, with `regarding` as its involved object.

        Its message is cut to 1024 characters; that of a cluster-wide object is in namespace
        `default`.
        """
        now = self._clock.now().replace(microsecond=0)
        ref, local = request.target.ref, self._informers.snapshot().local
        return Event(
            metadata=Meta(name=_event_name(request, local), namespace=ref.namespace or "default"),
            involved_object=ObjectReference(
                api_version=ref.kind.api_version,
                kind=ref.kind.name,
                namespace=ref.namespace,
                name=ref.name,
                uid=regarding.metadata.uid if regarding is not None else "",
            ),
            reason=request.reason,
            message=request.message[:1024],
            type=request.type,
            count=1,
            first_timestamp=now,
            last_timestamp=now,
            source=EventSource(component=REPORTER),
            reporting_component=REPORTER,
            reporting_instance=local,
        )


def _event_name(request: EventRequest, reporter: ClusterId) -> str:
    """The name of an Event: the object's, cut, and a hash of object, reason, message and reporter.

    So a repeated Event has the same name, and is counted.
    """
    content = f"{request.target}\n{request.reason}\n{request.message}\n{reporter}".encode()
    return f"{request.target.ref.name[:230]}.{blake2b(content, digest_size=8).hexdigest()}"
