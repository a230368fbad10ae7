"""The views of all features, and what is wrong in a fleet by all of them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from hanse.features.federated import view as federated
from hanse.features.federation import view as federation
from hanse.features.fleet.pauses import HeldDeletionsView, PausedObjectsView
from hanse.features.fleet.view import MEMBER_ACCOUNTS, ClustersView, LinksView
from hanse.features.fleet.writes import RefusedWritesView
from hanse.features.gslb import view as gslb
from hanse.features.gslb.leaders_view import LeadersView
from hanse.features.machines import view as machines
from hanse.features.networks import view as networks
from hanse.features.policies import view as policies
from hanse.features.services import view as services
from hanse.features.services.reading import NARROWED
from hanse.features.services.reading import further_reads as further_service_reads
from hanse.features.statefulsets import conditions_view as stateful_sets
from hanse.features.statefulsets import view as statefulsets
from hanse.model.crds import CUSTOM_RESOURCES
from hanse.model.facts import Role
from hanse.model.findings import Finding, judge
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Watch
from hanse.model.view import View

_WITH_OBJECTS = (
    federated,
    federation,
    gslb,
    machines,
    networks,
    policies,
    services,
    stateful_sets,
)


class Examination(Struct, frozen=True):
    """The items of each view by key, and the judged findings of all."""

    items: dict[str, dict[str, Any]]
    findings: tuple[Finding, ...]


def views() -> tuple[View, ...]:
    """Every view, in the order of the page; a new one is added here."""
    return (
        ClustersView(),
        LinksView(),
        RefusedWritesView(),
        PausedObjectsView(),
        HeldDeletionsView(),
        services.ServicesView(),
        federated.FederatedView(),
        policies.PoliciesView(),
        gslb.HostsView(),
        statefulsets.StatefulSetsView(),
        networks.NetworksView(),
        networks.ReachView(),
        LeadersView(),
        federation.CLAIMS,
        *(feature.OBJECTS for feature in _WITH_OBJECTS),
    )


def reads() -> tuple[Watch, ...]:
    """The watches of all views: what has to be read of each cluster in order to judge a fleet."""
    return tuple(watch for view in views() for watch in view.reads)


def first_reads(unserved: Collection[type[Object]] = ()) -> tuple[Watch, ...]:
    """The watches to list of a cluster at first: those of `reads`, some kinds only in part.

    Left out are the watches of a view none of whose custom resources is served, also of built-in
    kinds, and what only brokers have if ClusterMember is `unserved`. `further_reads` says what has
    to be listed beside.
    """
    chosen = (view for view in views() if not _is_absent(view, unserved))
    found = dict.fromkeys(_narrowed(watch) for view in chosen for watch in view.reads)
    no_broker = ClusterMember in unserved
    return tuple(w for w in found if not (no_broker and w in _OF_BROKERS))


_OF_BROKERS = (MEMBER_ACCOUNTS, NARROWED[EndpointSlice])
"""What only a broker has: accounts of members, and slices that they publish."""


def _is_absent(view: View, unserved: Collection[type[Object]]) -> bool:
    """Whether a view reads custom resources and all of them are `unserved`.

    Never for the view of clusters.
    """
    custom = [watch.kind for watch in view.reads if watch.kind in CUSTOM_RESOURCES]
    return (
        bool(custom)
        and not isinstance(view, ClustersView)
        and all(kind in unserved for kind in custom)
    )


def _narrowed(watch: Watch) -> Watch:
    """The watch in NARROWED of the same kind, if there is one and this has no labels; else this.

    Of EndpointSlices also if it has labels.
    """
    whole = watch.kind in NARROWED and (not watch.labels or watch.kind is EndpointSlice)
    return NARROWED[watch.kind] if whole else watch


def further_reads(
    snapshot: MultiClusterSnapshot,
    tried: Mapping[ClusterId, Collection[Watch]],
    failed: Mapping[ClusterId, Collection[Watch]],
) -> dict[ClusterId, set[Watch]]:
    """The watches that each cluster has to list beside what was `tried`, for a complete judgement.

    It reads nothing itself. What `failed` in one cluster is looked for in others. The result may
    include some of `tried`; call again after each round, until nothing new is returned.
    """
    found = further_service_reads(snapshot, tried, failed)
    for where in policies.clusters_naming_services(snapshot):
        if where in found:
            found[where].add(Watch(Role.LOCAL, Service))
    return found


def examine(snapshot: MultiClusterSnapshot, chosen: Sequence[View] = ()) -> Examination:
    """Render the items of the chosen views, all if none is, and judge what is wrong with them.

    Keys whose item is None are left out.
    """
    items: dict[str, dict[str, Any]] = {}
    for view in chosen or views():
        rendered = ((key, view.render(key, snapshot)) for key in sorted(view.keys(snapshot)))
        items[view.name] = {key: item for key, item in rendered if item is not None}
    found = (f for several in items.values() for item in several.values() for f in item.findings)
    return Examination(items, judge(found))
