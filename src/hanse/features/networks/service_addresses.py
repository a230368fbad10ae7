"""The addresses of Services: of their network's pool, of the cluster's range, or a provider's."""

from collections.abc import Iterator

from msgspec import Struct

from hanse.features.networks.address_pools import Pool, PoolSlot
from hanse.features.networks.addresses import (
    DEFAULT_SERVICE_CIDR,
    cluster_ranges,
    is_in_ranges,
    is_network_or_broadcast,
    parse_address,
    reserved_addresses,
    service_ranges,
    static_band_size,
)
from hanse.features.networks.admission import NetworkMembership, ReadRequired, RequestDenied
from hanse.features.networks.lookups import ipam_mode
from hanse.features.networks.names import RANGE_OF
from hanse.features.networks.ranges import Range, parse_range
from hanse.model.admission import AdmissionRequest, NeedsAnswer
from hanse.model.facts import Answer, Fact
from hanse.model.kinds.networking import IPAddress, ServiceCIDR
from hanse.model.objects import ClusterId, Wire
from hanse.model.plan import Call
from hanse.model.snapshot import Snapshot

FAMILIES = {4: "IPv4", 6: "IPv6"}


class AssignedSlot(Fact, frozen=True):
    """Which residue of every pool this replica gives addresses out of."""

    cluster: ClusterId
    slot: PoolSlot

    @property
    def key(self) -> ClusterId:
        return self.cluster


class AddressRequest(Struct, frozen=True):
    """What a Service asks for: addresses by family, in order."""

    versions: tuple[int, ...]
    given: tuple[str, ...] = ()


class ServiceAddresses:
    """Gives Services their addresses.

    It remembers what it promised and nothing else: all of it is lost without harm.
    """

    def __init__(self) -> None:
        self._pools: dict[str, Pool] = {}

    def allocate_for_tenant(
        self, review: AdmissionRequest, at: NetworkMembership, snapshot: Snapshot
    ) -> Wire:
        """The part of a Service's spec that gives it an address of its network."""
        spec: Wire = review.object.get("spec") or {}
        if is_addressless(spec):
            return {}
        match ipam_mode(at.network):
            case "External":
                return self._from_provider(review, at, snapshot)
            case "Arktos":
                return self._from_network(review, spec, at, snapshot)
            case _:
                return self._from_cluster(review, spec, snapshot)

    def allocate_for_cluster(self, review: AdmissionRequest, snapshot: Snapshot) -> Wire:
        """The part of a Service's spec that gives it an address which is no network's."""
        spec: Wire = review.object.get("spec") or {}
        return {} if is_addressless(spec) else self._from_cluster(review, spec, snapshot)

    def _from_network(
        self, review: AdmissionRequest, spec: Wire, at: NetworkMembership, snapshot: Snapshot
    ) -> Wire:
        ranges = service_ranges(at.network)
        pool = self._pool(str(at.name), ranges, reserved_addresses(at.network))
        wanted = _wanted(spec, ranges)
        for text in wanted.given:
            address = parse_address(text)
            if address is None or not is_in_ranges(address, ranges):
                told = ", ".join(str(r) for r in ranges)
                raise RequestDenied(
                    f"spec.clusterIP: {text[:50]} is outside of network {at.name} ({told}); "
                    "leave it out, or choose one inside",
                    422,
                )
            if str(address) in pool.kept or is_network_or_broadcast(address, ranges):
                raise RequestDenied(
                    f"spec.clusterIP: {text} is kept for network {at.name} itself; choose another",
                    422,
                )
        if wanted.given:
            return {}
        return self._taken(review, pool, wanted, f"network {at.name}", snapshot)

    def _from_cluster(self, review: AdmissionRequest, spec: Wire, snapshot: Snapshot) -> Wire:
        """An address of the cluster's own range, where it has others beside it."""
        own = cluster_ranges(snapshot)
        wanted = _wanted(spec, own)
        for text in wanted.given:
            address = parse_address(text)
            whose = next(
                (n for n, r in _others(snapshot) if address and is_in_ranges(address, (r,))), ""
            )
            if whose:
                raise RequestDenied(
                    f"spec.clusterIP: {text[:50]} is in a range of network {whose}; "
                    "leave it out, or choose another",
                    422,
                )
        if wanted.given or not own or next(_others(snapshot), None) is None:
            return {}
        pool = self._pool(DEFAULT_SERVICE_CIDR, own, frozenset(), lowest=static_band_size(own[0]))
        return self._taken(review, pool, wanted, "the cluster's own range", snapshot)

    def _taken(
        self,
        review: AdmissionRequest,
        pool: Pool,
        wanted: AddressRequest,
        whose: str,
        snapshot: Snapshot,
    ) -> Wire:
        slot = snapshot.fact(AssignedSlot, snapshot.local)

        def is_used(address: str) -> bool:
            return snapshot.get(snapshot.local, IPAddress, address) is not None

        taken: list[str] = []
        for version in wanted.versions:
            address = pool.take(
                slot.slot if slot is not None else PoolSlot(),
                version,
                is_used,
                snapshot.now,
                reserve=not review.dry_run,
            )
            if address is None:
                raise RequestDenied(_exhausted(version, pool, whose), 507)
            taken.append(address)
        return _given(review.object.get("spec") or {}, taken, wanted)

    def _from_provider(
        self, review: AdmissionRequest, at: NetworkMembership, snapshot: Snapshot
    ) -> Wire:
        """An address by a provider's word, asked for now: a headless Service gets none later."""
        spec: Wire = review.object.get("spec") or {}
        asked = str(spec.get("clusterIP") or "")
        call = Call(
            f"network-{at.network.spec.type}",
            (
                ("network", str(at.name)),
                ("namespace", review.namespace),
                ("service", review.name or str((review.object.get("metadata") or {}).get("name"))),
                ("address", asked),
                ("dry_run", review.dry_run),
                ("request", review.uid),
            ),
        )
        answer = snapshot.fact(Answer, call.id)
        if answer is None:
            raise ReadRequired(NeedsAnswer(call))
        address = parse_address(str((answer.value or {}).get("address", "")))
        if address is None:
            why = answer.error or "it gave no address"
            raise RequestDenied(
                f"provider {at.network.spec.type} did not answer for network {at.name} ({why}); "
                "try again",
                503,
            )
        return {"clusterIP": str(address), "clusterIPs": [str(address)]}

    def _pool(
        self, name: str, ranges: tuple[Range, ...], kept: frozenset[str], lowest: int = 1
    ) -> Pool:
        pool = self._pools.get(name)
        if pool is None or pool.ranges != ranges or pool.kept != kept:
            pool = self._pools[name] = Pool(ranges, kept, lowest)
        return pool


def is_addressless(spec: Wire) -> bool:
    """Whether a Service never has an address of its own."""
    return spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None"


def needs_address(review: AdmissionRequest) -> bool:
    """Whether a Service is new, or a change makes one that had no address want one."""
    if review.operation == "CREATE":
        return True
    before: Wire = review.before.get("spec") or {}
    after: Wire = review.object.get("spec") or {}
    return before.get("type") == "ExternalName" and after.get("type") != "ExternalName"


def _wanted(spec: Wire, ranges: tuple[Range, ...]) -> AddressRequest:
    given = [text for text in (spec.get("clusterIPs") or ()) if text]
    if not given and spec.get("clusterIP"):
        given = [str(spec["clusterIP"])]
    here = list(dict.fromkeys(r.version for r in ranges)) or [4]
    told = [6 if family == "IPv6" else 4 for family in spec.get("ipFamilies") or ()]
    versions = told or here[:1]
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and len(versions) == 1:
        versions = [*versions, 4 if versions[0] == 6 else 6]
    elif spec.get("ipFamilyPolicy") == "PreferDualStack":
        versions = list(dict.fromkeys([*versions, *here]))
    return AddressRequest(tuple(versions), tuple(given))


def _exhausted(version: int, pool: Pool, whose: str) -> str:
    """Why there is no address: all are used, or there never was one of the family."""
    family = FAMILIES[version]
    if all(range_.version != version for range_ in pool.ranges):
        return (
            f"spec.ipFamilies: {whose} has no {family} range; leave {family} out, or have an "
            "administrator add one"
        )
    return (
        f"spec.clusterIP: no {family} address of {whose} is free; delete a Service of it, or "
        "have an administrator add a range"
    )


def _given(spec: Wire, taken: list[str], wanted: AddressRequest) -> Wire:
    given: Wire = {"clusterIP": taken[0], "clusterIPs": taken}
    if spec.get("ipFamilyPolicy") == "PreferDualStack" and len(wanted.versions) == 1:
        given["ipFamilyPolicy"] = "SingleStack"  # or a second address would come from anywhere
    return given


def _others(snapshot: Snapshot) -> Iterator[tuple[str, Range]]:
    """The ranges of networks, by whose they are: there may be thousands."""
    for cidr in snapshot.all(snapshot.local, ServiceCIDR):
        if RANGE_OF in cidr.metadata.labels:
            for text in cidr.spec.cidrs:
                if (range_ := parse_range(text)) is not None:
                    yield cidr.metadata.labels[RANGE_OF], range_
