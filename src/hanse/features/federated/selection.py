"""Which member Services of a federated Service are used in a cluster; those of others are draining.

Kube-proxy has no weights: only affinity, priority and weight 0 count for endpoints.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import astuple

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.merge import MergedService
from hanse.features.federated.names import CLUSTER
from hanse.features.federated.records import Identity
from hanse.features.federated.settings import affinity_rule
from hanse.features.federated.slices import slice_origin
from hanse.model.affinity import drained, preferred_side_of
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import ClusterId
from hanse.model.weights import Weighting, select_parts


def unused_members(
    merged: MergedService,
    federated: FederatedName,
    member: ClusterId,
    slices: Sequence[EndpointSlice],
) -> frozenset[Identity]:
    """The member Services whose ready endpoints are not used in a member now.

    By the affinity of the federated Service, then by their weights and priorities. Slices of a
    user's own Service, which joined, have no origin: they are local.
    """
    side = preferred_side_of(
        affinity_rule(merged.members),
        slices,
        lambda s: s.metadata.annotations.get(CLUSTER, member) == member,
    )
    weightings = {o.identity: o.weighting for o in merged.members}
    ready = {
        _slice_identity(s) or (member, "Service", *astuple(federated))
        for s in slices
        if any(endpoint.ready for endpoint in s.endpoints or ())
    }
    used = select_parts(
        sorted(ready),
        lambda identity: weightings.get(identity, Weighting()),
        side or "none",
        lambda identity: identity[0] == member,
    )
    return frozenset(ready.difference(used))


def _slice_identity(endpoint_slice: EndpointSlice) -> Identity | None:
    """The member Service that a slice is of; None if it is not one that we generated."""
    origin = slice_origin(endpoint_slice)
    return origin.identity if origin is not None else None


def drain_silent(
    slices: Iterable[EndpointSlice], silent: frozenset[ClusterId]
) -> Iterator[EndpointSlice]:
    """All slices; ready endpoints in those of silent clusters become draining.

    That is not ready, serving and terminating. Each slice must have the annotation of its cluster.
    """
    for endpoint_slice in slices:
        is_silent = endpoint_slice.metadata.annotations[CLUSTER] in silent
        yield drained(endpoint_slice) if is_silent else endpoint_slice


def drain_members(
    slices: Iterable[EndpointSlice], members: frozenset[Identity]
) -> Iterator[EndpointSlice]:
    """All slices; ready endpoints in those of the given member Services become draining.

    That is not ready, serving and terminating. Slices that Hanse did not generate are unchanged.
    """
    for endpoint_slice in slices:
        is_unused = bool(members) and _slice_identity(endpoint_slice) in members
        yield drained(endpoint_slice) if is_unused else endpoint_slice
