"""Allocates addresses for Services: from their network, the cluster's range or a provider."""

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
from hanse.features.networks.external_ipam import provider_call
from hanse.features.networks.lookups import ipam_mode
from hanse.features.networks.names import RANGE_OF
from hanse.features.networks.ranges import Range, parse_range
from hanse.model.admission import AdmissionRequest, NeedsAnswer
from hanse.model.facts import Answer, Fact
from hanse.model.kinds.networking import IPAddress, ServiceCIDR
from hanse.model.objects import ClusterId, Wire
from hanse.model.snapshot import Snapshot

FAMILIES = {4: "IPv4", 6: "IPv6"}


class AssignedSlot(Fact, frozen=True):
    """The residue class that this replica allocates addresses from."""

    cluster: ClusterId
    slot: PoolSlot

    @property
    def key(self) -> ClusterId:
        """The cluster in which the replica allocates."""
        return self.cluster


class AddressRequest(Struct, frozen=True):
    """The IP versions that a Service needs, in order, and the addresses it requests."""

    versions: tuple[int, ...]
    given: tuple[str, ...] = ()


class ServiceAddresses:
    """Allocates addresses for Services during admission.

    Its only state is reservations, which may be lost without harm.
    """

    def __init__(self) -> None:
        self._pools: dict[str, Pool] = {}

    def allocate_for_tenant(
        self, review: AdmissionRequest, membership: NetworkMembership, snapshot: Snapshot
    ) -> Wire:
        """The spec fields with an address by the network's IPAM mode; empty if none is to be set.

        That is for headless and ExternalName Services and, but with ipam External, if one is
        requested. On a dry run they have no address. Raises `RequestDenied` if none is free, or the
        requested one is not allowed, and `ReadRequired` if an answer is needed first.
        """
        spec: Wire = review.object.get("spec") or {}
        if is_addressless(spec):
            return {}
        match ipam_mode(membership.network):
            case "External":
                fields = self._from_provider(review, membership, snapshot)
            case "Arktos":
                fields = self._from_network(review, spec, membership, snapshot)
            case _:
                fields = self._from_cluster(review, spec, snapshot)
        return _without_address(fields) if review.dry_run else fields

    def allocate_for_cluster(self, review: AdmissionRequest, snapshot: Snapshot) -> Wire:
        """The spec fields with an address of the cluster's own range; empty if none is to be set.

        That is for headless and ExternalName Services, if one is requested, or if the API server
        allocates. On a dry run they have no address. Raises `RequestDenied` if none is free, or the
        requested one is in a network's range.
        """
        spec: Wire = review.object.get("spec") or {}
        fields = {} if is_addressless(spec) else self._from_cluster(review, spec, snapshot)
        return _without_address(fields) if review.dry_run else fields

    def _from_network(
        self,
        review: AdmissionRequest,
        spec: Wire,
        membership: NetworkMembership,
        snapshot: Snapshot,
    ) -> Wire:
        """The spec fields with an address of the network's ranges; empty if one is requested.

        A requested address is only checked: `RequestDenied` (422) if it is outside of the ranges,
        reserved for the network itself, or a network or broadcast address. Also raised if none is
        free.
        """
        ranges = service_ranges(membership.network)
        pool = self._pool(str(membership.name), ranges, reserved_addresses(membership.network))
        request = _parse_request(spec, ranges)
        for text in request.given:
            address = parse_address(text)
            if address is None or not is_in_ranges(address, ranges):
                texts = ", ".join(str(r) for r in ranges)
                raise RequestDenied(
                    f"spec.clusterIP: {text[:50]} is outside of network {membership.name} "
                    f"({texts}); leave it out, or choose one inside",
                    422,
                )
            if str(address) in pool.excluded or is_network_or_broadcast(address, ranges):
                raise RequestDenied(
                    f"spec.clusterIP: {text} is kept for network {membership.name} itself; "
                    "choose another",
                    422,
                )
        if request.given:
            return {}
        return self._allocate(review, pool, request, f"network {membership.name}", snapshot)

    def _from_cluster(self, review: AdmissionRequest, spec: Wire, snapshot: Snapshot) -> Wire:
        """The spec fields with an address of the cluster's own range; empty if one is requested.

        Empty, too, if no network has a ServiceCIDR or the cluster's is not known: the API server
        allocates then. Raises `RequestDenied` for a requested address in a network's range, and if
        none is free.
        """
        own = cluster_ranges(snapshot)
        request = _parse_request(spec, own)
        for text in request.given:
            address = parse_address(text)
            owner = next(
                (
                    n
                    for n, r in _network_ranges(snapshot)
                    if address and is_in_ranges(address, (r,))
                ),
                "",
            )
            if owner:
                raise RequestDenied(
                    f"spec.clusterIP: {text[:50]} is in a range of network {owner}; "
                    "leave it out, or choose another",
                    422,
                )
        if request.given or not own or next(_network_ranges(snapshot), None) is None:
            return {}
        pool = self._pool(
            DEFAULT_SERVICE_CIDR, own, frozenset(), first_offset=static_band_size(own[0])
        )
        return self._allocate(review, pool, request, "the cluster's own range", snapshot)

    def _allocate(
        self,
        review: AdmissionRequest,
        pool: Pool,
        request: AddressRequest,
        owner: str,
        snapshot: Snapshot,
    ) -> Wire:
        """Reserve an address of each requested IP version (not on a dry run), as spec fields.

        Without an assigned slot it is one of the whole pool. Raises `RequestDenied` (507) if none
        is free.
        """
        slot = snapshot.fact(AssignedSlot, snapshot.local)

        def is_used(address: str) -> bool:
            """Whether an IPAddress exists for the address."""
            return snapshot.get(snapshot.local, IPAddress, address) is not None

        addresses: list[str] = []
        for version in request.versions:
            address = pool.take(
                slot.slot if slot is not None else PoolSlot(),
                version,
                is_used,
                snapshot.now,
                reserve=not review.dry_run,
            )
            if address is None:
                raise RequestDenied(_exhausted_message(version, pool, owner), 507)
            addresses.append(address)
        return _address_fields(review.object.get("spec") or {}, addresses, request)

    def _from_provider(
        self, review: AdmissionRequest, membership: NetworkMembership, snapshot: Snapshot
    ) -> Wire:
        """The spec fields with the provider's address, which may be another than requested.

        The provider is told which one the Service requests, and of a dry run. Raises `ReadRequired`
        until there is an answer, and `RequestDenied` (503) if the answer has no address.
        """
        spec: Wire = review.object.get("spec") or {}
        requested_address = str(spec.get("clusterIP") or "")
        call = provider_call(
            membership.network,
            "allocate",
            namespace=review.namespace,
            service=review.name or str((review.object.get("metadata") or {}).get("name")),
            address=requested_address,
            dry_run=review.dry_run,
            request=review.uid,
        )
        answer = snapshot.fact(Answer, call.id)
        if answer is None:
            raise ReadRequired(NeedsAnswer(call))
        address = parse_address(str((answer.value or {}).get("address", "")))
        if address is None:
            reason = answer.error or "it gave no address"
            raise RequestDenied(
                f"provider {membership.network.spec.type} did not answer for network "
                f"{membership.name} ({reason}); try again",
                503,
            )
        return {"clusterIP": str(address), "clusterIPs": [str(address)]}

    def _pool(
        self, name: str, ranges: tuple[Range, ...], excluded: frozenset[str], first_offset: int = 1
    ) -> Pool:
        """The pool of a name, kept between calls.

        A new one, without reservations, if its ranges or excluded addresses have changed.
        """
        pool = self._pools.get(name)
        if pool is None or pool.ranges != ranges or pool.excluded != excluded:
            pool = self._pools[name] = Pool(ranges, excluded, first_offset)
        return pool


def is_addressless(spec: Wire) -> bool:
    """Whether a Service spec has no cluster IP: type ExternalName, or clusterIP None."""
    return spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None"


def needs_address(review: AdmissionRequest) -> bool:
    """Whether a request creates a Service, or changes one from ExternalName to another type.

    A created one counts whatever its type.
    """
    if review.operation == "CREATE":
        return True
    before: Wire = review.before.get("spec") or {}
    after: Wire = review.object.get("spec") or {}
    return before.get("type") == "ExternalName" and after.get("type") != "ExternalName"


def _parse_request(spec: Wire, ranges: tuple[Range, ...]) -> AddressRequest:
    """The addresses that a Service's spec requests, not validated, and the IP versions it needs.

    These are by ipFamilies, else that of the first range, or IPv4 without ranges; RequireDualStack
    adds the other version, PreferDualStack only if a range has it.
    """
    given = [text for text in (spec.get("clusterIPs") or ()) if text]
    if not given and spec.get("clusterIP"):
        given = [str(spec["clusterIP"])]
    available = list(dict.fromkeys(r.version for r in ranges)) or [4]
    requested = [6 if family == "IPv6" else 4 for family in spec.get("ipFamilies") or ()]
    versions = requested or available[:1]
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and len(versions) == 1:
        versions = [*versions, 4 if versions[0] == 6 else 6]
    elif spec.get("ipFamilyPolicy") == "PreferDualStack":
        versions = list(dict.fromkeys([*versions, *available]))
    return AddressRequest(tuple(versions), tuple(given))


def _exhausted_message(version: int, pool: Pool, owner: str) -> str:
    """The message for a pool without a free address of an IP version.

    It differs for a pool that has no range of that version at all.
    """
    family = FAMILIES[version]
    if all(range_.version != version for range_ in pool.ranges):
        return (
            f"spec.ipFamilies: {owner} has no {family} range; leave {family} out, or have an "
            "administrator add one"
        )
    return (
        f"spec.clusterIP: no {family} address of {owner} is free; delete a Service of it, or "
        "have an administrator add a range"
    )


def _address_fields(spec: Wire, addresses: list[str], request: AddressRequest) -> Wire:
    """The spec fields clusterIP and clusterIPs with allocated addresses.

    Where the Service prefers dual-stack and only one IP version was requested, also ipFamilyPolicy
    SingleStack.
    """
    given: Wire = {"clusterIP": addresses[0], "clusterIPs": addresses}
    if spec.get("ipFamilyPolicy") == "PreferDualStack" and len(request.versions) == 1:
        # else the API server adds a second address, from any range
        given["ipFamilyPolicy"] = "SingleStack"
    return given


def _without_address(fields: Wire) -> Wire:
    """The spec fields of a dry run: without clusterIP and clusterIPs.

    On a dry run the API server checks addresses against any one ServiceCIDR, so that it refuses
    most that are set.
    """
    return {name: value for name, value in fields.items() if not name.startswith("clusterIP")}


def _network_ranges(snapshot: Snapshot) -> Iterator[tuple[str, Range]]:
    """Network (its label value, maybe shortened) and range of each ServiceCIDR of networks."""
    for cidr in snapshot.all(snapshot.local, ServiceCIDR):
        if RANGE_OF in cidr.metadata.labels:
            for text in cidr.spec.cidrs:
                if (range_ := parse_range(text)) is not None:
                    yield cidr.metadata.labels[RANGE_OF], range_
