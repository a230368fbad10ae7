"""Selects among the variants of an RRset: by weight, by hash of the client, or by region."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import cycle
from math import gcd, log
from random import Random

from msgspec import Struct

from hanse.dns.questions import ClientSubnet
from hanse.model.dns.records import ClientSelection, RRset
from hanse.model.weights import effective_weights

MAX_CACHED_NETWORKS = 4096
"""Client networks whose selection is cached for one name."""


class QueryClient(Struct, frozen=True):
    """The network that a query comes from, and how many bits of its address are known."""

    network: int
    bits: int
    width: int
    """32 for IPv4, 128 for IPv6."""

    def prefix(self, bits: int) -> int:
        """The first bits of the address, as a number."""
        return self.network >> (self.width - bits)


class Regions:
    """Client CIDRs with the cluster near to each; the longest prefix wins."""

    def __init__(self, ranges: Iterable[tuple[str, str]] = ()) -> None:
        """Clusters by CIDR; of several that contain an address, the longest prefix counts.

        Raises `ValueError` for an invalid CIDR; of equal ones the last counts.
        """
        self._by_bits: dict[int, list[tuple[int, dict[int, str]]]] = {32: [], 128: []}
        found: dict[tuple[int, int], dict[int, str]] = {}
        for text, cluster in ranges:
            net = ip_network(text, strict=False)
            first = int(net.network_address) >> (net.max_prefixlen - net.prefixlen)
            found.setdefault((net.max_prefixlen, net.prefixlen), {})[first] = cluster
        for (width, bits), table in sorted(found.items(), reverse=True):
            self._by_bits[width].append((bits, table))

    def near(self, client: QueryClient) -> str:
        """The cluster of the longest CIDR that contains a client; empty if none does.

        CIDRs longer than the known bits of the client do not match.
        """
        for bits, table in self._by_bits[client.width]:
            if bits <= client.bits and (cluster := table.get(client.prefix(bits))):
                return cluster
        return ""


class Resolvers:
    """The resolvers whose EDNS client subnet is trusted."""

    def __init__(self, ranges: Iterable[str] = ()) -> None:
        """Trusts resolvers by CIDR, none without any; raises `ValueError` for an invalid one."""
        self._networks: list[IPv4Network | IPv6Network] = [
            ip_network(text, strict=False) for text in ranges
        ]
        self._cached: dict[str, bool] = {}

    def trusts(self, resolver: str) -> bool:
        """Whether a resolver's address is in one of the CIDRs; False if there are none.

        Raises `ValueError` for a text that is no address, but not without CIDRs. A zone id is
        ignored.
        """
        if not self._networks:
            return False
        known = self._cached.get(resolver)
        if known is None:
            if len(self._cached) >= MAX_CACHED_NETWORKS:
                self._cached.clear()
            address = ip_address(resolver.partition("%")[0])
            known = self._cached[resolver] = any(address in net for net in self._networks)
        return known


def client_from_address(address: str) -> QueryClient:
    """A client by the source address of its query, all of whose bits are known.

    A zone id is ignored; raises `ValueError` for a text that is no address.
    """
    found = ip_address(address.partition("%")[0])
    width = found.max_prefixlen
    return QueryClient(int(found), width, width)


def client_from_subnet(subnet: ClientSubnet) -> QueryClient:
    """A client by the EDNS client subnet of its resolver; only the subnet's bits are known."""
    width = 32 if subnet.family == 1 else 128
    whole = subnet.address.ljust(width // 8, b"\0")
    return QueryClient(int.from_bytes(whole), subnet.bits, width)


class ClientSelector:
    """Selects the variant of one RRset for a client: by region, by hash, or by rotation."""

    def __init__(self, answer: RRset, random: Random) -> None:
        """The RRset must have a client selection; `random` sets where rotations begin."""
        assert answer.selection is not None, "other RRsets rotate for all clients alike"
        self._choice: ClientSelection = answer.selection
        self._weights = tuple(variant.weight for variant in answer.variants)
        self._bodies = tuple(variant.body for variant in answer.variants)
        self._cached: dict[tuple[int, int], int] = {}
        self._random = random
        self._rotations: dict[str, Iterator[int]] = {}

    @property
    def silent(self) -> bool:
        """Whether queries are dropped without a response."""
        return self._choice.silent

    def choose(self, client: QueryClient, regions: Regions) -> int:
        """The index of the variant for a client, by the RRset's client selection.

        With `near` that of the cluster near the client by `regions`, if it has any; else, with a
        mask, by hash of the client's network; else of all variants. Where several remain, a
        weighted rotation that advances with each call.
        """
        choice = self._choice
        if choice.near:
            cluster = regions.near(client)
            if cluster in choice.labels:
                return next(self._rotation(cluster))
        if choice.mask:
            return self._by_hash(client)
        return next(self._rotation(""))

    def _by_hash(self, client: QueryClient) -> int:
        """The index of the variant by consistent hash of the client's network.

        The network has `mask` bits, of IPv6 twice as many, but no more than are known.
        """
        bits = self._choice.mask if client.width == 32 else self._choice.mask * 2
        bits = min(bits, client.bits)
        key = (client.width, client.prefix(bits))
        chosen = self._cached.get(key)
        if chosen is None:
            if len(self._cached) >= MAX_CACHED_NETWORKS:
                self._cached.clear()
            chosen = self._cached[key] = rendezvous_choice(
                repr(key).encode(), self._bodies, self._weights
            )
        return chosen

    def _rotation(self, label: str) -> Iterator[int]:
        """The weighted rotation among the variants of one cluster; an empty label is all variants.

        It begins at a random index, and is kept for later calls. There must be such a variant.
        """
        if label not in self._rotations:
            labels = self._choice.labels
            mine = [n for n in range(len(labels)) if label in ("", labels[n])]
            order = weighted_order(tuple(self._weights[n] for n in mine))
            start = self._random.randrange(len(order))
            self._rotations[label] = cycle([mine[n] for n in order[start:] + order[:start]])
        return self._rotations[label]


def rendezvous_choice(key: bytes, names: Sequence[bytes], weights: Sequence[int]) -> int:
    """The index of the name that weighted rendezvous hashing selects for a key.

    Adding or removing a name moves only its own share of keys.
    """

    def score(at: int) -> float:
        """A pseudorandom score by name, key and weight (at least 1); the lowest is selected."""
        digest = blake2b(names[at], key=key[:64], digest_size=8).digest()
        share = (int.from_bytes(digest) + 1) / (2**64 + 2)
        return -log(share) / max(weights[at], 1)

    return min(range(len(names)), key=score)


MAX_CYCLE = 4096
"""Longest cycle of a rotation; weights that would need a longer one are rounded."""


@lru_cache(maxsize=1024)
def weighted_order(weights: tuple[int, ...]) -> tuple[int, ...]:
    """The shortest cycle of smooth weighted round robin, of about MAX_CYCLE indexes at most.

    Each index occurs in proportion to its weight, spread evenly; one of weight 0 or less never,
    unless all are, which counts as equal weights.
    """
    shares = list(_reduce_weights(effective_weights([max(weight, 0) for weight in weights])))
    whole = sum(shares)
    credit = [0] * len(shares)
    order: list[int] = []
    for _ in range(whole):
        for index, share in enumerate(shares):
            credit[index] += share
        best = credit.index(max(credit))
        credit[best] -= whole
        order.append(best)
    return tuple(order)


def _reduce_weights(weights: Sequence[int]) -> Sequence[int]:
    """Weights divided by their common divisor, scaled down if their sum is above `MAX_CYCLE`.

    Not all are 0; none above 0 becomes 0.
    """
    common = gcd(*weights)
    least = [weight // common for weight in weights]
    whole = sum(least)
    if whole <= MAX_CYCLE:
        return least
    return [max(1, weight * MAX_CYCLE // whole) if weight else 0 for weight in least]
