"""Whose an object is, written on the object itself: the engine keeps no other memory."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from sys import intern

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.model.objects import ClusterId, K, Kind, Object, ObjectRef, object_ref
from hanse.model.ownership import (
    EPOCH,
    OURS,
    OWNER,
    OWNER_KEY,
    PAUSED,
    SOURCES,
    OwnerClaim,
    parse_owner_claim,
)
from hanse.model.plan import Key, parse_key

SHARED: ClusterId = ""
"""The cluster served by an object that any agent may write."""


class Owner(Struct, frozen=True, order=True):
    """The decision an object exists by: of which feature, which key, for which cluster."""

    feature: str
    key: Key
    serves: ClusterId
    led: bool = False
    """Whether a leader wrote it for the cluster, and not that cluster's own agent."""

    @property
    def label(self) -> str:
        """A label value that finds everything of this owner in one list."""
        by = "\nleader" if self.led else ""
        told = f"{self.feature}\n{self.key}\n{self.serves}{by}".encode()
        return f"{self.feature}-{blake2b(told, digest_size=8).hexdigest()}"

    def __str__(self) -> str:
        return f"{self.feature} {self.key} for {self.serves or 'all'}"


def with_owner(
    obj: K,
    owner: Owner,
    sources: frozenset[ClusterId] = frozenset(),
    epoch: int = 0,
    *,
    standing: Object | None = None,
) -> K:
    """The object as it is written: marked as the owner's, and as resting on its sources.

    What stands and is the owner's already says so as well as it ever will.
    """
    meta = obj.metadata
    if standing is not None and owner_of(standing) == owner:
        label = standing.metadata.labels[OWNER]
        claim = standing.metadata.annotations[OWNER_KEY]
    else:
        label, claim = owner.label, _claim_by(owner, object_ref(obj))
    marks = {OWNER_KEY: claim}
    if sources:
        marks[SOURCES] = ",".join(sorted(sources))
    if epoch:
        marks[EPOCH] = str(epoch)
    labels = {**replicable(meta.labels), OWNER: label}
    annotations = {**replicable(meta.annotations), **marks}
    return replace(obj, metadata=replace(meta, labels=labels, annotations=annotations))


def _claim_by(owner: Owner, ref: ObjectRef) -> str:
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
    """Who owns an object: None unless label, key and the object's own name all agree."""
    meta = obj.metadata
    label = meta.labels.get(OWNER)
    if not label:
        return None
    claim = meta.annotations.get(OWNER_KEY, "")
    words = intern(label), intern(claim)  # the cache keeps them: let it be those of the store
    return _owner_by(*words, type(obj).kind, intern(meta.namespace), intern(meta.name))


@lru_cache(maxsize=65536)
def _owner_by(label: str, told: str, kind: Kind, namespace: str, name: str) -> Owner | None:
    claim = parse_owner_claim(told)
    key = parse_key(claim.key) if claim else None
    if claim is None or key is None:
        return None
    key = Key(intern(key.topic), intern(key.name), intern(key.namespace))
    owner = Owner(intern(claim.feature), key, intern(claim.serves), claim.led)
    written_on = (claim.kind, claim.namespace, claim.name)
    if owner.label != label or written_on != (str(kind), namespace, name):
        return None
    return owner


def sources_of(obj: Object) -> frozenset[ClusterId]:
    """Whose observation an object rests on, as it says itself."""
    told = obj.metadata.annotations.get(SOURCES, "")
    return frozenset(told.split(",")) if told else frozenset()


def epoch_of(obj: Object) -> int:
    """The lease epoch an object was last written in."""
    told = obj.metadata.annotations.get(EPOCH, "")
    return int(told) if told.isdecimal() else 0


def is_paused(obj: Object) -> bool:
    """Whether a person asked us to keep our hands off."""
    return obj.metadata.annotations.get(PAUSED, "false") != "false"


def replicable(marks: dict[str, str]) -> dict[str, str]:
    """Labels or annotations without our bookkeeping, as they may go to another object."""
    if not any(name.startswith(OURS) for name in marks):
        return marks
    return {name: value for name, value in marks.items() if not name.startswith(OURS)}


class OwnershipIndex:
    """Every object that some key owns, found by feature and key, over all clusters."""

    def __init__(self) -> None:
        self._by_key: dict[
            tuple[str, Key], dict[tuple[ClusterId, object], tuple[Owner, Object]]
        ] = {}
        self._count: dict[tuple[ClusterId, str], int] = {}

    def update(self, where: ClusterId, before: Object | None, after: Object | None) -> None:
        """Follow one object's change."""
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
        """What a key owns anywhere, for whichever cluster it serves."""
        held = self._by_key.get((feature, key), {})
        return [(where, owner, obj) for (where, _), (owner, obj) in held.items()]

    def objects(self) -> Iterable[tuple[ClusterId, Object]]:
        """Everything that is owned by anyone, with where it is."""
        for held in self._by_key.values():
            for (where, _), (_, obj) in held.items():
                yield where, obj

    def count(self, where: ClusterId, feature: str) -> int:
        """How many objects a feature owns in a cluster."""
        return self._count.get((where, feature), 0)

    def items(self) -> Iterable[tuple[str, Key]]:
        """Every feature and key that owns anything."""
        return list(self._by_key)

    def forget(self, where: ClusterId) -> None:
        """Drop what is known of a cluster that is no longer connected."""
        for held in list(self._by_key.values()):
            for place, (_, obj) in list(held.items()):
                if place[0] == where:
                    self.update(where, obj, None)
