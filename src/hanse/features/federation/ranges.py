"""Address ranges of members: each member's own agent states them, supervisors compare them."""

from collections.abc import Iterator

from hanse.model.conditions import Condition, condition, find_condition
from hanse.model.kinds.federation import Federation
from hanse.model.kinds.hanse import MemberRanges
from hanse.model.member_ranges import discovered_ranges, overlapping, stated_ranges
from hanse.model.snapshot import Snapshot

RANGES = "RangesDistinct"
"""Condition of a supervisor's Federation: whether addresses of members are told apart."""


def own_ranges(federation: Federation, snapshot: Snapshot) -> MemberRanges:
    """This cluster's address ranges: spec.ranges as those of pods, else the discovered ones.

    Those in the status while the discovered ones are not known.
    """
    if federation.spec.ranges:
        return MemberRanges(pods=federation.spec.ranges)
    found = discovered_ranges(snapshot)
    return found if found is not None else federation.status.ranges


def ranges_condition(federation: Federation, snapshot: Snapshot) -> Iterator[Condition]:
    """RangesDistinct: False while pod ranges of a member overlap any ranges of another.

    Without an overlap True if the condition is set already, else nothing. The ranges are those that
    the members of the spec state.
    """
    members = (one.cluster_id for one in federation.spec.members)
    known = {member: stated_ranges(member, snapshot) for member in members}
    overlaps = list(overlapping(known, services=False))
    if overlaps:
        pairs = "; ".join(
            f"{o.one} ({o.ranges[0]}) and {o.other} ({o.ranges[1]})" for o in overlaps
        )
        text = (
            f"{pairs} have the same addresses: they take no endpoints of each other that lie in "
            "both; give one of them other ranges, or name the right ones in spec.ranges of its own "
            "Federation"
        )
        yield condition(RANGES, False, "RangesOverlap", text)
    elif find_condition(federation.status.conditions, RANGES) is not None:
        yield condition(RANGES, True, "Distinct")
