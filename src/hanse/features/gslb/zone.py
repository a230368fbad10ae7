"""The zone of global services: which members a host name has, by priority, health and algorithm."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from hanse.features.gslb.ended_hosts import EndedHosts
from hanse.features.gslb.health import (
    MemberAddress,
    current_health,
    list_serving_members,
    list_stand_ins,
    member_probes,
)
from hanse.features.gslb.known import KnownHosts, is_withdrawn
from hanse.features.gslb.leader_lease import leader_word
from hanse.features.gslb.names import HOSTS, LEADER_LEASE
from hanse.model.dns.names import parse_name, wire_name
from hanse.model.dns.records import (
    ClientSelection,
    RecordType,
    RRset,
    ZoneNode,
    address_rdata,
    weighted_rrset,
)
from hanse.model.dns.service_records import address_rrsets
from hanse.model.dns.zones import View
from hanse.model.facts import LeaseFreshness, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, GlobalServiceSpec
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.plan import Key
from hanse.model.probes import Probe, TargetHealth
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch

HOST = "host"
HASH = "GSLB_ALGORITHM_CONSISTENT_HASH"
NEAR = ("GSLB_ALGORITHM_GEO", "GSLB_ALGORITHM_TOPOLOGY")
DEFAULT_MASK = 24
LOWER_PRIORITY = "others of a higher priority are up"
_FAMILIES = ((RecordType.A, 4), (RecordType.AAAA, 16))


class GlobalZone:
    """The host names of all GlobalServices in the view's global zones, and their probes.

    It answers what it last knew (`KnownHosts`) and judges by itself: by probes of this process,
    and by the leader's word while that is fresh. Who served by a leader's word alone does so until
    its probes have a result: of a new leader the first services may be seen before its Lease.
    """

    name = "gslb"
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, GlobalService, namespace=NAMESPACE),
        Watch(
            Role.LOCAL,
            Lease,
            namespace=NAMESPACE,
            name=LEADER_LEASE,
            reason="whether the word of the leader of global names is fresh",
        ),
    )

    def __init__(self, view: View) -> None:
        """The names of global hosts in the view's global zones; no host is known yet."""
        self.view = view
        self.zones: tuple[bytes, ...] = tuple(wire_name(zone) for zone in view.global_zones)
        self.known = KnownHosts()
        self._ended = EndedHosts(self.known)
        self._served: dict[str, frozenset[MemberAddress]] = {}
        """The members that served each host when its nodes were last built."""
        self.forbidden_addresses: frozenset[str] = frozenset()
        """Addresses of API servers, which are not probed."""

    @property
    def answers_known(self) -> bool:
        """True: known names are answered before everything was listed."""
        return True

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether GlobalServices are listed here, or not served."""
        return snapshot.listed_or_unserved(snapshot.local, GlobalService)

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """A key for each known host; adds all present GlobalServices to the known ones first."""
        self.known.update(snapshot.all(snapshot.local, GlobalService))
        for service in list(self.known):
            yield Key(HOST, service.metadata.name)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The host of a changed GlobalService here and hosts that have its name as an alias.

        Also the hosts of members with changed health; all known hosts if the leader's Lease comes,
        goes, turns fresh or stale, or changes annotations other than HOSTS, else those that ended
        by it. Known hosts are updated.
        """
        if isinstance(change, FactChange):
            return self._keys_for_fact(change)
        if change.where != snapshot.local:
            return ()
        self.known.observe(change, snapshot.local)
        match change.object:
            case GlobalService(metadata=meta):
                return self._host_keys(meta.name)
            case Lease():
                ended = self._keys_of_ended(change, snapshot)
                return [*ended, *self.keys(snapshot)] if _has_new_word(change) else ended
            case _:
                return ()

    def _keys_of_ended(self, change: ObjectChange, snapshot: Snapshot) -> Sequence[Key]:
        """The keys of hosts that ended by a renewal of the leader's Lease, which become unknown.

        Also those of hosts that have such a name as an alias. None for other Leases, or if the
        Lease is deleted.
        """
        lease = change.after
        if not isinstance(lease, Lease) or lease.metadata.name != LEADER_LEASE:
            return ()
        ended = self._ended.observe(lease, snapshot)
        return [key for host in ended for key in self._host_keys(host)]

    def _host_keys(self, host: str) -> Sequence[Key]:
        """The keys of a host and of the hosts that have its name as an alias."""
        return [Key(HOST, name) for name in (host, *self.known.hosts_of_alias(host))]

    def _keys_for_fact(self, change: FactChange) -> Iterable[Key]:
        """The hosts of a probed address; all known ones if the leader's Lease turns fresh or stale.

        None for other facts.
        """
        match change.fact:
            case TargetHealth(target):
                return [Key(HOST, host) for host in self.known.hosts_at(target.address)]
            case LeaseFreshness(_, _, name) if name == LEADER_LEASE:
                return [Key(HOST, service.metadata.name) for service in self.known]
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        """A function from a host's key to its nodes; none if the host is unknown or withdrawn.

        Each call remembers which members serve the host.
        """

        def build_nodes(key: Key) -> Sequence[ZoneNode]:
            """The nodes of a host; none if it is unknown or withdrawn. Remembers who serves."""
            service = self.known.get(key.name) or global_service(key.name, snapshot)
            if service is None or is_withdrawn(service):
                self._served.pop(key.name, None)
                return ()
            return tuple(self._nodes(service, snapshot))

        return build_nodes

    # -- probes

    def probe_keys(self, snapshot: Snapshot) -> Iterable[Key]:
        """The keys of all known hosts; adds all present GlobalServices to these first."""
        return self.keys(snapshot)

    def probe_keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The host of a changed GlobalService here, and those that have it as an alias.

        Or those that ended by a renewal of the leader's Lease; else none. Known hosts are updated.
        """
        if isinstance(change, FactChange) or change.where != snapshot.local:
            return ()
        if isinstance(change.object, Lease):
            return self._keys_of_ended(change, snapshot)
        return self.keys_for(change, snapshot) if isinstance(change.object, GlobalService) else ()

    def probes(self, key: Key, snapshot: Snapshot) -> Sequence[Probe]:  # noqa: ARG002 - the sources' signature
        """The probes of a known host's members, without those of their other paths."""
        service = self.known.get(key.name)
        return tuple(member_probes(service)) if service is not None else ()

    def forbidden(self, snapshot: Snapshot) -> frozenset[str]:  # noqa: ARG002 - the sources' signature
        """The addresses that are never probed, set by the owner of the zone."""
        return self.forbidden_addresses

    def _nodes(self, service: GlobalService, snapshot: Snapshot) -> Iterator[ZoneNode]:
        """The node of each name of a host: its answered members, else the down response.

        Without a down response stand-ins are answered if none serves: who did last, or is untried.
        An alias that is a known host itself, and a name that is invalid in DNS, is left out.
        """
        ttl = self.view.ttl if service.spec.ttl is None else service.spec.ttl
        answered = self._list_answered(service, snapshot)
        if answered:
            rrsets = tuple(_weighted_rrsets(service.spec, answered, ttl))
        else:
            rrsets = tuple(_down_rrsets(service.spec, ttl))
        for text in (service.spec.host, *service.spec.aliases):
            name = parse_name(text)
            is_alias = text != service.spec.host
            if name is not None and not (is_alias and self.known.get(text) is not None):
                yield ZoneNode(name, rrsets)

    def _list_answered(self, service: GlobalService, snapshot: Snapshot) -> list[GlobalMember]:
        """The members that serve; if none does and no down response is set, their stand-ins.

        Remembers those that serve now as `served` of the next call.
        """
        host = service.metadata.name
        served = self._served.get(host, frozenset())
        serving = list_serving_members(service, leader_word(service, snapshot), snapshot, served)
        self._served[host] = frozenset((m.cluster, m.address) for m in serving)
        return _or_stand_ins(serving, service, snapshot)


def list_answered_members(service: GlobalService, snapshot: Snapshot) -> list[GlobalMember]:
    """The members that serve; if none does and no down response is set, their stand-ins."""
    serving = list_serving_members(service, leader_word(service, snapshot), snapshot)
    return _or_stand_ins(serving, service, snapshot)


def _or_stand_ins(
    serving: list[GlobalMember], service: GlobalService, snapshot: Snapshot
) -> list[GlobalMember]:
    """Those that serve; if none does and no down response is set, their stand-ins."""
    if serving or service.spec.when_down is not None:
        return serving
    return list_stand_ins(service, snapshot)


def _has_new_word(change: ObjectChange) -> bool:
    """Whether the leader's Lease appeared, is gone, or says something else about clusters.

    The annotation HOSTS does not count.
    """
    if change.object.metadata.name != LEADER_LEASE:
        return False
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    notes = (before.metadata.annotations, after.metadata.annotations)
    word, other = ({k: v for k, v in each.items() if k != HOSTS} for each in notes)
    return word != other


def _weighted_rrsets(
    spec: GlobalServiceSpec, members: Sequence[GlobalMember], ttl: int
) -> Iterator[RRset]:
    """RRsets of each family that answer with one member, by weight or by client.

    Weights of equal addresses add up; a family without addresses has no RRset.
    """
    for rtype, size in _FAMILIES:
        weights: dict[bytes, int] = {}
        labels: dict[bytes, str] = {}
        for member in members:
            rdata = address_rdata(member.advertised_address)
            if rdata is not None and len(rdata) == size:
                weights[rdata] = weights.get(rdata, 0) + member.weight
                labels.setdefault(rdata, member.cluster)
        if weights:
            rrset = weighted_rrset(rtype, weights.items(), ttl)
            selection = _client_selection(spec, tuple(labels[rdata] for rdata in weights))
            yield rrset if selection is None else RRset(rtype, rrset.variants, 0, selection)


def _client_selection(spec: GlobalServiceSpec, labels: tuple[str, ...]) -> ClientSelection | None:
    """How answers are chosen by client: by hash or by proximity; None for weighted rotation.

    By proximity, clients of unknown location are hashed only if that is the fallback.
    """
    mask = spec.hash_mask or DEFAULT_MASK
    if spec.algorithm == HASH:
        return ClientSelection(labels, mask=mask)
    if spec.algorithm in NEAR:
        return ClientSelection(labels, near=True, mask=mask if spec.fallback == HASH else 0)
    return None


def _down_rrsets(spec: GlobalServiceSpec, ttl: int) -> Iterator[RRset]:
    """The RRsets while all members are down, by `when_down`: all members, or the fallback IP.

    RRsets that make the server not answer for NONE; no RRsets otherwise.
    """
    match spec.when_down:
        case "GSLB_SERVICE_DOWN_RESPONSE_ALL_RECORDS":
            yield from _full_rrsets([member.advertised_address for member in spec.members], ttl)
        case "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP":
            yield from _full_rrsets([spec.fallback_ip], ttl)
        case "GSLB_SERVICE_DOWN_RESPONSE_NONE":
            for rtype, _ in _FAMILIES:
                yield RRset(rtype, (), 0, ClientSelection(silent=True))
        case _:
            return


def _full_rrsets(addresses: Iterable[str], ttl: int) -> tuple[RRset, ...]:
    """RRsets with all addresses in each response; texts that are no IP address are skipped."""
    rdatas = [rdata for text in addresses if (rdata := address_rdata(text)) is not None]
    return address_rrsets(rdatas, ttl)


def global_service(name: str, snapshot: Snapshot) -> GlobalService | None:
    """The GlobalService here of a host name, or else the first with it as an alias; else None.

    The name may have any case and a final dot. The service may be withdrawn.
    """
    host = name.lower().removesuffix(".")
    found = snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)
    services = snapshot.all(snapshot.local, GlobalService) if found is None else ()
    return found or next((s for s in services if host in s.spec.aliases), None)


def global_rrset(
    service: GlobalService, rtype: int, view: View, snapshot: Snapshot
) -> RRset | None:
    """The RRset of a type, as the server has it by this snapshot; None if there is none."""
    nodes = GlobalZone(view).records_for(snapshot)(Key(HOST, service.metadata.name))
    return next((a for node in nodes for a in node.rrsets if a.type == rtype), None)


def global_rule(service: GlobalService, snapshot: Snapshot) -> str:
    """The rule that selects a member, in words for `hanse resolve`.

    While none is up, what is answered in their place.
    """
    spec = service.spec
    serving = list_serving_members(service, leader_word(service, snapshot), snapshot)
    if not serving:
        last = ", ".join(map(_describe_member, list_answered_members(service, snapshot)))
        if last:
            return (
                f"no member is up; those that were last, or were never tried, are answered: {last}"
            )
        mode = (spec.when_down or "nothing was said").removeprefix("GSLB_SERVICE_DOWN_RESPONSE_")
        return f"every member is down; what is answered then: {mode.lower().replace('_', ' ')}"
    names = ", ".join(_describe_member(member) for member in serving)
    if spec.algorithm == HASH:
        return f"the same for a network of {spec.hash_mask or 24} bits, among {names}"
    if spec.algorithm in NEAR:
        return f"the cluster near to the client, among {names}"
    return f"in turn by weight, priority {serving[0].priority}: {names}"


def excluded_members(service: GlobalService, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Pairs of member and reason for those that neither serve nor stand in.

    The reason is LOWER_PRIORITY if the member is up. With a down response all members are listed
    while all are down.
    """
    believes = leader_word(service, snapshot)
    serving = {(m.cluster, m.address) for m in list_answered_members(service, snapshot)}
    return [
        (_describe_member(member), LOWER_PRIORITY if verdict.up else verdict.reason)
        for member, verdict in current_health(service, believes, snapshot)
        if (member.cluster, member.address) not in serving
    ]


def _describe_member(member: GlobalMember) -> str:
    """`CLUSTER (ADDRESS)` of a member, for messages."""
    return f"{member.cluster} ({member.advertised_address})"
