"""The views of all features, and what is wrong in a fleet by all of them."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from hanse.features.fleet.view import ClustersView, LinksView
from hanse.features.services.view import ServicesView
from hanse.model.findings import Finding, judge
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.snapshot import Watch
from hanse.model.view import View
from hanse.web.dashboard.federated import FederatedSection
from hanse.web.dashboard.gslb import HostsSection
from hanse.web.dashboard.networks import NetworksSection, ReachSection
from hanse.web.dashboard.policies import PoliciesSection
from hanse.web.dashboard.statefulsets import StatefulSetsSection


class Examination(Struct, frozen=True):
    """The items of each view by key, and the judged findings of all."""

    items: dict[str, dict[str, Any]]
    findings: tuple[Finding, ...]


def views() -> tuple[View, ...]:
    """Every view, in the order of the page; a new one is added here."""
    return (
        ClustersView(),
        LinksView(),
        ServicesView(),
        FederatedSection(),
        PoliciesSection(),
        HostsSection(),
        StatefulSetsSection(),
        NetworksSection(),
        ReachSection(),
    )


def reads() -> tuple[Watch, ...]:
    """All that somebody has to read of each cluster in order to judge a fleet."""
    return tuple(watch for view in views() for watch in view.reads)


def examine(snapshot: MultiClusterSnapshot, chosen: Sequence[View] = ()) -> Examination:
    """Render the items of all views, and judge what is wrong with them."""
    items: dict[str, dict[str, Any]] = {}
    for view in chosen or views():
        rendered = ((key, view.render(key, snapshot)) for key in sorted(view.keys(snapshot)))
        items[view.name] = {key: item for key, item in rendered if item is not None}
    found = (f for several in items.values() for item in several.values() for f in item.findings)
    return Examination(items, judge(found))
