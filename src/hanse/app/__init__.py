"""The composition root: the only package that knows every part.

Here are the lists of all features, webhooks, watches, zone sources and external systems.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from hanse.features.admission.feature import Admission
from hanse.features.admission.options import AdmissionOptions
from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.options import FederatedOptions
from hanse.features.federation.feature import Membership
from hanse.features.federation.webhooks import WEBHOOKS as MEMBERSHIP_HOOKS
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.options import GslbOptions
from hanse.features.machines.feature import Machines
from hanse.features.networks.feature import Networks
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.webhooks import network_hooks
from hanse.features.policies.feature import Policies
from hanse.features.policies.options import PolicyOptions
from hanse.features.policies.webhooks import PolicyPeersWebhook
from hanse.features.publishing.options import NAME_SERVER, PublishingOptions
from hanse.features.services.feature import Services
from hanse.features.services.write_rules import MEMBER_RULES as SERVICE_RULES
from hanse.features.statefulsets.feature import StatefulSets
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.webhooks import FederatedStatefulSetWebhook
from hanse.features.statefulsets.write_rules import MEMBER_RULES as SET_RULES
from hanse.model.admission import AdmissionHook
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.plan import Feature
from hanse.model.snapshot import Watch
from hanse.model.write_rules import FeatureAccess
from hanse.runtime.external import ExternalSystem
from hanse.runtime.pause import PAUSE_WATCHES

if TYPE_CHECKING:  # few agents serve or publish names: the others do not import DNS
    from hanse.model.dns.zones import View, ZoneSource

BROKER: ClusterId = "broker"


class Options(Struct, frozen=True):
    """The options of all features, each under its own name."""

    broker_namespace: str = BROKER_NAMESPACE
    admission: AdmissionOptions = AdmissionOptions()
    networks: NetworksOptions = NetworksOptions()
    federated: FederatedOptions = FederatedOptions()
    statefulsets: StatefulSetOptions = StatefulSetOptions()
    gslb: GslbOptions = GslbOptions()
    publishing: PublishingOptions = PublishingOptions()
    policies: PolicyOptions = PolicyOptions()


def features(options: Options = Options()) -> tuple[Feature, ...]:  # noqa: B008 - a frozen value
    """Every feature of the product; a new one is added here."""
    return (
        Admission(hooks(options), options.admission),
        Services(options.broker_namespace),
        Membership(),
        FederatedServices(options.federated),
        Machines(),
        Networks(options.networks),
        StatefulSets(options.broker_namespace),
        Gslb(options.gslb),
        Policies(options.policies),
        *publishing_features(options),
    )


def publishing_features(options: Options) -> tuple[Feature, ...]:
    """The publishing feature over every zone source, if publishing is configured."""
    chosen = options.publishing
    if not chosen.wanted:
        return ()
    from hanse.features.gslb.zone import GlobalZone
    from hanse.features.publishing.feature import Publishing
    from hanse.model.dns.zones import View

    view = View("published", zone=chosen.zone, ttl=chosen.ttl, global_zones=(chosen.zone,))
    self_published = frozenset({GlobalZone.name})  # it writes DNSEndpoints of its own, with weights
    return (Publishing(zone_sources(view, options), chosen, self_published),)


def zone_sources(view: "View", options: Options = Options()) -> "tuple[ZoneSource, ...]":  # noqa: B008 - a frozen value
    """Every source of DNS records for a view; a new one is added here."""
    from hanse.features.gslb.zone import GlobalZone
    from hanse.features.services.zone import ServiceZone
    from hanse.features.statefulsets.zone import StatefulSetZone

    global_sources: tuple[ZoneSource, ...] = (GlobalZone(view),) if view.global_zones else ()
    return (
        ServiceZone(view),
        StatefulSetZone(view, options.broker_namespace, options.statefulsets),
        *global_sources,
    )


def watches(options: Options = Options()) -> tuple[Watch, ...]:  # noqa: B008 - a frozen value
    """All that an agent of this version watches: its RBAC rules are generated from it."""
    return (*(watch for feature in features(options) for watch in feature.watches), *PAUSE_WATCHES)


def broker_access(options: Options = Options()) -> tuple[FeatureAccess, ...]:  # noqa: B008 - a frozen value
    """What members read and write on a broker, by feature; every member has the first one.

    The roles and admission policies of a broker are generated from it.
    """
    namespace = options.broker_namespace
    return (
        FeatureAccess(Services.name, (*Services(namespace).watches, *PAUSE_WATCHES), SERVICE_RULES),
        FeatureAccess(StatefulSets.name, StatefulSets(namespace).watches, SET_RULES),
    )


def hooks(options: Options = Options()) -> tuple[AdmissionHook, ...]:  # noqa: B008 - a frozen value
    """Every admission webhook of the product; a new one is added here."""
    return (
        *MEMBERSHIP_HOOKS,
        *network_hooks(Networks(options.networks)),
        FederatedStatefulSetWebhook(options.broker_namespace),
        PolicyPeersWebhook(),
    )


def external_systems(options: Options) -> dict[ClusterId, ExternalSystem]:
    """The external systems that the options name, by the id under which they are connected."""
    server = options.publishing.server
    if server is None:
        return {}
    from hanse.providers.nameserver import NameServer, key_file, unsigned

    key = key_file(server.key_file) if server.key_file else unsigned
    return {NAME_SERVER: NameServer(server.host, server.port, options.publishing.zone, key)}
