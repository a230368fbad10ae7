"""The sections of the dashboard."""

from hanse.web.dashboard.federated import Federated
from hanse.web.dashboard.fleet import Clusters, Links
from hanse.web.dashboard.gslb import Hosts
from hanse.web.dashboard.networks import Networks, Reach
from hanse.web.dashboard.policies import Policies
from hanse.web.dashboard.section import Section
from hanse.web.dashboard.services import Services
from hanse.web.dashboard.statefulsets import StatefulSets


def sections() -> tuple[Section, ...]:
    """All sections in the order of the page."""
    return (
        Clusters(),
        Links(),
        Services(),
        Federated(),
        Policies(),
        Hosts(),
        StatefulSets(),
        Networks(),
        Reach(),
    )
