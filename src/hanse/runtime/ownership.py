"""Ownership of objects, kept in a label and annotations of the objects and nowhere else."""

from collections.abc import Container, Iterable
from functools import lru_cache
from sys import intern

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.model.numbers import parse_number
from hanse.model.objects import ClusterId, K, Kind, Object, ObjectRef, object_ref
from hanse.model.ownership import (
    EPOCH,
    OWN_PREFIX,
    OWNER,
    OWNER_KEY,
    SOURCES,
    OwnerClaim,
    owner_label,
    parse_owner_claim,
)
from hanse.model.plan import Key, parse_key

SHARED: ClusterId = ""
"""The cluster served by an object that any agent may write."""


class Owner(Struct, frozen=True, order=True):
    """The feature and key that an object exists by, and the cluster that it is for."""

    feature: str
    key: Key
    serves: ClusterId
    led: bool = False
    """Whether a leader wrote it for the cluster, and not that cluster's own agent."""

    @property
    def label(self) -> str:
        """The value of label hanse.dev/owner."""
        return owner_label(self.feature, str(self.key), self.serves, led=self.led)

    def __str__(self) -> str:
        """`feature topic/namespace/name for cluster`, or `for all`."""
        return f"{self.feature} {self.key} for {self.serves or 'all'}"


def with_owner(
    obj: K,
    owner: Owner,
    sources: frozenset[ClusterId] = frozenset(),
    epoch: int = 0,
    *,
    observed: Object | None = None,
) -> K:
    """The object as it is written: labelled and annotated with owner, sources and epoch.

    Other marks under hanse.dev/ are dropped; there is no annotation for no sources or epoch 0. If
    `observed` has this owner already, its label and owner key are reused.
    """
    meta = obj.metadata
    if observed is not None and owner_of(observed) == owner:
        label = observed.metadata.labels.get(OWNER) or owner.label
        claim = observed.metadata.annotations[OWNER_KEY]
    else:
        label, claim = owner.label, _encode_claim(owner, object_ref(obj))
    ours = {OWNER_KEY: claim}
    if sources:
        ours[SOURCES] = ",".join(sorted(sources))
    if epoch:
        ours[EPOCH] = str(epoch)
    labels = {**replicable(meta.labels), OWNER: label}
    annotations = {**replicable(meta.annotations), **ours}
    return replace(obj, metadata=replace(meta, labels=labels, annotations=annotations))


def _encode_claim(owner: Owner, ref: ObjectRef) -> str:
    """The owner key of an object as the JSON of its annotation."""
    claim = OwnerClaim(
        owner.feature,
        str(owner.key),
        owner.serves,
        str(ref.kind),
        ref.namespace,
        ref.name,
        owner.led,
    )
    return msgspec.json.encode(claim).decode()


def owner_of(obj: Object) -> Owner | None:
    """The owner of an object; None unless label, annotation and the object's own name agree.

    An object that only lost its label is still ours: it would be orphaned for good.
    """
    meta = obj.metadata
    label, claim = meta.labels.get(OWNER, ""), meta.annotations.get(OWNER_KEY, "")
    if not claim:
        return None
    # the cache keeps its arguments: interned, they are the strings of the store
    return _parse_owner(
        intern(label), intern(claim), type(obj).kind, intern(meta.namespace), intern(meta.name)
    )


@lru_cache(maxsize=65536)
def _parse_owner(label: str, text: str, kind: Kind, namespace: str, name: str) -> Owner | None:
    """The owner that an annotation claims; None if it is invalid or another object's.

    The claim must match the object's owner label, if it has one, and its kind, namespace and name,
    unlike that of a copy.
    """
    claim = parse_owner_claim(text)
    key = parse_key(claim.key) if claim else None
    if claim is None or key is None:
        return None
    key = Key(intern(key.topic), intern(key.name), intern(key.namespace))
    owner = Owner(intern(claim.feature), key, intern(claim.serves), claim.led)
    written_on = (claim.kind, claim.namespace, claim.name)
    if label not in ("", owner.label) or written_on != (str(kind), namespace, name):
        return None
    return owner


def sources_of(obj: Object) -> frozenset[ClusterId]:
    """The source clusters in an object's annotation; empty without one."""
    value = obj.metadata.annotations.get(SOURCES, "")
    return frozenset(value.split(",")) if value else frozenset()


def epoch_of(obj: Object) -> int:
    """The epoch of the lease under which an object was last written; 0 without a valid one."""
    value = obj.metadata.annotations.get(EPOCH, "")
    return parse_number(value) or 0


def replicable(marks: dict[str, str]) -> dict[str, str]:
    """Labels or annotations without those under hanse.dev/, as they may go to another object."""
    if not marks:
        return marks
    return {name: value for name, value in marks.items() if not name.startswith(OWN_PREFIX)}


class OwnershipIndex:
    """The owned objects of all clusters, indexed by feature and key."""

    def __init__(self) -> None:
        self._by_key: dict[
            tuple[str, Key], dict[tuple[ClusterId, object], tuple[Owner, Object]]
        ] = {}
        self._count: dict[tuple[ClusterId, str], int] = {}

    def update(self, where: ClusterId, before: Object | None, after: Object | None) -> None:
        """Index an object under its owner after a change, and no longer under another one before.

        None is an absent object; objects without a valid owner are not indexed.
        """
        old = owner_of(before) if before is not None else None
        new = owner_of(after) if after is not None else None
        if before is not None and old is not None and old != new:
            place = (where, object_ref(before))
            held = self._by_key.get((old.feature, old.key), {})
            if held.pop(place, None) is not None:
                self._count[where, old.feature] -= 1
            if not held:
                self._by_key.pop((old.feature, old.key), None)
        if after is not None and new is not None:
            place = (where, object_ref(after))
            held = self._by_key.setdefault((new.feature, new.key), {})
            if place not in held:
                self._count[where, new.feature] = self.count(where, new.feature) + 1
            held[place] = (new, after)

    def of(self, feature: str, key: Key) -> Iterable[tuple[ClusterId, Owner, Object]]:
        """The objects that a key owns in any cluster."""
        held = self._by_key.get((feature, key), {})
        return [(where, owner, obj) for (where, _), (owner, obj) in held.items()]

    def objects(self) -> Iterable[tuple[ClusterId, Object]]:
        """Every owned object, with its cluster."""
        for held in self._by_key.values():
            for (where, _), (_, obj) in held.items():
                yield where, obj

    def led_sources(self, clusters: Container[ClusterId]) -> set[ClusterId]:
        """The source clusters of the objects in these clusters that a leader wrote."""
        return {
            source
            for held in self._by_key.values()
            for (where, _), (owner, obj) in held.items()
            if owner.led and where in clusters
            for source in sources_of(obj)
        }

    def count(self, where: ClusterId, feature: str) -> int:
        """How many objects a feature owns in a cluster."""
        return self._count.get((where, feature), 0)

    def items(self) -> Iterable[tuple[str, Key]]:
        """Every feature and key that owns anything."""
        return list(self._by_key)
