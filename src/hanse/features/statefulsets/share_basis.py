"""Which recorded shares are believed: those that the set and the clusters' own reports explain.

Every member may write the record of shares, so it is no order. A cluster's report is written by
that cluster alone. A recorded share is believed if it lies between what the cluster reports and
what the set's replicas, distributed from all reports, give it: then it is on its way there; or if
the record as a whole keeps what the set wants out of more that is reported. Any other share is
disputed: the cluster keeps what it has, and the record is computed from the reports.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.kinds.stateful import (
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
)
from hanse.model.objects import ClusterId, Object

_Shares = dict[ClusterId, int]
_Distribute = Callable[[_Shares], _Shares]


class ShareBasis(Struct, frozen=True):
    """The shares that the next ones are computed from, and that clusters run."""

    shares: _Shares
    disputed: tuple[ClusterId, ...] = ()
    """Clusters whose recorded share nothing explains."""


class BelievedShare(Struct, frozen=True):
    """The share of one cluster, as it follows it."""

    replicas: int
    is_current: bool = True
    """Whether the record has the shares of all that the set wants now; else these are to come."""


class ShareSources(Struct, frozen=True):
    """All that is known of the shares of one set."""

    submitted: SubmittedSet
    record: StatefulSetShares | None
    parts: Mapping[ClusterId, StatefulSetPartSpec]
    departed: frozenset[ClusterId]
    healthy: tuple[ClusterId, ...]

    @property
    def recorded(self) -> _Shares:
        """The recorded shares, each at most the limit in its cluster's report.

        Without departed clusters if the set redistributes.
        """
        listed = self.record.spec.shares if self.record is not None else ()
        given = {share.name: share.replicas for share in listed}
        return {c: self._within_limit(c, n) for c, n in given.items() if self._counts(c)}

    @property
    def reported(self) -> _Shares:
        """The shares in clusters' reports, within their limits.

        For unhealthy clusters without a report, those that are recorded.
        """
        given = {c: part.share for c, part in self.parts.items() if self._counts(c)}
        shares = {c: self._within_limit(c, n) for c, n in given.items()}
        silent = {c: n for c, n in self.recorded.items() if c not in self.healthy}
        return {**silent, **shares}

    @property
    def away(self) -> _Shares:
        """The shares of clusters that are not healthy, as reported or else recorded."""
        return {c: n for c, n in self.reported.items() if c not in self.healthy}

    @property
    def rebalance_wanted(self) -> bool:
        """Whether users request a rebalance that neither record nor reports have noted yet.

        False without a record.
        """
        wish = self.submitted.rebalance
        if self.record is None or wish in ("", self.record.spec.rebalanced):
            return False
        return not any(part.rebalanced == wish for part in self.parts.values())

    @property
    def rebalancing(self) -> bool:
        """Whether a rebalance is under way: a healthy cluster's report has not noted it yet."""
        wish = self.submitted.rebalance
        return bool(wish) and any(
            part.rebalanced != wish for c, part in self.parts.items() if c in self.healthy
        )

    @property
    def only_removes_surplus(self) -> bool:
        """Whether recorded shares sum up to the wanted replicas, each at most its cluster's report.

        Reports count only of healthy clusters, else 0; whoever wrote it, such a record only says
        which of too many replicas go.
        """
        recorded = {cluster: n for cluster, n in self.recorded.items() if n}
        running = {c: part.share for c, part in self.parts.items() if c in self.healthy}
        kept = all(n <= running.get(cluster, 0) for cluster, n in recorded.items())
        return kept and sum(recorded.values()) == self.submitted.spec.replicas

    def _counts(self, cluster: ClusterId) -> bool:
        """Whether a cluster's share counts: not if it has left and the set redistributes."""
        return not self.submitted.redistributes or cluster not in self.departed

    def _within_limit(self, cluster: ClusterId, replicas: int) -> int:
        """The replicas, at most the limit (`most`) in the cluster's report, if it has one."""
        part = self.parts.get(cluster)
        return replicas if part is None or part.most is None else min(replicas, part.most)


def share_basis(sources: ShareSources, distribute: _Distribute) -> ShareBasis:
    """The shares to start from: recorded ones if reports explain them, else reported ones.

    Explained is a share between the reported one and what `distribute` makes of all reported ones,
    one of a rebalance under way, or a record that only removes surplus; others are disputed. A new
    rebalance starts from clusters that are away; an invalid set's shares are reported, else
    recorded.
    """
    reported = sources.reported
    if sources.submitted.errors:
        return ShareBasis({**sources.recorded, **reported})
    if sources.record is None:
        return ShareBasis(reported)
    if sources.rebalance_wanted:
        return ShareBasis(sources.away)
    if sources.only_removes_surplus:
        return ShareBasis(sources.recorded)
    recorded, computed = sources.recorded, distribute(reported)
    anew = distribute(sources.away) if sources.rebalancing else {}
    shares, disputed = _Shares(), list[ClusterId]()
    for cluster in sorted({*recorded, *reported, *computed}):
        here, told = recorded.get(cluster, 0), reported.get(cluster, 0)
        low, high = sorted((told, computed.get(cluster, 0)))
        if low <= here <= high or (sources.rebalancing and here == anew.get(cluster, 0)):
            shares[cluster] = here
        else:
            shares[cluster] = told
            disputed.append(cluster)
    return ShareBasis(shares, tuple(disputed))


def topics_unaffected(before: Object | None, after: Object | None, *, is_own: bool) -> set[str]:
    """The topics (`shares`, `local`) whose plans a change of a report cannot affect.

    `shares` if nothing changes that shares are computed from, `local` if nothing that other
    clusters go by; a report that is this cluster's (`is_own`) always affects `local`.
    """
    unaffected = {"shares"} if _share_fields(before) == _share_fields(after) else set[str]()
    if not is_own and _replica_fields(before) == _replica_fields(after):
        unaffected.add("local")
    return unaffected


def _share_fields(report: Object | None) -> object:
    """The fields of a report that shares are computed from; None for anything else.

    Whether it is live, cluster, set's uid, share, limit and rebalance wish.
    """
    if not isinstance(report, StatefulSetPart):
        return None
    spec = report.spec
    is_live = spec.ended is None and not spec.has_newer_schema
    return is_live, spec.cluster, spec.set_uid, spec.share, spec.most, spec.rebalanced


def _replica_fields(report: Object | None) -> object:
    """What other clusters go by: share, revision, refusal, ready replicas and returned permits.

    None for anything but a report.
    """
    if not isinstance(report, StatefulSetPart):
        return None
    spec = report.spec
    replicas = tuple((replica.name, replica.ready) for replica in spec.replicas)
    return _share_fields(report), replicas, spec.revision, spec.returned, spec.refused is None
