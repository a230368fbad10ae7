"""The metrics of a guard."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class GuardMetrics:
    """What a guard tells Prometheus."""

    def __init__(self) -> None:
        """Register the metrics of a guard in a registry of their own."""
        self.registry = CollectorRegistry()
        self.addresses = Gauge(
            "hanse_guard_addresses", "Pod addresses in the rules.", registry=self.registry
        )
        self.networks = Gauge(
            "hanse_guard_networks", "Networks in the rules.", registry=self.registry
        )
        self.unchecked = Gauge(
            "hanse_guard_unchecked_ports",
            "Ports of bridges that may be pods' and have no rules.",
            registry=self.registry,
        )
        self.failures = Counter(
            "hanse_guard_failures", "Changes that nftables refused.", registry=self.registry
        )
        self.updates = Histogram(
            "hanse_guard_update_seconds",
            "How long a change of the rules took.",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 1.0, 5.0),
            registry=self.registry,
        )
