"""Kubernetes Events about what changed: only with a write that was needed, never on their own."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, KubeError
from hanse.model.kinds.core import Event, EventSource, ObjectReference
from hanse.model.objects import Meta, Object
from hanse.model.plan import EventRequest
from hanse.model.snapshot import Change, ObjectChange
from hanse.runtime.apply import WriteReport
from hanse.runtime.connection import Connection
from hanse.runtime.informers import ClusterInformers

REPORTER = "hanse"


class EventRecorder:
    """Writes Events; one that cannot be written is let go, since the condition tells the same."""

    def __init__(
        self,
        informers: ClusterInformers,
        clock: Clock,
        event_handlers: Sequence[Callable[[Change], None]],
    ) -> None:
        self._informers = informers
        self._clock = clock
        self._event_handlers = event_handlers

    async def tell(self, events: Iterable[EventRequest], written: Iterable[WriteReport]) -> None:
        """Tell the notices about objects that were really written in this pass."""
        changed = {w.place for w in written if w.result == "Done"}
        for notice in events:
            if (notice.recorded_with or notice.place) in changed:
                await self._send(notice)

    async def _send(self, notice: EventRequest) -> None:
        connection = self._informers.connections.get(notice.place.where)
        about = self._informers.snapshot().find(notice.place)
        if connection is None or (about is None and notice.recorded_with is None):
            return
        event = self._event(notice, about)
        for (
            follower
        ) in self._event_handlers:  # nobody watches Events: this is where they are heard of
            follower(ObjectChange(notice.place.where, None, event))
        try:
            await connection.api.create(event)
        except AlreadyExists:
            await self._repeat(connection, event)
        except KubeError:
            return

    async def _repeat(self, connection: Connection, event: Event) -> None:
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

    def _event(self, notice: EventRequest, about: Object | None) -> Event:
        now = self._clock.now().replace(microsecond=0)
        ref = notice.place.ref
        namespace = ref.namespace or "default"
        regarding = ObjectReference(
            api_version=ref.kind.api_version,
            kind=ref.kind.name,
            namespace=ref.namespace,
            name=ref.name,
            uid=about.metadata.uid if about is not None else "",
        )
        return Event(
            metadata=Meta(name=_name_of(notice), namespace=namespace),
            involved_object=regarding,
            reason=notice.reason,
            message=notice.message[:1024],
            type=notice.type,
            count=1,
            first_timestamp=now,
            last_timestamp=now,
            source=EventSource(component=REPORTER),
            reporting_component=REPORTER,
        )


def _name_of(notice: EventRequest) -> str:
    """One name per object, reason and message: the same again is counted, not repeated."""
    told = f"{notice.place}\n{notice.reason}\n{notice.message}".encode()
    return f"{notice.place.ref.name[:230]}.{blake2b(told, digest_size=8).hexdigest()}"
