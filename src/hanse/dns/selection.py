"""Answers that depend on who asks: by a consistent hash of the client's network, or by region."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import cycle
from math import gcd, log
from random import Random

from msgspec import Struct

from hanse.dns.questions import Subnet
from hanse.model.dns.records import ClientSelection, RRset

MAX_CACHED_NETWORKS = 4096
"""Networks whose choice is remembered for one name."""


class Client(Struct, frozen=True):
    """The network that a question comes from, and how many bits of it are known."""

    network: int
    bits: int
    width: int
    """32 for IPv4, 128 for IPv6."""

    def prefix(self, bits: int) -> int:
        """The first bits of its address, as a number."""
        return self.network >> (self.width - bits)


class Regions:
    """Ranges of addresses and the cluster that is near to them; the narrowest range counts."""

    def __init__(self, ranges: Iterable[tuple[str, str]] = ()) -> None:
        self._by_bits: dict[int, list[tuple[int, dict[int, str]]]] = {32: [], 128: []}
        found: dict[tuple[int, int], dict[int, str]] = {}
        for text, cluster in ranges:
            net = ip_network(text, strict=False)
            first = int(net.network_address) >> (net.max_prefixlen - net.prefixlen)
            found.setdefault((net.max_prefixlen, net.prefixlen), {})[first] = cluster
        for (width, bits), table in sorted(found.items(), reverse=True):
            self._by_bits[width].append((bits, table))

    def near(self, client: Client) -> str:
        """The cluster near to a client; empty where nobody said."""
        for bits, table in self._by_bits[client.width]:
            if bits <= client.bits and (cluster := table.get(client.prefix(bits))):
                return cluster
        return ""


class Resolvers:
    """The resolvers whose word about their clients is taken."""

    def __init__(self, ranges: Iterable[str] = ()) -> None:
        self._networks: list[IPv4Network | IPv6Network] = [
            ip_network(text, strict=False) for text in ranges
        ]
        self._known: dict[str, bool] = {}

    def trusts(self, resolver: str) -> bool:
        if not self._networks:
            return False
        known = self._known.get(resolver)
        if known is None:
            if len(self._known) >= MAX_CACHED_NETWORKS:
                self._known.clear()
            address = ip_address(resolver.partition("%")[0])
            known = self._known[resolver] = any(address in net for net in self._networks)
        return known


def client_from_address(address: str) -> Client:
    """A client by the address that its question came from."""
    found = ip_address(address.partition("%")[0])
    width = found.max_prefixlen
    return Client(int(found), width, width)


def client_from_subnet(subnet: Subnet) -> Client:
    """A client by what its resolver says of it."""
    width = 32 if subnet.family == 1 else 128
    whole = subnet.address.ljust(width // 8, b"\0")
    return Client(int.from_bytes(whole), subnet.bits, width)


class ClientSelector:
    """One name's answers of a type, of which a client gets always the same, or one that is near."""

    def __init__(self, answer: RRset, random: Random) -> None:
        assert answer.selection is not None, "others are in turn for everybody"
        self._choice: ClientSelection = answer.selection
        self._weights = tuple(variant.weight for variant in answer.variants)
        self._bodies = tuple(variant.body for variant in answer.variants)
        self._known: dict[tuple[int, int], int] = {}
        self._random = random
        self._turns: dict[str, Iterator[int]] = {}

    @property
    def silent(self) -> bool:
        """Whether nothing at all is answered."""
        return self._choice.silent

    def choose(self, client: Client, regions: Regions) -> int:
        """Which of the prepared answers a client gets."""
        choice = self._choice
        if choice.near:
            cluster = regions.near(client)
            if cluster in choice.labels:
                return next(self._turns_of(cluster))
        if choice.mask:
            return self._hashed(client)
        return next(self._turns_of(""))

    def _hashed(self, client: Client) -> int:
        bits = self._choice.mask if client.width == 32 else self._choice.mask * 2
        bits = min(bits, client.bits)
        key = (client.width, client.prefix(bits))
        chosen = self._known.get(key)
        if chosen is None:
            if len(self._known) >= MAX_CACHED_NETWORKS:
                self._known.clear()
            chosen = self._known[key] = rendezvous_choice(
                repr(key).encode(), self._bodies, self._weights
            )
        return chosen

    def _turns_of(self, label: str) -> Iterator[int]:
        """Whose turn it is among all, or among those of a cluster."""
        if label not in self._turns:
            labels = self._choice.labels
            mine = [n for n in range(len(labels)) if label in ("", labels[n])]
            order = weighted_order(tuple(self._weights[n] for n in mine))
            start = self._random.randrange(len(order))
            self._turns[label] = cycle([mine[n] for n in order[start:] + order[:start]])
        return self._turns[label]


def rendezvous_choice(key: bytes, names: Sequence[bytes], weights: Sequence[int]) -> int:
    """Rendezvous hashing: who wins a key; one who leaves or comes moves its own share alone."""

    def score(at: int) -> float:
        digest = blake2b(names[at], key=key[:64], digest_size=8).digest()
        share = (int.from_bytes(digest) + 1) / (2**64 + 2)
        return -log(share) / max(weights[at], 1)

    return min(range(len(names)), key=score)


LONGEST = 4096
"""Turns of one round; weights whose round would be longer are rounded to fit."""


@lru_cache(maxsize=1024)
def weighted_order(weights: tuple[int, ...]) -> tuple[int, ...]:
    """One round: each index as often as its weight says, never bunched.

    A weight of 0 has no turn, unless all are 0.
    """
    shares = list(_reduced(weights if any(weights) else (1,) * len(weights)))
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


def _reduced(weights: Sequence[int]) -> Sequence[int]:
    common = gcd(*weights)
    least = [weight // common for weight in weights]
    whole = sum(least)
    if whole <= LONGEST:
        return least
    return [max(1, weight * LONGEST // whole) if weight else 0 for weight in least]
