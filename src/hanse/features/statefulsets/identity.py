"""Which set a report or a StatefulSet is about, and which cluster it comes from.

Names are reused: a set is deleted and submitted again, a cluster is rebuilt. Uids are not.
"""

from hanse.features.statefulsets.names import ACCEPTED, LOST, SET_UID, cluster_set_name
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.naming import IDENTITY_NAMESPACE
from hanse.model.objects import Meta, OwnerReference
from hanse.model.ownership import OWNER
from hanse.model.snapshot import Snapshot


def cluster_uid(snapshot: Snapshot) -> str:
    """The uid of namespace kube-system, which identifies this cluster; empty if it is not known."""
    found = snapshot.get(snapshot.local, Namespace, IDENTITY_NAMESPACE)
    return found.metadata.uid if found is not None else ""


def belongs_to(record: StatefulSetShares, submitted: SubmittedSet) -> bool:
    """Whether an ownerReference of the shares has the set's uid; also if they have no owner."""
    owners = record.metadata.owner_references
    return not owners or any(o.uid == submitted.uid for o in owners)


def owned_shares_meta(owner: StatefulSet | FederatedStatefulSet, shares: Meta | None) -> Meta:
    """The metadata to write for a set's shares: its name, its uid as annotation, and it as owner.

    Without an owner if `shares`, the present ones, are of this set and have none: the garbage
    collector takes it out when users delete a set with `--cascade=orphan`, which we may see before
    the deletion, and putting it back would delete all replicas.
    """
    meta, kind = owner.metadata, type(owner).kind
    reference = OwnerReference(
        api_version=kind.api_version, kind=kind.name, name=meta.name, uid=meta.uid
    )
    is_orphaned = shares is not None and not shares.owner_references and _is_of(shares, meta)
    return Meta(
        name=meta.name,
        namespace=meta.namespace,
        annotations={SET_UID: meta.uid},
        owner_references=() if is_orphaned else (reference,),
    )


def _is_of(shares: Meta, owner: Meta) -> bool:
    """Whether shares are of this set: by the annotated uid, else if they are not older than it.

    False if neither the annotation nor both creation times are there.
    """
    if SET_UID in shares.annotations:
        return shares.annotations[SET_UID] == owner.uid
    created, since = shares.creation_timestamp, owner.creation_timestamp
    return created is not None and since is not None and created >= since


def runs_for_deleted_set(
    stateful_set: StatefulSet,
    report: StatefulSetPart | None,
    submitted: SubmittedSet,
    record: StatefulSetShares,
) -> bool:
    """Whether a StatefulSet belongs to an earlier set of this name, which was deleted.

    By the annotated uid, if this cluster's live report is about that set and the record of shares
    is not older than the present set, which would mean that the earlier one was orphaned. Never one
    that was released.
    """
    meta = stateful_set.metadata
    uid = meta.annotations.get(SET_UID, "")
    if OWNER not in meta.labels or uid in ("", submitted.uid):
        return False
    if report is None or LOST in report.metadata.annotations:
        return False
    created, of_record = submitted.object.metadata.creation_timestamp, record.metadata
    orphaned = (
        created is not None
        and of_record.creation_timestamp is not None
        and of_record.creation_timestamp < created
    )
    return report.spec.set_uid == uid and report.spec.ended is None and not orphaned


def is_rebuilt(report: StatefulSetPart | None, submitted: SubmittedSet, snapshot: Snapshot) -> bool:
    """Whether this cluster was built anew: its report has another cluster uid and a share.

    False without a report, for a tombstone, another set's report or one without a cluster uid,
    while this cluster's uid is not known, and if users have accepted this cluster.
    """
    here = cluster_uid(snapshot)
    if report is None or not here or report.spec.ended is not None:
        return False
    before = report.spec
    if before.cluster_uid in ("", here) or before.set_uid != submitted.uid or not before.share:
        return False
    return report.metadata.annotations.get(ACCEPTED) != here


def rebuilt_message(submitted: SubmittedSet, snapshot: Snapshot) -> str:
    """The message that users have to accept a rebuilt cluster, or restore it, with the commands."""
    name, here = submitted.name, snapshot.local
    return (
        f"{here} is another cluster than the one that ran {cluster_set_name(name, here)}: its "
        "replicas would start with empty volumes. Restore volumes and StatefulSet, or start empty "
        f"with `hanse statefulsets accept {submitted.namespace}/{name} --cluster {here}`"
    )
