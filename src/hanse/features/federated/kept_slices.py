"""Slices that stand although no record explains them: it may be out of sight, or not written yet.

A supervisor that has just connected to a member does not know whether that was restored since, nor
whether anybody leads it: a record that it lacks may be written in a moment. One that has just
become the leader of a member finds slices of another leader there, who may have seen what our watch
has not delivered yet: so a record is gone once a live read does not find it.
"""

from collections.abc import Container
from datetime import datetime, timedelta

from msgspec import Struct

from hanse.features.federated.join_requests import FederatedName, Joinable, join_request
from hanse.features.federated.members import (
    has_complete_records,
    has_left,
    is_led,
    unreadable_members,
)
from hanse.features.federated.names import RECORD
from hanse.features.federated.records import Identity, Origin, record_name
from hanse.features.federated.slices import GENERATED_SLICES, slice_origin
from hanse.model.facts import ClusterState, is_recent
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import SYSTEM, NativeService
from hanse.model.objects import ClusterId, ClusterObjectRef, ObjectRef
from hanse.model.plan import Question, Read
from hanse.model.questions import MAX_READ_AGE, fresh_read_questions, fresh_values
from hanse.model.snapshot import Snapshot

RECORDED_AFTER = timedelta(seconds=30)
"""How long a leader may take to be elected, and to write the records of a member."""


class KeptSlices(Struct, frozen=True):
    """The slices that stand, by what they are the endpoints of, and until when that is certain."""

    slices: tuple[tuple[Origin, EndpointSlice], ...]
    judged_again_after: timedelta | None
    """When the next of their records would have been written, or is read; None if no time tells."""
    questions: tuple[Question, ...] = ()
    """The reads of records that are to be confirmed as gone."""


def kept_slices(
    federated: FederatedName,
    member: ClusterId,
    recorded: Container[Identity],
    snapshot: Snapshot,
) -> KeptSlices:
    """The slices in a member whose record is not known now, and is not known to be gone.

    With the live reads that decide it and the time to judge again. Slices of clusters that have
    left, or without a valid origin, are not among them.
    """
    kept, times, reads = [], set[timedelta](), dict[Read, None]()
    for endpoint_slice in snapshot.by(member, GENERATED_SLICES, str(federated)):
        origin = slice_origin(endpoint_slice)
        if origin is None or origin.identity in recorded or has_left(origin.cluster, snapshot):
            continue
        made = endpoint_slice.metadata.creation_timestamp
        awaited = _until_recorded(origin, federated, made, snapshot)
        if awaited is not None:
            times.add(awaited)
        elif _is_known(origin.cluster, federated, snapshot):
            read = _read_of_record(origin, federated)
            if _is_gone(read, snapshot):
                continue
            reads[read] = None
            times.add(MAX_READ_AGE)
        kept.append((origin, endpoint_slice))
    return KeptSlices(tuple(kept), min(times, default=None), fresh_read_questions(reads))


def _is_known(cluster: ClusterId, federated: FederatedName, snapshot: Snapshot) -> bool:
    """Whether a cluster's records are complete, and none of this Service has a newer schema."""
    complete = has_complete_records(cluster, snapshot)
    return complete and cluster not in unreadable_members(federated, snapshot)


def _read_of_record(origin: Origin, federated: FederatedName) -> Read:
    """The live read of the record that a slice was made from."""
    record = ObjectRef(ConfigMap.kind, record_name(federated, origin), SYSTEM)
    return Read(ClusterObjectRef(origin.cluster, record), since=origin.since.isoformat())


def _is_gone(read: Read, snapshot: Snapshot) -> bool:
    """Whether a live read shows that a record is gone, or has lost the label that is watched.

    True, too, if its ConfigMap is observed: then it is not valid. False without a fresh answer.
    """
    place = read.target
    if snapshot.get(place.where, ConfigMap, place.ref.name, place.ref.namespace) is not None:
        return True
    answers = fresh_values([read], snapshot)
    if answers is None:
        return False
    [found] = answers
    return found is None or RECORD not in found["metadata"].get("labels", {})


def _until_recorded(
    origin: Origin, federated: FederatedName, made: datetime | None, snapshot: Snapshot
) -> timedelta | None:
    """How long to wait for the record of a member Service after its cluster connected.

    None: no wait. There is no wait once that time is over, for a slice made after the connection,
    and in a led member whose object does not join.
    """
    state = snapshot.fact(ClusterState, origin.cluster)
    if state is None or not is_recent(state.since, snapshot.now, RECORDED_AFTER):
        return None
    if made is not None and made > state.since:
        return None
    if is_led(origin.cluster, snapshot) and snapshot.synced(origin.cluster):
        place = (origin.name, origin.namespace)
        obj: Joinable | None = snapshot.get(origin.cluster, Service, *place)
        if origin.kind == "NativeService":
            obj = snapshot.get(origin.cluster, NativeService, *place)
        if obj is None or federated not in join_request(obj).joins:
            return None
    return RECORDED_AFTER - (snapshot.now - state.since)
