"""The lists of all features, webhooks, watches, zone sources and external systems."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from hanse import __version__
from hanse.features.admission.feature import Admission
from hanse.features.admission.options import AdmissionOptions
from hanse.features.clusterset.feature import ClusterSetMember
from hanse.features.clusterset.write_rules import MEMBER_RULES as RECORD_RULES
from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.write_rules import SUPERVISOR_RULES as FEDERATED_RULES
from hanse.features.federation.feature import Membership
from hanse.features.federation.webhooks import WEBHOOKS as MEMBERSHIP_HOOKS
from hanse.features.federation.write_rules import SUPERVISOR_RULES as FEDERATION_RULES
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.options import GslbOptions
from hanse.features.machines.feature import Machines
from hanse.features.networks.feature import Networks
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.webhooks import network_hooks
from hanse.features.policies.feature import Policies
from hanse.features.policies.options import PolicyOptions
from hanse.features.policies.webhooks import PolicyPeersWebhook
from hanse.features.policies.write_rules import SUPERVISOR_RULES as POLICY_RULES
from hanse.features.publishing.options import NAME_SERVER, PublishingOptions
from hanse.features.services.feature import Services
from hanse.features.services.write_rules import MEMBER_RULES as SERVICE_RULES
from hanse.features.statefulsets.feature import StatefulSets
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.webhooks import AutoscalerWebhook, FederatedStatefulSetWebhook
from hanse.features.statefulsets.write_rules import MEMBER_RULES as SET_RULES
from hanse.model.admission import AdmissionHook
from hanse.model.agent_manifests import BASE
from hanse.model.crds import OWN_KINDS
from hanse.model.facts import Role
from hanse.model.feature_names import FEATURES, with_required
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Feature
from hanse.model.snapshot import Watch
from hanse.model.write_rules import FeatureAccess, WriteRule
from hanse.runtime.external import ExternalSystem
from hanse.runtime.pause import PAUSE_WATCHES

if TYPE_CHECKING:  # few agents serve or publish names: the others do not import DNS
    from hanse.model.dns.zones import View, ZoneSource

BROKER: ClusterId = "broker"


class Options(Struct, frozen=True):
    """Which features are on, and the options of all, each under its own name."""

    features: tuple[str, ...] = FEATURES
    broker_namespace: str = BROKER_NAMESPACE
    admission: AdmissionOptions = AdmissionOptions()
    networks: NetworksOptions = NetworksOptions()
    federated: FederatedOptions = FederatedOptions()
    statefulsets: StatefulSetOptions = StatefulSetOptions()
    gslb: GslbOptions = GslbOptions()
    publishing: PublishingOptions = PublishingOptions()
    policies: PolicyOptions = PolicyOptions()


def features(options: Options = Options()) -> tuple[Feature, ...]:  # noqa: B008 - a frozen value
    """The features that are on, and those they need; a new one is added here and to `FEATURES`.

    Two are always there, first: that of admission webhooks, which without hooks removes those of an
    agent that had some, and that of this cluster's record on a broker.
    """
    makers: dict[str, Callable[[], Iterable[Feature]]] = {
        "services": lambda: (Services(options.broker_namespace),),
        "membership": lambda: (Membership(),),
        "federated": lambda: (FederatedServices(options.federated),),
        "machines": lambda: (Machines(),),
        "networks": lambda: (Networks(options.networks),),
        "statefulsets": lambda: (StatefulSets(options.broker_namespace),),
        "gslb": lambda: (Gslb(options.gslb),),
        "policies": lambda: (Policies(options.policies),),
        "publishing": lambda: publishing_features(options),
    }
    on = with_required(options.features)
    made = {name: tuple(make()) for name, make in makers.items() if name in on}
    running = tuple(name for name in on if made[name])
    member = ClusterSetMember(options.broker_namespace, running, __version__)
    chosen = (feature for several in made.values() for feature in several)
    return (Admission(hooks(options), options.admission), member, *chosen)


def publishing_features(options: Options) -> tuple[Feature, ...]:
    """The publishing feature over every zone source; empty unless publishing is configured."""
    chosen = options.publishing
    if not chosen.wanted:
        return ()
    from hanse.features.federated.zone import FederatedZone
    from hanse.features.gslb.zone import GlobalZone
    from hanse.features.publishing.feature import Publishing
    from hanse.model.dns.zones import View

    view = View("published", zone=chosen.zone, ttl=chosen.ttl, global_zones=(chosen.zone,))
    # they write DNSEndpoints of their own
    self_published = frozenset({GlobalZone.name, FederatedZone.name})
    return (Publishing(zone_sources(view, options), chosen, self_published),)


def zone_sources(view: "View", options: Options = Options()) -> "tuple[ZoneSource, ...]":  # noqa: B008 - a frozen value
    """The sources of DNS records for a view, of the features that are on; a new one is added here.

    Those of global hosts and federated Services only for a view with global zones.
    """
    from hanse.features.federated.zone import FederatedZone
    from hanse.features.gslb.zone import GlobalZone
    from hanse.features.services.zone import ServiceZone
    from hanse.features.statefulsets.zone import StatefulSetZone

    makers: dict[str, Callable[[], ZoneSource]] = {
        "services": lambda: ServiceZone(view),
        "statefulsets": lambda: StatefulSetZone(
            view, options.broker_namespace, options.statefulsets
        ),
    }
    if view.global_zones:
        makers["gslb"] = lambda: GlobalZone(view)
        makers["federated"] = lambda: FederatedZone(view)
    return tuple(make() for name, make in makers.items() if name in options.features)


def watches(options: Options = Options()) -> tuple[Watch, ...]:  # noqa: B008 - a frozen value
    """All that an agent with these features watches: its RBAC rules are generated from it."""
    return tuple(watch for several in watches_by_feature(options).values() for watch in several)


def watches_by_feature(options: Options = Options()) -> dict[str, tuple[Watch, ...]]:  # noqa: B008 - a frozen value
    """The watches of each feature that is on, and of every agent under the name `BASE`.

    The admission feature has an entry only if there are hooks. Without options of publishing, names
    are taken to be published in the agent's namespace.
    """
    if not options.publishing.wanted:
        here = PublishingOptions("example.org", endpoints_in=options.admission.namespace)
        options = replace(options, publishing=here)
    found = {feature.name: feature.watches for feature in features(options)}
    base = (
        *PAUSE_WATCHES,
        *Admission((), options.admission).watches,
        *found.pop(ClusterSetMember.name),
    )
    if not hooks(options):
        found.pop(Admission.name)
    return {BASE: base, **found}


def own_kinds(options: Options = Options()) -> tuple[type[Object], ...]:  # noqa: B008 - a frozen value
    """The kinds that Hanse defines and that features watch in a cluster that is no broker."""
    watched = {watch.kind for watch in watches(options) if watch.role is not Role.BROKER}
    return tuple(kind for kind in OWN_KINDS if kind in watched)


def broker_access(options: Options = Options()) -> tuple[FeatureAccess, ...]:  # noqa: B008 - a frozen value
    """What members read and write on a broker, by feature: services, and StatefulSets if on.

    Every member has the first one. The roles and admission policies of a broker are generated from
    it.
    """
    namespace = options.broker_namespace
    access = (
        FeatureAccess(
            Services.name,
            (*Services(namespace).watches, *ClusterSetMember(namespace).watches, *PAUSE_WATCHES),
            (*SERVICE_RULES, *RECORD_RULES),
        ),
        FeatureAccess(StatefulSets.name, StatefulSets(namespace).watches, SET_RULES),
    )
    on = (Services.name, *options.features)
    return tuple(each for each in access if each.feature in on)


def supervisor_rules() -> tuple[WriteRule, ...]:
    """What supervisors may write in a member; its admission policies are generated from it."""
    return (*FEDERATION_RULES, *FEDERATED_RULES, *POLICY_RULES)


def hooks(options: Options = Options()) -> tuple[AdmissionHook, ...]:  # noqa: B008 - a frozen value
    """The admission webhooks of the features that are on, and of those that they need.

    A new one is added here.
    """
    makers: dict[str, Callable[[], Iterable[AdmissionHook]]] = {
        "membership": lambda: MEMBERSHIP_HOOKS,
        "networks": lambda: network_hooks(Networks(options.networks)),
        "statefulsets": lambda: (
            FederatedStatefulSetWebhook(options.broker_namespace),
            AutoscalerWebhook(),
        ),
        "policies": lambda: (PolicyPeersWebhook(),),
    }
    on = with_required(options.features)
    return tuple(hook for name, make in makers.items() if name in on for hook in make())


def configured_name_server(options: Options) -> dict[ClusterId, ExternalSystem]:
    """The name server, if one is configured, by the id under which it is connected; else empty.

    Nothing is connected, and the key file is read at each use.
    """
    server = options.publishing.server
    if server is None:
        return {}
    from hanse.providers.nameserver import NameServer, key_file, no_key

    key = key_file(server.key_file) if server.key_file else no_key
    return {NAME_SERVER: NameServer(server.host, server.port, options.publishing.zone, key)}
