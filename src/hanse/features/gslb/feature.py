"""The feature: its watches and keys, its plans, its connections to clusters, and its probes."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from hanse.features.gslb.avi import CONTROLLER, avi_objects
from hanse.features.gslb.configuration import (
    ValidConfiguration,
    list_deployment_policies,
    read_configuration,
    rule_error,
)
from hanse.features.gslb.external_dns import build_dns_endpoint
from hanse.features.gslb.health import api_addresses, member_probes
from hanse.features.gslb.hosts import (
    NoMembers,
    ServedHost,
    Unchanged,
    build_global_service,
    decide_host,
    known_service,
    refresh_readiness,
    remaining_policy_message,
)
from hanse.features.gslb.keys import host_key, keys_for_change
from hanse.features.gslb.leader_lease import leader_sees, plan_lease
from hanse.features.gslb.leadership import (
    CONNECTION_SOURCE,
    Leading,
    leader_state,
    local_amko_cluster,
    traffic_state,
)
from hanse.features.gslb.names import SECRET, SECRET_KEY, UUID, site_of
from hanse.features.gslb.options import GslbOptions
from hanse.features.gslb.replication import plan_federation, without_server_metadata
from hanse.features.gslb.status import (
    misplaced_message,
    misplaced_patches,
    plan_policy_status,
    plan_without_warnings,
    rule_status_patch,
)
from hanse.features.gslb.terms import LeaderTerm, leader_term
from hanse.features.gslb.tokens import plan_tokens
from hanse.features.gslb.watches import (
    CONTROLLER_WATCHES,
    DNS_ENDPOINT_WATCH,
    LOCAL_WATCHES,
    SITE_WATCHES,
)
from hanse.features.gslb.withdrawal import withdraw
from hanse.model.connections import (
    ClusterConnection,
    ConnectionIntent,
    KubeconfigCredentials,
    ReleasedCluster,
)
from hanse.model.facts import ClusterState, InvalidConnection, Role
from hanse.model.kinds.avi import AviGslbService, AviHealthMonitor
from hanse.model.kinds.core import Secret
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GSLBConfig, GSLBHostRule
from hanse.model.objects import ClusterObjectRef, Object, object_ref
from hanse.model.plan import Desired, Key, Owned, Patch, Plan, Shared
from hanse.model.probes import Probe
from hanse.model.questions import host_lookup
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch


class Gslb:
    """AMKO federation and global load balancing; also a source of connections and of probes."""

    name = CONNECTION_SOURCE
    source_kinds: tuple[type[Object], ...] = (AMKOCluster, GSLBConfig, Secret)

    def __init__(self, options: GslbOptions = GslbOptions()) -> None:  # noqa: B008 - a frozen value
        """Choose the watches by the providers: DNSEndpoints with externaldns, also while withdrawn.

        Objects at the controller with avi; all other watches always.
        """
        self.options = options
        publishes = "externaldns" in (*options.providers, *options.withdraw)
        self.watches: tuple[Watch, ...] = (
            *LOCAL_WATCHES,
            *((DNS_ENDPOINT_WATCH,) if publishes else ()),
            *(CONTROLLER_WATCHES if "avi" in options.providers else ()),
            *SITE_WATCHES,
        )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """Keys of federation, policy, rules, Leases and hosts whose plans a change may affect."""
        return keys_for_change(change, snapshot, self.options.zones)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The plan of a key by topic: federation, policy, rule, tokens, lease; else of a host."""
        match key.topic:
            case "federation":
                return plan_federation(snapshot)
            case "policy":
                return self._plan_policy(snapshot)
            case "rule":
                return self._plan_rule(key, snapshot)
            case "tokens":
                return plan_tokens(snapshot)
            case "lease":
                return plan_lease(key.name, snapshot, self.options)
            case _:
                return self._plan_host(key.name, snapshot)

    # -- global services

    def _plan_policy(self, snapshot: Snapshot) -> Plan:
        """The leader's status patches of GSLBConfigs and policies; with Avi the uuid annotation.

        A follower removes the warnings of its policies; a configured leader that cannot lead does
        nothing. Patches of objects in a wrong namespace are always included.
        """
        state = leader_state(snapshot)
        misplaced = tuple(misplaced_patches(snapshot))
        if not isinstance(state, Leading):
            plan = Plan() if _is_configured_leader(snapshot) else plan_without_warnings(snapshot)
            return replace(plan, patches=(*misplaced, *plan.patches))
        uuid = _uuid_patches(snapshot) if "avi" in self.options.providers else ()
        plan = plan_policy_status(state, snapshot, self.options)
        return replace(plan, patches=(*misplaced, *uuid, *plan.patches))

    def _plan_rule(self, key: Key, snapshot: Snapshot) -> Plan:
        """The status patch of a host rule; nothing if it is gone or this cluster does not lead.

        A rule in another namespace is rejected in any case.
        """
        rule = snapshot.get(snapshot.local, GSLBHostRule, key.name, key.namespace)
        if rule is None:
            return Plan()
        if rule.metadata.namespace != NAMESPACE:
            patch = rule_status_patch(rule, misplaced_message(rule), self.options, snapshot)
            return Plan(patches=(patch,))
        if not isinstance(leader_state(snapshot), Leading):
            return Plan()
        error = rule_error(rule, snapshot, named_monitors=self.options.probes)
        return Plan(patches=(rule_status_patch(rule, error, self.options, snapshot),))

    def _plan_host(self, host: str, snapshot: Snapshot) -> Plan:
        """The GlobalService of a host, its records and its copies in sites.

        All stay unchanged if this cluster does not lead by the latest term, or another leader has
        the host; but a DNSEndpoint of a follower goes once the leader has published the host. A
        host without members is withdrawn; one whose policy or rule is invalid only gets its
        readiness refreshed. Else it also asks for the addresses of load balancers' names.
        """
        state = traffic_state(snapshot)
        if not isinstance(state, Leading) or _belongs_to_another_leader(host, state, snapshot):
            return Plan(desired=tuple(self._desired_unchanged(host, snapshot)))
        match decide_host(host, state, snapshot, self.options):
            case NoMembers(names, refused):
                withdrawn = tuple(withdraw(host, refused, state, snapshot))
                return replace(_plan_lookups(names, snapshot), desired=withdrawn)
            case Unchanged():
                current = known_service(host, state, snapshot)
                if current is None:
                    return Plan(desired=tuple(self._desired_unchanged(host, snapshot)))
                spec, names = refresh_readiness(current, state, snapshot), ()
                refused = current.status.refused
            case ServedHost(spec, names, refused):
                pass
        service = build_global_service(spec, refused, state, snapshot)
        desired = tuple(self._desired_everywhere(service, state, snapshot))
        return replace(_plan_lookups(names, snapshot), desired=desired)

    def _desired_everywhere(
        self, service: GlobalService, state: Leading, snapshot: Snapshot
    ) -> Iterator[Desired]:
        """The service here, its DNSEndpoint and Avi objects by the providers, and copies in sites.

        Copies wait for the DNSEndpoint, if there is to be one. Sites that neither follow nor have
        a copy of our set, or have a later leader's copy, keep theirs; a DNSEndpoint without its
        provider stays, unless withdrawn.
        """
        host = service.metadata.name
        yield Desired(service, snapshot.local, ownership=Shared())
        published = True
        if "externaldns" in self.options.providers:
            published = snapshot.get(snapshot.local, DNSEndpoint, host, NAMESPACE) is not None
            believes = leader_sees(state, snapshot)
            endpoint = build_dns_endpoint(service, believes, snapshot, self.options)
            yield Desired(endpoint, snapshot.local)
        elif "externaldns" not in self.options.withdraw:
            yield from _unchanged(DNSEndpoint, host, snapshot.local, snapshot, shared=False)
        if "avi" in self.options.providers:
            for step, obj in avi_objects(service, snapshot):
                yield Desired(obj, CONTROLLER, step=step, ownership=Shared())
        for where in snapshot.clusters(Role.SITE):
            receives = where in state.followers or _has_copy_of_the_set(host, where, snapshot)
            if receives and published and not _is_later(host, where, state, snapshot):
                yield Desired(service, where, ownership=Shared())
            else:
                yield from _unchanged(GlobalService, host, where, snapshot)

    def _desired_unchanged(self, host: str, snapshot: Snapshot) -> Iterator[Desired]:
        """All objects of a host as they are, while its plan cannot be made.

        Only its DNSEndpoint is left out, so that it is deleted, once we follow another leader and
        that one has published the host.
        """
        for where in (snapshot.local, *snapshot.clusters(Role.SITE)):
            yield from _unchanged(GlobalService, host, where, snapshot)
        yield from _unchanged(AviGslbService, host, CONTROLLER, snapshot, namespace="")
        for monitor in snapshot.all(CONTROLLER, AviHealthMonitor):
            if monitor.metadata.name.startswith(f"amko--{host}--"):
                name = monitor.metadata.name
                yield from _unchanged(AviHealthMonitor, name, CONTROLLER, snapshot, namespace="")
        local = local_amko_cluster(snapshot)
        service = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
        term = leader_term(service)
        follows = local is not None and not local.spec.is_leader
        from_other_leader = (
            term is not None and local is not None and term.context != local.spec.cluster_context
        )
        if not (follows and from_other_leader):
            yield from _unchanged(DNSEndpoint, host, snapshot.local, snapshot, shared=False)

    # -- connections to clusters

    def connection_intents(self, snapshot: Snapshot) -> tuple[ConnectionIntent, ...]:
        """The connections to sites by the kubeconfig in the Secret, or why they are invalid.

        Sites that are no longer configured are released. In a cluster that does not lead, no site
        is configured.
        """
        contexts = dict.fromkeys(self._site_contexts(snapshot))
        secret = snapshot.get(snapshot.local, Secret, SECRET, NAMESPACE)
        text = secret.data.get(SECRET_KEY) if secret is not None else None
        intents: list[ConnectionIntent] = []
        for context in contexts:
            site, origin = site_of(context), f"Secret {NAMESPACE}/{SECRET}"
            field = "spec.clusters"
            if secret is None:
                message = f"{origin} is not there; create it with a kubeconfig in {SECRET_KEY}"
                intents.append(
                    InvalidConnection(CONNECTION_SOURCE, site, field, "NoSecret", message)
                )
            elif not text:
                message = f"{origin} has no key {SECRET_KEY}; put a kubeconfig there"
                intents.append(
                    InvalidConnection(CONNECTION_SOURCE, site, field, "NoKubeconfig", message)
                )
            else:
                credentials = KubeconfigCredentials(text, context, origin)
                intents.append(ClusterConnection(site, frozenset({Role.SITE}), credentials, field))
        known = {
            state.cluster for state in snapshot.facts(ClusterState) if Role.SITE in state.roles
        }
        intents += [ReleasedCluster(site) for site in sorted(known - set(map(site_of, contexts)))]
        return tuple(intents)

    def _site_contexts(self, snapshot: Snapshot) -> Iterator[str]:
        """Contexts of followers and member clusters, without this one; none if it does not lead.

        A context may repeat.
        """
        local = local_amko_cluster(snapshot)
        if local is None or not local.spec.is_leader:
            return
        yield from (c for c in local.spec.clusters if c != local.spec.cluster_context)
        for config in snapshot.in_namespace(snapshot.local, GSLBConfig, NAMESPACE):
            for member in config.spec.member_clusters:
                if member.cluster_context != local.spec.cluster_context:
                    yield member.cluster_context

    # -- probes

    def probe_keys(self, snapshot: Snapshot) -> Iterable[Key]:
        """The keys of all GlobalServices here."""
        return [host_key(s.metadata.name) for s in snapshot.all(snapshot.local, GlobalService)]

    def probe_keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The host of a changed local GlobalService; all hosts if an AMKOCluster changed."""
        if not isinstance(change, ObjectChange) or change.where != snapshot.local:
            return ()
        match change.object:
            case GlobalService(metadata=meta):
                return (host_key(meta.name),)
            case AMKOCluster():
                return self.probe_keys(snapshot)
            case _:
                return ()

    def probes(self, key: Key, snapshot: Snapshot) -> Sequence[Probe]:
        """The probes of all paths of a host's members.

        None if the options turn probes off, this cluster is not a leader by isLeader, or the host
        has no GlobalService here.
        """
        service = snapshot.get(snapshot.local, GlobalService, key.name, NAMESPACE)
        if service is None or not self.options.probes or not _is_configured_leader(snapshot):
            return ()
        return tuple(member_probes(service, every_path=True))

    def forbidden(self, snapshot: Snapshot) -> frozenset[str]:
        """The addresses of API servers, which are not probed."""
        return api_addresses(snapshot)


def _is_configured_leader(snapshot: Snapshot) -> bool:
    """Whether this cluster's only AMKOCluster has isLeader, valid or not."""
    local = local_amko_cluster(snapshot)
    return local is not None and local.spec.is_leader


def _plan_lookups(names: Iterable[str], snapshot: Snapshot) -> Plan:
    """A plan with questions for the addresses of host names, requeued when an answer expires."""
    lookups = [host_lookup(name, snapshot) for name in names]
    again = min((lookup.requeue_after for lookup in lookups), default=None)
    return Plan(questions=tuple(lookup.question for lookup in lookups), requeue_after=again)


def _is_later(host: str, where: str, state: Leading, snapshot: Snapshot) -> bool:
    """Whether the service of a host in a cluster was written in a later term than that of `state`.

    Of equal epochs the context that sorts last is later. False without a service or term.
    """
    service = snapshot.get(where, GlobalService, host, NAMESPACE)
    term = leader_term(service)
    return term is not None and term > LeaderTerm(state.epoch, state.context)


def _has_copy_of_the_set(host: str, where: str, snapshot: Snapshot) -> bool:
    """Whether a synced site has a copy of the host that a leader of our federation set wrote.

    A site that was taken out of the set is kept current: its name server would give members of the
    past for ever.
    """
    local, service = (
        local_amko_cluster(snapshot),
        snapshot.get(where, GlobalService, host, NAMESPACE),
    )
    term = leader_term(service)
    return (
        term is not None
        and local is not None
        and term.context in local.spec.clusters
        and snapshot.synced(where)
    )


def _belongs_to_another_leader(host: str, state: Leading, snapshot: Snapshot) -> bool:
    """Whether a host is left alone: its service is of a later term, or we lead without any policy.

    The latter only if another leader wrote the service here; without one here, a follower's copy
    counts while that leader is not reached or a follower has a policy.
    """
    if _is_later(host, snapshot.local, state, snapshot):
        return True
    if list_deployment_policies(snapshot):
        return False
    service = known_service(host, state, snapshot)
    term = leader_term(service)
    if term is None or term.context == state.context:
        return False
    is_here = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE) is not None
    reaches_other = site_of(term.context) in state.followers
    return is_here or not reaches_other or bool(remaining_policy_message(state, snapshot))


def _uuid_patches(snapshot: Snapshot) -> Iterator[Patch]:
    """A patch that annotates the GSLBConfig with its own uid, which all leaders use at controllers.

    None if it has the annotation, or the GSLBConfig is missing or invalid.
    """
    config = read_configuration(snapshot)
    if isinstance(config, ValidConfiguration) and UUID not in config.object.metadata.annotations:
        change = {"metadata": {"annotations": {UUID: config.object.metadata.uid}}}
        yield Patch(ClusterObjectRef(snapshot.local, object_ref(config.object)), change)


def _unchanged(
    kind: type[Object],
    name: str,
    where: str,
    snapshot: Snapshot,
    *,
    shared: bool = True,
    namespace: str = NAMESPACE,
) -> Iterator[Desired]:
    """An existing object as it is, so that it is neither changed nor deleted; else nothing.

    Shared objects may be written by other agents, too.
    """
    observed = snapshot.get(where, kind, name, namespace)
    if observed is not None:
        yield Desired(
            without_server_metadata(observed), where, ownership=Shared() if shared else Owned()
        )
