"""The sections of the dashboard."""

from hanse.web.dashboard.federated import FederatedSection
from hanse.web.dashboard.fleet import ClustersSection, LinksSection
from hanse.web.dashboard.gslb import HostsSection
from hanse.web.dashboard.networks import NetworksSection, ReachSection
from hanse.web.dashboard.policies import PoliciesSection
from hanse.web.dashboard.section import Section
from hanse.web.dashboard.services import ServicesSection
from hanse.web.dashboard.statefulsets import StatefulSetsSection


def sections() -> tuple[Section, ...]:
    """All sections in the order of the page."""
    return (
        ClustersSection(),
        LinksSection(),
        ServicesSection(),
        FederatedSection(),
        PoliciesSection(),
        HostsSection(),
        StatefulSetsSection(),
        NetworksSection(),
        ReachSection(),
    )
