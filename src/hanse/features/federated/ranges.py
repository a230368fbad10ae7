"""Endpoints that a member does not take, since their addresses are its own pods' or Services'."""

from collections.abc import Iterable, Iterator

from hanse.features.federated.groups import source_addresses
from hanse.features.federated.names import CLUSTER
from hanse.features.federated.records import MemberRecord
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import Federation
from hanse.model.member_ranges import stated_ranges
from hanse.model.objects import ClusterId
from hanse.model.own_addresses import is_within, own_addresses, without_own_addresses
from hanse.model.snapshot import ObjectChange, Snapshot


def member_ranges(member: ClusterId, snapshot: Snapshot) -> tuple[str, ...]:
    """The address ranges of a member's pods and Services, as its agent states in its Federation."""
    stated = stated_ranges(member, snapshot)
    return (*stated.pods, *stated.services)


def changes_member_ranges(change: ObjectChange) -> bool:
    """Whether a Federation came, went or states other ranges than before; False for other kinds."""
    sides = (
        side.status.ranges if isinstance(side, Federation) else None
        for side in (change.before, change.after)
    )
    return next(sides) != next(sides)


def without_own(
    slices: Iterable[EndpointSlice], member: ClusterId, ranges: tuple[str, ...]
) -> Iterator[EndpointSlice]:
    """The slices less endpoints of other clusters in a member's ranges; empty ones are left out."""
    for one in slices:
        if not _is_foreign(one, member) or (one := without_own_addresses(one, ranges)).endpoints:
            yield one


def misleading(
    slices: Iterable[EndpointSlice], member: ClusterId, ranges: tuple[str, ...]
) -> dict[ClusterId, tuple[str, ...]]:
    """The addresses of other clusters that lie in a member's ranges, by cluster."""
    found: dict[ClusterId, tuple[str, ...]] = {}
    for one in slices:
        if _is_foreign(one, member) and (addresses := own_addresses((one,), ranges)):
            cluster = one.metadata.annotations.get(CLUSTER, "")
            found[cluster] = (*found.get(cluster, ()), *addresses)
    return found


def distinct_sources(
    records: Iterable[MemberRecord], member: ClusterId, ranges: tuple[str, ...]
) -> set[str]:
    """The addresses that members send from, less those of other clusters in a member's ranges."""
    return {
        address
        for record in records
        for address in source_addresses((record,))
        if record.cluster == member or not is_within(address, ranges)
    }


def _is_foreign(endpoint_slice: EndpointSlice, member: ClusterId) -> bool:
    """Whether a slice has addresses of another cluster, by its annotation; False for FQDNs."""
    origin = endpoint_slice.metadata.annotations.get(CLUSTER, member)
    return origin != member and endpoint_slice.address_type != "FQDN"
