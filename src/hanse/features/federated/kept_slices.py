"""Slices that stand although no record explains them: it may be out of sight, or not written yet.

A supervisor that has just connected to a member does not know whether that was restored since, nor
whether anybody leads it: a record that it lacks may be written in a moment. One that has just
become the leader of a member finds slices of another leader there, who may have seen what our watch
has not delivered yet: so a record is gone once live reads find neither it nor an object that joins,
of which the leader of its cluster, if one lives, is about to write it.
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
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, ObjectRef, Wire
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
    left, without a valid origin, or whose record is seen to be invalid are not among them.
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
            asked = _reads_of(origin, federated)
            found = fresh_values(asked, snapshot)
            if _is_observed(asked[0], snapshot):
                continue
            if found is None:
                reads.update(dict.fromkeys(asked))
                times.add(MAX_READ_AGE)
            elif _is_gone(found[0], found[1], federated):
                continue
            else:
                times.add(RECORDED_AFTER)
        kept.append((origin, endpoint_slice))
    return KeptSlices(tuple(kept), min(times, default=None), fresh_read_questions(reads))


def _is_known(cluster: ClusterId, federated: FederatedName, snapshot: Snapshot) -> bool:
    """Whether a cluster's records are complete, and none of this Service has a newer schema."""
    complete = has_complete_records(cluster, snapshot)
    return complete and cluster not in unreadable_members(federated, snapshot)


def _reads_of(origin: Origin, federated: FederatedName) -> list[Read]:
    """The two live reads of the record that a slice was made from, and of its object."""
    kind = NativeService.kind if origin.kind == "NativeService" else Service.kind
    refs = (
        ObjectRef(ConfigMap.kind, record_name(federated, origin), SYSTEM),
        ObjectRef(kind, origin.name, origin.namespace),
    )
    return [
        Read(ClusterObjectRef(origin.cluster, ref), since=origin.since.isoformat()) for ref in refs
    ]


def _is_observed(record: Read, snapshot: Snapshot) -> bool:
    """Whether the ConfigMap of a record is observed: one that counts for nothing is not valid."""
    where, ref = record.target.where, record.target.ref
    return snapshot.get(where, ConfigMap, ref.name, ref.namespace) is not None


def _is_gone(record: Wire | None, obj: Wire | None, federated: FederatedName) -> bool:
    """Whether live reads show no record with the watched label, and no object that is to get one.

    The leader of its cluster writes one for an object that joins, unless it is an ExternalName or
    being deleted.
    """
    if record is not None and RECORD in record["metadata"].get("labels", {}):
        return False
    return obj is None or not _gets_record(obj, federated)


def _gets_record(obj: Wire, federated: FederatedName) -> bool:
    """Whether an object, as it was read, joins a federated Service and gets a record of it."""
    known = obj["metadata"]
    if "deletionTimestamp" in known or obj.get("spec", {}).get("type") == "ExternalName":
        return False
    meta = Meta(namespace=known.get("namespace", ""), annotations=known.get("annotations", {}))
    return federated in join_request(Service(metadata=meta)).joins


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
