"""The feature: what it watches, what wakes which decision, and which clusters it connects."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from hanse.features.gslb.avi import CONTROLLER, avi_objects
from hanse.features.gslb.copies import plan_federation
from hanse.features.gslb.health import api_addresses, probes_of
from hanse.features.gslb.hosts import (
    Nothing,
    Served,
    Unchanged,
    service_for,
    still_serving,
    written,
)
from hanse.features.gslb.names import SECRET, SECRET_KEY, UUID, site_of
from hanse.features.gslb.options import GslbOptions
from hanse.features.gslb.policy import Config, config_of, fault_in_rule, policies_of
from hanse.features.gslb.publishing import endpoint_for
from hanse.features.gslb.standing import (
    GUIDE,
    Leading,
    own_cluster,
    standing_of,
    term_on,
)
from hanse.features.gslb.telling import taken_back, told_of_policy, told_of_rule
from hanse.features.gslb.waking import host_key, woken
from hanse.features.gslb.watching import AT_CONTROLLER, AT_HOME, AT_SITES, PUBLISHED
from hanse.model.facts import BadWay, ClusterState, Role
from hanse.model.keys import Key
from hanse.model.kinds.avi import AviGslbService, AviHealthMonitor
from hanse.model.kinds.core import Secret
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GSLBConfig, GSLBHostRule
from hanse.model.lookups import looked_up
from hanse.model.objects import Meta, Object, Place, ref_of
from hanse.model.plan import Desired, Patch, Plan
from hanse.model.probes import Probe
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch
from hanse.model.ways import Direction, InKubeconfig, Retired, Way


class Gslb:
    """AMKO federation and global load balancing. It also guides to clusters and wants probes."""

    name = GUIDE
    guided_by: tuple[type[Object], ...] = (AMKOCluster, GSLBConfig, Secret)

    def __init__(self, options: GslbOptions = GslbOptions()) -> None:  # noqa: B008 - a frozen value
        self.options = options
        publishes = "externaldns" in (*options.providers, *options.withdraw)
        self.watches: tuple[Watch, ...] = (
            *AT_HOME,
            *((PUBLISHED,) if publishes else ()),
            *(AT_CONTROLLER if "avi" in options.providers else ()),
            *AT_SITES,
        )

    def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
        return woken(change, seen)

    def plan(self, key: Key, seen: Snapshot) -> Plan:
        match key.topic:
            case "federation":
                return plan_federation(seen)
            case "policy":
                return self._plan_policy(seen)
            case "rule":
                return self._plan_rule(key, seen)
            case _:
                return self._plan_host(key.name, seen)

    # -- global services

    def _plan_policy(self, seen: Snapshot) -> Plan:
        standing = standing_of(seen)
        if not isinstance(standing, Leading):
            return Plan() if _means_to_lead(seen) else taken_back(seen)
        marks = _uuid(seen) if "avi" in self.options.providers else ()
        told = told_of_policy(standing, seen, self.options)
        return replace(told, patches=(*marks, *told.patches))

    def _plan_rule(self, key: Key, seen: Snapshot) -> Plan:
        rule = seen.get(seen.local, GSLBHostRule, key.name, key.namespace)
        if rule is None or not isinstance(standing_of(seen), Leading):
            return Plan()
        error = fault_in_rule(rule, seen, named_monitors=self.options.probes)
        return Plan(patches=(told_of_rule(rule, error, seen),))

    def _plan_host(self, host: str, seen: Snapshot) -> Plan:
        standing = standing_of(seen)
        if not isinstance(standing, Leading) or _is_inherited(host, standing, seen):
            return Plan(desired=tuple(self._kept(host, seen)))
        match service_for(host, standing, seen, self.options):
            case Nothing(names):
                return _asking(names, seen)
            case Unchanged():
                standing_service = seen.get(seen.local, GlobalService, host, NAMESPACE)
                if standing_service is None:
                    return Plan()
                spec, names = still_serving(standing_service, standing, seen), ()
            case Served(spec, names):
                pass
        service = written(spec, standing.mark, seen)
        desired = tuple(self._everywhere(service, standing, seen))
        return replace(_asking(names, seen), desired=desired)

    def _everywhere(
        self, service: GlobalService, standing: Leading, seen: Snapshot
    ) -> Iterator[Desired]:
        """The service here, its records, and its copies: those follow once it is published."""
        host = service.metadata.name
        yield Desired(service, seen.local, shared=True)
        published = True
        if "externaldns" in self.options.providers:
            published = seen.get(seen.local, DNSEndpoint, host, NAMESPACE) is not None
            yield Desired(endpoint_for(service, seen, self.options), seen.local)
        elif "externaldns" not in self.options.withdraw:
            yield from _as_it_is(DNSEndpoint, host, seen.local, seen, shared=False)
        if "avi" in self.options.providers:
            for step, obj in avi_objects(service, seen):
                yield Desired(obj, CONTROLLER, step=step, shared=True)
        for where in seen.clusters(Role.SITE):
            if where in standing.followers and published:
                yield Desired(service, where, shared=True)
            else:
                yield from _as_it_is(GlobalService, host, where, seen)

    def _kept(self, host: str, seen: Snapshot) -> Iterator[Desired]:
        """All of a host as it stands; its records go when another leader has published it."""
        for where in (seen.local, *seen.clusters(Role.SITE)):
            yield from _as_it_is(GlobalService, host, where, seen)
        yield from _as_it_is(AviGslbService, host, CONTROLLER, seen, namespace="")
        for monitor in seen.all(CONTROLLER, AviHealthMonitor):
            if monitor.metadata.name.startswith(f"amko--{host}--"):
                name = monitor.metadata.name
                yield from _as_it_is(AviHealthMonitor, name, CONTROLLER, seen, namespace="")
        own = own_cluster(seen)
        standing = seen.get(seen.local, GlobalService, host, NAMESPACE)
        term = term_on(standing) if standing is not None else None
        follows = own is not None and not own.spec.is_leader
        another = term is not None and own is not None and term.context != own.spec.cluster_context
        if not (follows and another):
            yield from _as_it_is(DNSEndpoint, host, seen.local, seen, shared=False)

    # -- a guide to clusters

    def directions(self, seen: Snapshot) -> tuple[Direction, ...]:
        """While this cluster leads: every follower and every cluster that is load balanced."""
        wanted = dict.fromkeys(self._contexts(seen))
        secret = seen.get(seen.local, Secret, SECRET, NAMESPACE)
        text = secret.data.get(SECRET_KEY) if secret is not None else None
        said: list[Direction] = []
        for context in wanted:
            site, origin = site_of(context), f"Secret {NAMESPACE}/{SECRET}"
            field = "spec.clusters"
            if secret is None:
                trouble = f"{origin} is not there; create it with a kubeconfig in {SECRET_KEY}"
                said.append(BadWay(GUIDE, site, field, "NoSecret", trouble))
            elif not text:
                trouble = f"{origin} has no key {SECRET_KEY}; put a kubeconfig there"
                said.append(BadWay(GUIDE, site, field, "NoKubeconfig", trouble))
            else:
                entrance = InKubeconfig(text, context, origin)
                said.append(Way(site, frozenset({Role.SITE}), entrance, field))
        known = {state.cluster for state in seen.facts(ClusterState) if Role.SITE in state.roles}
        said += [Retired(site) for site in sorted(known - set(map(site_of, wanted)))]
        return tuple(said)

    def _contexts(self, seen: Snapshot) -> Iterator[str]:
        own = own_cluster(seen)
        if own is None or not own.spec.is_leader:
            return
        yield from (c for c in own.spec.clusters if c != own.spec.cluster_context)
        for config in seen.in_namespace(seen.local, GSLBConfig, NAMESPACE):
            for member in config.spec.member_clusters:
                if member.cluster_context != own.spec.cluster_context:
                    yield member.cluster_context

    # -- probes

    def probe_keys(self, seen: Snapshot) -> Iterable[Key]:
        return [host_key(s.metadata.name) for s in seen.all(seen.local, GlobalService)]

    def wakes_probes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
        if not isinstance(change, ObjectChange) or change.where != seen.local:
            return ()
        match change.object:
            case GlobalService(metadata=meta):
                return (host_key(meta.name),)
            case AMKOCluster():
                return self.probe_keys(seen)
            case _:
                return ()

    def probes(self, key: Key, seen: Snapshot) -> Sequence[Probe]:
        """Only who is meant to lead tries members; conflicts do not end that."""
        service = seen.get(seen.local, GlobalService, key.name, NAMESPACE)
        if service is None or not self.options.probes or not _means_to_lead(seen):
            return ()
        return tuple(probes_of(service))

    def forbidden(self, seen: Snapshot) -> frozenset[str]:
        return api_addresses(seen)


def _means_to_lead(seen: Snapshot) -> bool:
    own = own_cluster(seen)
    return own is not None and own.spec.is_leader


def _asking(names: Iterable[str], seen: Snapshot) -> Plan:
    """A plan that keeps the addresses of names known."""
    several = [looked_up(name, seen) for name in names]
    again = min((one.again_after for one in several), default=None)
    return Plan(questions=tuple(one.question for one in several), again_after=again)


def _is_inherited(host: str, standing: Leading, seen: Snapshot) -> bool:
    """Whether a service is another leader's and this one has no policy at all.

    Who never had what its predecessor went by does not end what that one served.
    """
    service = seen.get(seen.local, GlobalService, host, NAMESPACE)
    term = term_on(service) if service is not None else None
    return term is not None and term.context != standing.context and not policies_of(seen)


def _uuid(seen: Snapshot) -> Iterator[Patch]:
    """By which name we are known to a controller; the same for every leader after this one."""
    config = config_of(seen)
    if isinstance(config, Config) and UUID not in config.object.metadata.annotations:
        change = {"metadata": {"annotations": {UUID: config.object.metadata.uid}}}
        yield Patch(Place(seen.local, ref_of(config.object)), change)


def _as_it_is(
    kind: type[Object],
    name: str,
    where: str,
    seen: Snapshot,
    *,
    shared: bool = True,
    namespace: str = NAMESPACE,
) -> Iterator[Desired]:
    """An object as it stands, so that it is neither changed nor deleted."""
    standing = seen.get(where, kind, name, namespace)
    if standing is None:
        return
    meta = standing.metadata
    kept = Meta(
        name=meta.name, namespace=meta.namespace, labels=meta.labels, annotations=meta.annotations
    )
    yield Desired(replace(standing, metadata=kept), where, shared=shared)
