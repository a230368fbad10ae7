"""The keys that a change requeues: the federation, the policy, host rules, and hosts."""

from collections.abc import Iterable, Iterator

from hanse.features.gslb.aliases import RULES_BY_ALIAS, aliased_hosts, rule_aliases
from hanse.features.gslb.avi import CONTROLLER, excess_monitors_message
from hanse.features.gslb.backends import (
    SOURCE_KINDS,
    full_host,
    hosts_of,
    list_dependents,
    objects_with_balancer_hostname,
    routable_addresses,
)
from hanse.features.gslb.configuration import RULES_BY_FQDN, list_deployment_policies
from hanse.features.gslb.diagnostics import contested_hosts, is_host_output, is_suspect
from hanse.features.gslb.known import is_withdrawn
from hanse.features.gslb.leader_lease import lease_keys
from hanse.features.gslb.leadership import (
    CONNECTION_SOURCE,
    follower_sites,
    local_amko_cluster,
)
from hanse.features.gslb.mapping import (
    RULES_BY_LOCAL_NAME,
    declared_global_names,
    global_names,
    local_name,
    uses_host_rules,
)
from hanse.features.gslb.notes import is_in_zones
from hanse.features.gslb.replication import FEDERATION_KEY
from hanse.features.gslb.routes import listener_hosts
from hanse.features.gslb.terms import leader_term
from hanse.features.gslb.tokens import TOKENS_KEY
from hanse.features.gslb.watches import SERVICES_BY_ADDRESS, SERVICES_BY_SOURCE
from hanse.model.facts import Answer, ClusterState, InvalidConnection, Role, WriteOutcome
from hanse.model.kinds.ako import AkoHostRule
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Namespace, Secret
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.gateways import GATEWAY_ROUTES, Gateway
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.model.objects import ClusterId, Object, object_ref
from hanse.model.plan import Key
from hanse.model.probes import TargetHealth
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot

POLICY_KEY = Key("policy")


def host_key(host: str) -> Key:
    """The key of one host name."""
    return Key("host", host)


def keys_for_change(
    change: Change, snapshot: Snapshot, zones: tuple[str, ...] = ()
) -> Iterable[Key]:
    """The keys whose plans may differ after a change.

    Of an AMKOCluster all, or the federation key if only its status changed; other objects affect
    none without an AMKOCluster here. `zones` are those that name servers answer, if known.
    """
    if isinstance(change, FactChange):
        return _keys_for_fact(change, snapshot)
    if isinstance(change.object, AMKOCluster):
        if not change.is_more_than_status:
            return (FEDERATION_KEY,)
        return (*_named_lease_keys(change), *all_keys(snapshot))
    if not any(True for _ in snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE)):
        return ()
    return _keys_for_object(change, snapshot, zones)


def all_keys(snapshot: Snapshot) -> Iterator[Key]:
    """All keys: of federation, policy, tokens, this leader's Leases, host rules and hosts."""
    yield FEDERATION_KEY
    yield POLICY_KEY
    yield TOKENS_KEY
    yield from _all_lease_keys(snapshot)
    for rule in snapshot.all(snapshot.local, GSLBHostRule):
        yield _rule_key(rule)
    yield from all_host_keys(snapshot)


def _all_lease_keys(snapshot: Snapshot) -> Iterator[Key]:
    """The keys of this leader's Leases; none in a cluster that does not lead."""
    local = local_amko_cluster(snapshot)
    if local is not None and local.spec.is_leader:
        yield from lease_keys(local.spec.cluster_context, follower_sites(local))


def _named_lease_keys(change: ObjectChange) -> Iterator[Key]:
    """The keys of the Leases in all clusters that an AMKOCluster names, before and after."""
    for amko in (change.before, change.after):
        if isinstance(amko, AMKOCluster):
            yield from lease_keys(amko.spec.cluster_context, follower_sites(amko))


def all_host_keys(snapshot: Snapshot) -> Iterator[Key]:
    """The keys of all host names that a cluster, a rule or an existing service has, each once.

    Services of sites count, too: a leader that was restored may lack them. A cluster that does not
    lead has the keys of its own GlobalServices alone.
    """
    hosts: dict[str, None] = {}
    for service in snapshot.all(snapshot.local, GlobalService):
        hosts[service.metadata.name] = None
    if not any(
        amko.spec.is_leader
        for amko in snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE)
    ):
        yield from map(host_key, hosts)
        return
    for rule in snapshot.in_namespace(snapshot.local, GSLBHostRule, NAMESPACE):
        hosts[_rule_host(rule)] = None
    for where in (snapshot.local, *snapshot.clusters(Role.SITE)):
        hosts.update(dict.fromkeys(_list_hosts_in(where, snapshot)))
        hosts.update((s.metadata.name, None) for s in snapshot.all(where, GlobalService))
    yield from map(host_key, hosts)


def _keys_for_fact(change: FactChange, snapshot: Snapshot) -> Iterator[Key]:
    """The keys for a changed fact: a cluster's state, a connection, health, an answer or a write.

    All keys if phase, listed, recovering or roles of a ClusterState here or of a site change, or
    for an invalid connection; else FEDERATION_KEY for such a state, and for writes to sites.
    POLICY_KEY for the controller's state, for a lookup that gains or loses addresses, and for
    writes of hosts, with the keys of Leases. The hosts of a probed address; none for other facts.
    """
    match change.fact:
        case ClusterState(cluster, roles) if Role.SITE in roles or cluster == snapshot.local:
            before, after = change.before, change.after
            known = isinstance(before, ClusterState) and isinstance(after, ClusterState)
            if known and _relevant_state(before) == _relevant_state(after):
                yield FEDERATION_KEY
            else:
                yield from all_keys(snapshot)
        case ClusterState(cluster) if cluster == CONTROLLER:
            yield POLICY_KEY
        case InvalidConnection(source) if source == CONNECTION_SOURCE:
            yield from all_keys(snapshot)
        case TargetHealth(target):
            for service in snapshot.by(snapshot.local, SERVICES_BY_ADDRESS, target.address):
                yield host_key(service.metadata.name)
        case Answer() if _has_addresses(change.before) != _has_addresses(change.after):
            yield POLICY_KEY
        case WriteOutcome(target) if is_host_output(target):
            yield POLICY_KEY
            yield from _all_lease_keys(snapshot)
        case WriteOutcome(target) if (
            target.ref.namespace == NAMESPACE and target.where != snapshot.local
        ):
            yield FEDERATION_KEY
        case _:
            return


def _has_addresses(fact: object) -> bool | None:
    """Whether a lookup's answer has routable addresses; None if it failed.

    True without an answer.
    """
    if not isinstance(fact, Answer):
        return True
    if fact.value is None:
        return None
    return bool(routable_addresses(tuple(fact.value.get("addresses", ()))))


def _relevant_state(state: object) -> object:
    """Phase, listed, recovering and roles of a ClusterState; None for anything else."""
    if not isinstance(state, ClusterState):
        return None
    return (state.phase, state.listed, state.recovering, state.roles)


def _keys_for_object(
    change: ObjectChange, snapshot: Snapshot, zones: tuple[str, ...]
) -> Iterable[Key]:
    """The keys that a changed object other than an AMKOCluster affects, by its kind.

    All for ConfigMaps, CRDs, the GSLB namespace here, and a GSLBConfig or policy that changes here
    beyond its status, or goes in a site; else FEDERATION_KEY and POLICY_KEY for these.
    GSLBHostRules: FEDERATION_KEY, and of those here rule and host. HostRules: POLICY_KEY and their
    hosts. Sources: their hosts, and POLICY_KEY if suspect. A GlobalService: its host, and here
    POLICY_KEY if what is wrong with it differs; if it comes or goes, also hosts by its name, and
    here Leases. Leases: FEDERATION_KEY if the term differs, and those of Leases if one is gone.
    Secrets: tokens and POLICY_KEY. Objects of AMKO outside of the GSLB namespace: only their own
    status.
    """
    where, obj = change.where, change.object
    match obj:
        case GSLBConfig() | GlobalDeploymentPolicy() | GSLBHostRule() if (
            obj.metadata.namespace != NAMESPACE
        ):
            return (_rule_key(obj) if isinstance(obj, GSLBHostRule) else POLICY_KEY,)
        case GSLBConfig() | GlobalDeploymentPolicy():
            more = change.is_more_than_status if where == snapshot.local else change.after is None
            return all_keys(snapshot) if more else (FEDERATION_KEY, POLICY_KEY)
        case GSLBHostRule():
            rules = _keys_for_rule(change, snapshot) if where == snapshot.local else ()
            return (FEDERATION_KEY, *rules)
        case Secret():
            return (POLICY_KEY, TOKENS_KEY)
        case ConfigMap() | CustomResourceDefinition():
            return all_keys(snapshot)
        case Namespace(metadata=meta) if where == snapshot.local and meta.name == NAMESPACE:
            return all_keys(snapshot)
        case GlobalService():
            before, after = (_complaints(one, zones) for one in (change.before, change.after))
            is_local, is_other = where == snapshot.local, _is_other_host(change)
            return (
                host_key(obj.metadata.name),
                *((POLICY_KEY,) if is_local and before != after else ()),
                *(_keys_of_alias(obj.metadata.name, snapshot) if is_other else ()),
                *(
                    _keys_of_balancer_hostname(obj.metadata.name, snapshot)
                    if is_local and is_other
                    else ()
                ),
                *(_all_lease_keys(snapshot) if is_local and is_other else ()),
            )
        case Lease():
            is_other_term = leader_term(change.before) != leader_term(change.after)
            return (
                *(_all_lease_keys(snapshot) if change.after is None else ()),
                *((FEDERATION_KEY,) if is_other_term else ()),
            )
        case AkoHostRule():
            return (POLICY_KEY, *_keys_for_mapping(change, snapshot))
        case _:
            return _keys_for_source(change, snapshot)


def _complaints(service: Object | None, zones: tuple[str, ...]) -> tuple[str, ...]:
    """What the policy's status says of a host: refused claims, unwatched paths, being in no zone.

    Nothing for other objects than GlobalServices.
    """
    if not isinstance(service, GlobalService):
        return ()
    outside = zones and not is_in_zones(service.spec.host, zones)
    unserved = service.spec.host if outside else ""
    return tuple(
        filter(None, (*service.status.refused, excess_monitors_message(service), unserved))
    )


def _keys_for_source(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of the hosts that a changed source, Namespace, Gateway or EndpointSlice affects.

    Hosts of the object or of the sources that depend on it, before and after the change, and those
    that list these sources in members now; of a Gateway also those of its listeners. POLICY_KEY,
    too, if the object is suspect, and for a Namespace, with all contested hosts.
    """
    where, obj = change.where, change.object
    affected: Iterable[Object | None] = (change.before, change.after)
    match obj:
        case Namespace(metadata=meta):
            yield POLICY_KEY
            yield from map(host_key, contested_hosts(snapshot))
            affected = (o for k in SOURCE_KINDS for o in snapshot.in_namespace(where, k, meta.name))
        case Gateway():
            affected = (route for kind in GATEWAY_ROUTES for route in snapshot.all(where, kind))
            for gateway in (change.before, change.after):
                if isinstance(gateway, Gateway):
                    yield from map(host_key, listener_hosts(gateway))
        case EndpointSlice(metadata=meta):
            service = meta.labels.get(KUBE_SERVICE, "")
            affected = (
                list_dependents(f"{meta.namespace}/{service}", where, snapshot) if service else ()
            )
    if any(o is not None and is_suspect(o) for o in (change.before, change.after)):
        yield POLICY_KEY
    for source in affected:
        if source is not None:
            yield from _host_keys(source, where, snapshot)
            for balanced in snapshot.by(
                snapshot.local, SERVICES_BY_SOURCE, str(object_ref(source))
            ):
                yield host_key(balanced.metadata.name)  # its host name may have changed


def _keys_for_mapping(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The hosts that a HostRule maps to or gives aliases, before and after a change.

    Also those of other rules with the same local name or the same aliases.
    """
    for version in (change.before, change.after):
        if isinstance(version, AkoHostRule):
            yield from map(host_key, declared_global_names(version, snapshot))
            yield from map(host_key, aliased_hosts(version, change.where, snapshot))
            for alias in rule_aliases(version):
                yield from _keys_of_alias(alias, snapshot)
            for other in snapshot.by(change.where, RULES_BY_LOCAL_NAME, local_name(version)):
                yield from map(host_key, declared_global_names(other, snapshot))


def _keys_of_alias(alias: str, snapshot: Snapshot) -> Iterator[Key]:
    """The hosts that a name is an alias of in any cluster."""
    for where in (snapshot.local, *snapshot.clusters(Role.SITE)):
        for rule in snapshot.by(where, RULES_BY_ALIAS, alias):
            yield from map(host_key, aliased_hosts(rule, where, snapshot))


def _keys_of_balancer_hostname(name: str, snapshot: Snapshot) -> Iterator[Key]:
    """The hosts of objects here and in sites whose load balancer has this host name."""
    for where in (snapshot.local, *snapshot.clusters(Role.SITE)):
        for source in objects_with_balancer_hostname(name, where, snapshot):
            yield from _host_keys(source, where, snapshot)


def _is_other_host(change: ObjectChange) -> bool:
    """Whether a GlobalService appeared, is gone, or is withdrawn now or no longer."""
    before, after = (
        isinstance(one, GlobalService) and not is_withdrawn(one)
        for one in (change.before, change.after)
    )
    return before != after


def _keys_for_rule(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The key of a rule; if more than its status changed, also its host and rules for that host."""
    for version in (change.before, change.after):
        if isinstance(version, GSLBHostRule):
            yield _rule_key(version)
            if change.is_more_than_status:
                yield host_key(_rule_host(version))
                for other in snapshot.by(snapshot.local, RULES_BY_FQDN, _rule_host(version)):
                    yield _rule_key(other)


def _host_keys(obj: Object, where: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    """The global hosts of a source in a cluster, and those that its names are aliases of."""
    domain = _default_domain(snapshot)
    for name in hosts_of(obj, where, snapshot):
        local = full_host(name, domain)
        yield from _keys_of_alias(name, snapshot)
        if local is not None:
            yield from map(host_key, global_names(local, where, snapshot))


def _list_hosts_in(where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """The global hosts that a cluster may have members for: by its HostRules if those name them.

    Else the names of all its sources that are full host names, with the default domain.
    """
    if uses_host_rules(snapshot):
        for rule in snapshot.all(where, AkoHostRule):
            yield from declared_global_names(rule, snapshot)
        return
    domain = _default_domain(snapshot)
    for kind in SOURCE_KINDS:
        for obj in snapshot.all(where, kind):
            for name in hosts_of(obj, where, snapshot):
                host = full_host(name, domain)
                if host is not None:
                    yield host


def _default_domain(snapshot: Snapshot) -> str:
    """The default domain of the first policy by name; empty without a policy."""
    policies = list_deployment_policies(snapshot)
    return policies[0].spec.default_domain if policies else ""


def _rule_key(rule: GSLBHostRule) -> Key:
    """The key of a host rule."""
    return Key("rule", rule.metadata.name, rule.metadata.namespace)


def _rule_host(rule: GSLBHostRule) -> str:
    """The host of a rule in lower case and without a final dot."""
    return rule.spec.fqdn.lower().removesuffix(".")
