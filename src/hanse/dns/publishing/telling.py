"""What keeps names from being published, told on the object that they are names of; pure."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from hanse.model.claims import claim_on
from hanse.model.conditions import Condition, condition, find, merged
from hanse.model.facts import Outcome
from hanse.model.keys import Key
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.names import PublishedName
from hanse.model.objects import Object, Place, ref_of
from hanse.model.plan import Desired, Notice, Patch
from hanse.model.snapshot import Snapshot

PUBLISHED = "Published"
"""The condition of what has names that are to be published; told once one cannot be."""

TOLD_ON: tuple[type[Object], ...] = (ServiceImport, GlobalService)
TAKEN = "NameTaken"
_HINDERED = ("Refused", "Forbidden")
_MOST = 1024


class _Fault(Struct, frozen=True):
    """One name that is not published, and why."""

    name: str
    reason: str
    why: str


def told(
    key: Key, desired: Sequence[Desired], seen: Snapshot
) -> tuple[tuple[Patch, ...], tuple[Notice, ...]]:
    """The condition of whose names these are, with an Event when it turns bad.

    Nothing is told of what always went well, nor while it is not known how names stand.
    """
    concerned = _concerned(key, seen)
    if concerned is None:
        return (), ()
    standing = find(concerned.status.conditions, PUBLISHED)
    wanted = _condition(key, desired, seen, standing)
    if wanted is None:
        return (), ()
    place = Place(seen.local, ref_of(concerned))
    after = merged(concerned.status.conditions, [wanted], seen.now, concerned.metadata.generation)
    patch = Patch(place, {"status": {"conditions": msgspec.to_builtins(after)}}, "status")
    turned = standing is None or standing.reason != wanted.reason
    bad = wanted.status == "False" and turned
    notices = (Notice(place, wanted.reason, wanted.message, "Warning"),) if bad else ()
    return (patch,), notices


def _concerned(key: Key, seen: Snapshot) -> ServiceImport | GlobalService | None:
    match key.topic:
        case "services.service":
            return seen.get(seen.local, ServiceImport, key.name, key.namespace)
        case "gslb.host":
            return seen.get(seen.local, GlobalService, key.name, NAMESPACE)
        case _:
            return None


def _condition(
    key: Key, desired: Sequence[Desired], seen: Snapshot, standing: Condition | None
) -> Condition | None:
    faults = [fault for one in desired for fault in _faults(key, one, seen)]
    if faults:
        first, more = faults[0], len(faults) - 1
        others = f" (and {more} more of its names)" if more else ""
        text = f"{first.name} is not published{others}: {first.why}"
        return condition(PUBLISHED, False, first.reason, text[:_MOST])
    if standing is None or not all(_stands(key, one, seen) for one in desired):
        return None
    return condition(PUBLISHED, True, PUBLISHED, "its names are as they should be")


def _faults(key: Key, one: Desired, seen: Snapshot) -> Iterator[_Fault]:
    place = Place(one.where, ref_of(one.object))
    found = seen.find(place)
    outcome = seen.fact(Outcome, place)
    if isinstance(found, PublishedName) and not _is_ours(key, found, seen):
        yield _Fault(one.object.name, TAKEN, _whose(found))
    elif outcome is not None and outcome.result in _HINDERED:
        yield _Fault(one.object.name, outcome.result, outcome.message)


def _stands(key: Key, one: Desired, seen: Snapshot) -> bool:
    found = seen.find(Place(one.where, ref_of(one.object)))
    return found is not None and _is_ours(key, found, seen)


def _is_ours(key: Key, found: Object, seen: Snapshot) -> bool:
    claim = claim_on(found)
    return claim is not None and (claim.key, claim.serves) == (str(key), seen.local)


def _whose(found: PublishedName) -> str:
    claim = claim_on(found)
    if claim is None:
        return (
            "it stands in the zone already and was not made by Hanse; delete its records there, "
            "or end what the name is of"
        )
    return (
        f"{claim.serves} publishes it for {claim.key}; let one cluster alone publish the zone, "
        "or give one of the two another name"
    )
