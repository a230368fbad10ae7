"""What the dashboard is made of."""

from hanse.dashboard.federated import Federated
from hanse.dashboard.fleet import Clusters, Links
from hanse.dashboard.gslb import Hosts
from hanse.dashboard.networks import Networks, Reach
from hanse.dashboard.policies import Policies
from hanse.dashboard.section import Section
from hanse.dashboard.services import Services
from hanse.dashboard.statefulsets import StatefulSets


def sections() -> tuple[Section, ...]:
    """Every part of the dashboard; a new one is named here."""
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
