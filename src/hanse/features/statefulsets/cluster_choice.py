"""Which clusters a set may use, over which of their labels it is spread, and who updates first.

The labels are those of the ClusterMembers at the broker: an administrator sets them, and admission
keeps members from changing them, so that no cluster attracts replicas by a label of its own.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from hanse.features.statefulsets.names import CLUSTER_SELECTOR, SPREAD_BY, UPDATE_ORDER
from hanse.model.kinds.networking import LabelSelector
from hanse.model.kinds.stateful import Share
from hanse.model.objects import ClusterId
from hanse.model.selectors import InvalidSelector, parse_selector, selects

Labels = Mapping[str, str]


class ClusterChoice(Struct, frozen=True):
    """What a set says about clusters by their labels, and the errors in it."""

    selector: LabelSelector = LabelSelector()
    spread_by: str = ""
    """The label over whose values replicas are spread before they are spread over clusters."""
    order: tuple[ClusterId, ...] = ()
    """Clusters that get a new template before all others."""
    errors: tuple[str, ...] = ()

    @property
    def selects_some(self) -> bool:
        """Whether clusters are selected by labels at all."""
        return self.selector != LabelSelector()

    def selects(self, labels: Labels) -> bool:
        """Whether the selector matches a cluster's labels; True without a selector."""
        return selects(self.selector, labels)

    def groups(self, labels: Mapping[ClusterId, Labels]) -> dict[ClusterId, str]:
        """By cluster its value of the label `spread_by`, empty if it lacks that label.

        `{}` if the set has no `spread_by`.
        """
        if not self.spread_by:
            return {}
        return {cluster: each.get(self.spread_by, "") for cluster, each in labels.items()}

    def ordered(self, shares: Iterable[Share]) -> list[Share]:
        """The shares: first those of clusters in `order`, in that order; the rest as they were."""
        first = {cluster: at for at, cluster in enumerate(self.order)}
        return sorted(shares, key=lambda share: first.get(share.name, len(first)))


def parse_choice(annotations: Mapping[str, str]) -> ClusterChoice:
    """The choice of clusters in a set's annotations, with an error if the selector is invalid."""
    order = tuple(filter(None, map(str.strip, annotations.get(UPDATE_ORDER, "").split(","))))
    selector, errors = LabelSelector(), tuple[str, ...]()
    try:
        selector = parse_selector(annotations.get(CLUSTER_SELECTOR, ""))
    except InvalidSelector as error:
        errors = (f"annotation {CLUSTER_SELECTOR}: {error}",)
    return ClusterChoice(selector, annotations.get(SPREAD_BY, "").strip(), order, errors)
