"""What NetworkPolicies allow as nftables rules, for tests on a real network stack."""

from collections.abc import Iterator, Sequence

from hanse.features.networks.reachability import is_allowed
from hanse.features.networks.traffic import TrafficEndpoint, TrafficPort
from hanse.model.kinds.networking import NetworkPolicy

TABLE = "hanse"


def ruleset(
    endpoint_groups: Sequence[TrafficEndpoint],
    policies: Sequence[NetworkPolicy],
    traffic_ports: Sequence[TrafficPort],
) -> str:
    """Rules for the machine between pods: all is dropped but what the policies allow."""
    lines = [
        f"table inet {TABLE} {{",
        "  chain forward {",
        "    type filter hook forward priority 0; policy drop;",
        "    ct state established,related accept",
        *(f"    {line}" for line in _allowed(endpoint_groups, policies, traffic_ports)),
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _allowed(
    endpoint_groups: Sequence[TrafficEndpoint],
    policies: Sequence[NetworkPolicy],
    traffic_ports: Sequence[TrafficPort],
) -> Iterator[str]:
    for source in endpoint_groups:
        for target in endpoint_groups:
            for traffic_port in traffic_ports:
                if source is not target and is_allowed(source, target, traffic_port, policies):
                    yield from _rules(source, target, traffic_port)


def _rules(
    source: TrafficEndpoint, target: TrafficEndpoint, traffic_port: TrafficPort
) -> Iterator[str]:
    for here in source.addresses:
        for there in target.addresses:
            if (":" in here) == (":" in there):
                family = "ip6" if ":" in here else "ip"
                port = f"{traffic_port.protocol.lower()} dport {traffic_port.port}"
                yield f"{family} saddr {here} {family} daddr {there} {port} accept"
