"""What policies allow, as rules that let packets through: for checks on a real network stack."""

from collections.abc import Iterator, Sequence

from hanse.features.networks.reach import Knock, Spot, can_reach
from hanse.model.kinds.networking import NetworkPolicy

TABLE = "hanse"


def ruleset(
    spots: Sequence[Spot], policies: Sequence[NetworkPolicy], knocks: Sequence[Knock]
) -> str:
    """Rules for the machine between pods: all is dropped but what the policies allow."""
    lines = [
        f"table inet {TABLE} {{",
        "  chain forward {",
        "    type filter hook forward priority 0; policy drop;",
        "    ct state established,related accept",
        *(f"    {line}" for line in _allowed(spots, policies, knocks)),
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _allowed(
    spots: Sequence[Spot], policies: Sequence[NetworkPolicy], knocks: Sequence[Knock]
) -> Iterator[str]:
    for source in spots:
        for target in spots:
            for knock in knocks:
                if source is not target and can_reach(source, target, knock, policies):
                    yield from _rules(source, target, knock)


def _rules(source: Spot, target: Spot, knock: Knock) -> Iterator[str]:
    for here in source.addresses:
        for there in target.addresses:
            if (":" in here) == (":" in there):
                family = "ip6" if ":" in here else "ip"
                port = f"{knock.protocol.lower()} dport {knock.port}"
                yield f"{family} saddr {here} {family} daddr {there} {port} accept"
