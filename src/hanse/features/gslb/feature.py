"""The feature: what it watches, what wakes which decision, and which clusters it connects."""

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
    refresh_readiness,
)
from hanse.features.gslb.keys import host_key, keys_for_change
from hanse.features.gslb.leadership import (
    CONNECTION_SOURCE,
    Leading,
    leader_state,
    leader_term,
    local_amko_cluster,
)
from hanse.features.gslb.names import SECRET, SECRET_KEY, UUID, site_of
from hanse.features.gslb.options import GslbOptions
from hanse.features.gslb.replication import plan_federation
from hanse.features.gslb.status import plan_policy_status, plan_without_warnings, rule_status_patch
from hanse.features.gslb.watches import (
    CONTROLLER_WATCHES,
    DNS_ENDPOINT_WATCH,
    LOCAL_WATCHES,
    SITE_WATCHES,
)
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
from hanse.model.objects import ClusterObjectRef, Meta, Object, object_ref
from hanse.model.plan import Desired, Key, Patch, Plan
from hanse.model.probes import Probe
from hanse.model.questions import host_lookup
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch


class Gslb:
    """AMKO federation and global load balancing. It also guides to clusters and wants probes."""

    name = CONNECTION_SOURCE
    source_kinds: tuple[type[Object], ...] = (AMKOCluster, GSLBConfig, Secret)

    def __init__(self, options: GslbOptions = GslbOptions()) -> None:  # noqa: B008 - a frozen value
        self.options = options
        publishes = "externaldns" in (*options.providers, *options.withdraw)
        self.watches: tuple[Watch, ...] = (
            *LOCAL_WATCHES,
            *((DNS_ENDPOINT_WATCH,) if publishes else ()),
            *(CONTROLLER_WATCHES if "avi" in options.providers else ()),
            *SITE_WATCHES,
        )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return keys_for_change(change, snapshot)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        match key.topic:
            case "federation":
                return plan_federation(snapshot)
            case "policy":
                return self._plan_policy(snapshot)
            case "rule":
                return self._plan_rule(key, snapshot)
            case _:
                return self._plan_host(key.name, snapshot)

    # -- global services

    def _plan_policy(self, snapshot: Snapshot) -> Plan:
        standing = leader_state(snapshot)
        if not isinstance(standing, Leading):
            return Plan() if _means_to_lead(snapshot) else plan_without_warnings(snapshot)
        marks = _uuid(snapshot) if "avi" in self.options.providers else ()
        told = plan_policy_status(standing, snapshot, self.options)
        return replace(told, patches=(*marks, *told.patches))

    def _plan_rule(self, key: Key, snapshot: Snapshot) -> Plan:
        rule = snapshot.get(snapshot.local, GSLBHostRule, key.name, key.namespace)
        if rule is None or not isinstance(leader_state(snapshot), Leading):
            return Plan()
        error = rule_error(rule, snapshot, named_monitors=self.options.probes)
        return Plan(patches=(rule_status_patch(rule, error, snapshot),))

    def _plan_host(self, host: str, snapshot: Snapshot) -> Plan:
        standing = leader_state(snapshot)
        if not isinstance(standing, Leading) or _is_inherited(host, standing, snapshot):
            return Plan(desired=tuple(self._kept(host, snapshot)))
        match decide_host(host, standing, snapshot, self.options):
            case NoMembers(names):
                return _asking(names, snapshot)
            case Unchanged():
                standing_service = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
                if standing_service is None:
                    return Plan()
                spec, names = refresh_readiness(standing_service, standing, snapshot), ()
            case ServedHost(spec, names):
                pass
        service = build_global_service(spec, standing.mark, snapshot)
        desired = tuple(self._everywhere(service, standing, snapshot))
        return replace(_asking(names, snapshot), desired=desired)

    def _everywhere(
        self, service: GlobalService, standing: Leading, snapshot: Snapshot
    ) -> Iterator[Desired]:
        """The service here, its records, and its copies: those follow once it is published."""
        host = service.metadata.name
        yield Desired(service, snapshot.local, shared=True)
        published = True
        if "externaldns" in self.options.providers:
            published = snapshot.get(snapshot.local, DNSEndpoint, host, NAMESPACE) is not None
            yield Desired(build_dns_endpoint(service, snapshot, self.options), snapshot.local)
        elif "externaldns" not in self.options.withdraw:
            yield from _as_it_is(DNSEndpoint, host, snapshot.local, snapshot, shared=False)
        if "avi" in self.options.providers:
            for step, obj in avi_objects(service, snapshot):
                yield Desired(obj, CONTROLLER, step=step, shared=True)
        for where in snapshot.clusters(Role.SITE):
            if where in standing.followers and published:
                yield Desired(service, where, shared=True)
            else:
                yield from _as_it_is(GlobalService, host, where, snapshot)

    def _kept(self, host: str, snapshot: Snapshot) -> Iterator[Desired]:
        """All of a host as it stands; its records go when another leader has published it."""
        for where in (snapshot.local, *snapshot.clusters(Role.SITE)):
            yield from _as_it_is(GlobalService, host, where, snapshot)
        yield from _as_it_is(AviGslbService, host, CONTROLLER, snapshot, namespace="")
        for monitor in snapshot.all(CONTROLLER, AviHealthMonitor):
            if monitor.metadata.name.startswith(f"amko--{host}--"):
                name = monitor.metadata.name
                yield from _as_it_is(AviHealthMonitor, name, CONTROLLER, snapshot, namespace="")
        own = local_amko_cluster(snapshot)
        standing = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
        term = leader_term(standing) if standing is not None else None
        follows = own is not None and not own.spec.is_leader
        another = term is not None and own is not None and term.context != own.spec.cluster_context
        if not (follows and another):
            yield from _as_it_is(DNSEndpoint, host, snapshot.local, snapshot, shared=False)

    # -- a guide to clusters

    def connection_intents(self, snapshot: Snapshot) -> tuple[ConnectionIntent, ...]:
        """While this cluster leads: every follower and every cluster that is load balanced."""
        wanted = dict.fromkeys(self._contexts(snapshot))
        secret = snapshot.get(snapshot.local, Secret, SECRET, NAMESPACE)
        text = secret.data.get(SECRET_KEY) if secret is not None else None
        said: list[ConnectionIntent] = []
        for context in wanted:
            site, origin = site_of(context), f"Secret {NAMESPACE}/{SECRET}"
            field = "spec.clusters"
            if secret is None:
                trouble = f"{origin} is not there; create it with a kubeconfig in {SECRET_KEY}"
                said.append(InvalidConnection(CONNECTION_SOURCE, site, field, "NoSecret", trouble))
            elif not text:
                trouble = f"{origin} has no key {SECRET_KEY}; put a kubeconfig there"
                said.append(
                    InvalidConnection(CONNECTION_SOURCE, site, field, "NoKubeconfig", trouble)
                )
            else:
                credentials = KubeconfigCredentials(text, context, origin)
                said.append(ClusterConnection(site, frozenset({Role.SITE}), credentials, field))
        known = {
            state.cluster for state in snapshot.facts(ClusterState) if Role.SITE in state.roles
        }
        said += [ReleasedCluster(site) for site in sorted(known - set(map(site_of, wanted)))]
        return tuple(said)

    def _contexts(self, snapshot: Snapshot) -> Iterator[str]:
        own = local_amko_cluster(snapshot)
        if own is None or not own.spec.is_leader:
            return
        yield from (c for c in own.spec.clusters if c != own.spec.cluster_context)
        for config in snapshot.in_namespace(snapshot.local, GSLBConfig, NAMESPACE):
            for member in config.spec.member_clusters:
                if member.cluster_context != own.spec.cluster_context:
                    yield member.cluster_context

    # -- probes

    def probe_keys(self, snapshot: Snapshot) -> Iterable[Key]:
        return [host_key(s.metadata.name) for s in snapshot.all(snapshot.local, GlobalService)]

    def probe_keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
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
        """Only who is meant to lead tries members; conflicts do not end that."""
        service = snapshot.get(snapshot.local, GlobalService, key.name, NAMESPACE)
        if service is None or not self.options.probes or not _means_to_lead(snapshot):
            return ()
        return tuple(member_probes(service))

    def forbidden(self, snapshot: Snapshot) -> frozenset[str]:
        return api_addresses(snapshot)


def _means_to_lead(snapshot: Snapshot) -> bool:
    own = local_amko_cluster(snapshot)
    return own is not None and own.spec.is_leader


def _asking(names: Iterable[str], snapshot: Snapshot) -> Plan:
    """A plan that keeps the addresses of names known."""
    several = [host_lookup(name, snapshot) for name in names]
    again = min((one.requeue_after for one in several), default=None)
    return Plan(questions=tuple(one.question for one in several), requeue_after=again)


def _is_inherited(host: str, standing: Leading, snapshot: Snapshot) -> bool:
    """Whether a service is another leader's and this one has no policy at all.

    Who never had what its predecessor went by does not end what that one served.
    """
    service = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
    term = leader_term(service) if service is not None else None
    return (
        term is not None
        and term.context != standing.context
        and not list_deployment_policies(snapshot)
    )


def _uuid(snapshot: Snapshot) -> Iterator[Patch]:
    """By which name we are known to a controller; the same for every leader after this one."""
    config = read_configuration(snapshot)
    if isinstance(config, ValidConfiguration) and UUID not in config.object.metadata.annotations:
        change = {"metadata": {"annotations": {UUID: config.object.metadata.uid}}}
        yield Patch(ClusterObjectRef(snapshot.local, object_ref(config.object)), change)


def _as_it_is(
    kind: type[Object],
    name: str,
    where: str,
    snapshot: Snapshot,
    *,
    shared: bool = True,
    namespace: str = NAMESPACE,
) -> Iterator[Desired]:
    """An object as it stands, so that it is neither changed nor deleted."""
    standing = snapshot.get(where, kind, name, namespace)
    if standing is None:
        return
    meta = standing.metadata
    kept = Meta(
        name=meta.name, namespace=meta.namespace, labels=meta.labels, annotations=meta.annotations
    )
    yield Desired(replace(standing, metadata=kept), where, shared=shared)
