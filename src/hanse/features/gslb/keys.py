"""Which decisions a change concerns."""

from collections.abc import Iterable, Iterator

from hanse.features.gslb.backends import (
    SOURCE_KINDS,
    full_host,
    list_dependents,
    list_hosts,
    routable_addresses,
)
from hanse.features.gslb.configuration import RULES_BY_FQDN, list_deployment_policies
from hanse.features.gslb.diagnostics import is_host_output, is_suspect
from hanse.features.gslb.leadership import CONNECTION_SOURCE
from hanse.features.gslb.mapping import (
    BY_LOCAL_NAME,
    global_names,
    local_name,
    mapped_names,
    uses_host_rules,
)
from hanse.features.gslb.replication import FEDERATION_KEY
from hanse.features.gslb.watches import BY_ADDRESS, BY_SOURCE
from hanse.model.facts import Answer, ClusterState, InvalidConnection, Role, WriteOutcome
from hanse.model.kinds.ako import AkoHostRule
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.gateways import Gateway, HTTPRoute
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
from hanse.model.probes import Health
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot

POLICY_KEY = Key("policy")


def host_key(host: str) -> Key:
    """The decision about one host name."""
    return Key("host", host)


def keys_for_change(change: Change, snapshot: Snapshot) -> Iterable[Key]:
    """The decisions that may be others after a change; nobody leads, nothing wakes."""
    if isinstance(change, FactChange):
        return _woken_by_fact(change, snapshot)
    if isinstance(change.object, AMKOCluster):
        return all_keys(snapshot) if _says_more(change) else (FEDERATION_KEY,)
    if not any(True for _ in snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE)):
        return ()
    return _woken_by_object(change, snapshot)


def all_keys(snapshot: Snapshot) -> Iterator[Key]:
    """Every decision there is."""
    yield FEDERATION_KEY
    yield POLICY_KEY
    for rule in snapshot.in_namespace(snapshot.local, GSLBHostRule, NAMESPACE):
        yield _rule_key(rule)
    yield from all_host_keys(snapshot)


def all_host_keys(snapshot: Snapshot) -> Iterator[Key]:
    """Every host name that any cluster, rule or standing service knows.

    Who does not lead only keeps what stands: what clusters bring is not looked at.
    """
    hosts: dict[str, None] = {}
    for service in snapshot.all(snapshot.local, GlobalService):
        hosts[service.metadata.name] = None
    if not any(
        own.spec.is_leader for own in snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE)
    ):
        yield from map(host_key, hosts)
        return
    for rule in snapshot.in_namespace(snapshot.local, GSLBHostRule, NAMESPACE):
        hosts[_host_of(rule)] = None
    for where in (snapshot.local, *snapshot.clusters(Role.SITE)):
        hosts.update(dict.fromkeys(_hosts_in(where, snapshot)))
    yield from map(host_key, hosts)


def _woken_by_fact(change: FactChange, snapshot: Snapshot) -> Iterator[Key]:
    match change.fact:
        case ClusterState(cluster, roles) if Role.SITE in roles or cluster == snapshot.local:
            before, after = change.before, change.after
            known = isinstance(before, ClusterState) and isinstance(after, ClusterState)
            if known and _weight_of(before) == _weight_of(after):
                yield FEDERATION_KEY
            else:
                yield from all_keys(snapshot)
        case InvalidConnection(guide) if guide == CONNECTION_SOURCE:
            yield from all_keys(snapshot)
        case Health(target):
            for service in snapshot.by(snapshot.local, BY_ADDRESS, target.address):
                yield host_key(service.metadata.name)
        case Answer() if _leads_on(change.before) != _leads_on(change.after):
            yield POLICY_KEY
        case WriteOutcome(place) if is_host_output(place):
            yield POLICY_KEY
        case WriteOutcome(place) if (
            place.ref.namespace == NAMESPACE and place.where != snapshot.local
        ):
            yield FEDERATION_KEY
        case _:
            return


def _leads_on(fact: object) -> bool | None:
    """Whether a name leads to addresses, None: it cannot be looked up; not asked yet is no news."""
    if not isinstance(fact, Answer):
        return True
    if fact.value is None:
        return None
    return bool(routable_addresses(tuple(fact.value.get("addresses", ()))))


def _weight_of(state: object) -> object:
    """What of a cluster's state decides about members; reasons are for people."""
    if not isinstance(state, ClusterState):
        return None
    return (state.phase, state.listed, state.recovering, state.roles)


def _woken_by_object(change: ObjectChange, snapshot: Snapshot) -> Iterable[Key]:
    where, obj = change.where, change.object
    match obj:
        case GSLBConfig() | GlobalDeploymentPolicy():
            more = _says_more(change) if where == snapshot.local else change.after is None
            return all_keys(snapshot) if more else (FEDERATION_KEY, POLICY_KEY)
        case GSLBHostRule():
            rules = _woken_by_rule(change, snapshot) if where == snapshot.local else ()
            return (FEDERATION_KEY, *rules)
        case ConfigMap() | CustomResourceDefinition():
            return all_keys(snapshot)
        case Namespace(metadata=meta) if where == snapshot.local and meta.name == NAMESPACE:
            return all_keys(snapshot)
        case GlobalService():
            return (host_key(obj.metadata.name),)
        case AkoHostRule():
            return (POLICY_KEY, *_woken_by_mapping(change, snapshot))
        case _:
            return _woken_by_input(change, snapshot)


def _woken_by_input(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    where, obj = change.where, change.object
    concerned: Iterable[Object | None] = (change.before, change.after)
    match obj:
        case Namespace(metadata=meta):
            yield POLICY_KEY
            concerned = (
                o for k in SOURCE_KINDS for o in snapshot.in_namespace(where, k, meta.name)
            )
        case Gateway():
            concerned = snapshot.all(where, HTTPRoute)
        case EndpointSlice(metadata=meta):
            service = meta.labels.get(KUBE_SERVICE, "")
            concerned = (
                list_dependents(f"{meta.namespace}/{service}", where, snapshot) if service else ()
            )
    if any(one is not None and is_suspect(one) for one in (change.before, change.after)):
        yield POLICY_KEY
    for one in concerned:
        if one is not None:
            yield from _hosts(one, where, snapshot)
            for served in snapshot.by(snapshot.local, BY_SOURCE, str(object_ref(one))):
                yield host_key(served.metadata.name)  # it may have another name by now


def _woken_by_mapping(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The hosts that a HostRule names, and those of its rivals for the same local name."""
    for side in (change.before, change.after):
        if isinstance(side, AkoHostRule):
            yield from map(host_key, mapped_names(side, snapshot))
            for rival in snapshot.by(change.where, BY_LOCAL_NAME, local_name(side)):
                yield from map(host_key, mapped_names(rival, snapshot))


def _woken_by_rule(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    for side in (change.before, change.after):
        if isinstance(side, GSLBHostRule):
            yield _rule_key(side)
            if _says_more(change):
                yield host_key(_host_of(side))
                for rival in snapshot.by(snapshot.local, RULES_BY_FQDN, _host_of(side)):
                    yield _rule_key(rival)


def _hosts(obj: Object, where: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    domain = _domain(snapshot)
    for told in list_hosts(obj):
        local = full_host(told, domain)
        if local is not None:
            yield from map(host_key, global_names(local, where, snapshot))


def _hosts_in(where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    if uses_host_rules(snapshot):
        for rule in snapshot.all(where, AkoHostRule):
            yield from mapped_names(rule, snapshot)
        return
    domain = _domain(snapshot)
    for kind in SOURCE_KINDS:
        for obj in snapshot.all(where, kind):
            for told in list_hosts(obj):
                host = full_host(told, domain)
                if host is not None:
                    yield host


def _domain(snapshot: Snapshot) -> str:
    several = list_deployment_policies(snapshot)
    return several[0].spec.default_domain if several else ""


def _rule_key(rule: GSLBHostRule) -> Key:
    return Key("rule", rule.metadata.name, rule.metadata.namespace)


def _host_of(rule: GSLBHostRule) -> str:
    return rule.spec.fqdn.lower().removesuffix(".")


def _says_more(change: ObjectChange) -> bool:
    """Whether more has changed than a status."""
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    same = getattr(before, "spec", None) == getattr(after, "spec", None)
    meta, then = after.metadata, before.metadata
    return not same or (meta.annotations, meta.deletion_timestamp) != (
        then.annotations,
        then.deletion_timestamp,
    )
