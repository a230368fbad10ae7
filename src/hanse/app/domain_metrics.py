"""What users have, as Prometheus metrics: counted from the items that all presentations show."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hanse.features.services.view import ServiceItem
from hanse.model.facts import Role, ServerClock
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Secret
from hanse.model.tokens import parse_claims
from hanse.model.view import ClusterPart, FeatureItem

Labels = tuple[str, ...]

_PARTS = {
    "gslb": ("hanse_host_members", "Members of global hosts that are up, and all.", "host"),
    "statefulsets": ("hanse_set_replicas", "Replicas of sets that are ready, and wanted.", "set"),
    "federated": ("hanse_federated_endpoints", "Endpoints of federated Services.", "service"),
    "networks": ("hanse_pool_addresses", "Service addresses in use, and all.", "network"),
}
"""By view: the metric of the parts of its items, and the label of an item."""


class DomainMetrics(Collector):
    """Exports, endpoints, hosts, replicas, pools, and the ages of Leases and tokens."""

    def __init__(self, take_snapshot: Callable[[], MultiClusterSnapshot]) -> None:
        self._take_snapshot = take_snapshot
        self._services: dict[str, ServiceItem] = {}
        self._parts: dict[str, dict[str, tuple[ClusterPart, ...]]] = {name: {} for name in _PARTS}

    def on_item(self, view: str, key: str, item: Any | None) -> None:
        """Keep an item as it was rendered last; None where it is gone, which forgets it.

        Items of views without such metrics are ignored.
        """
        if view == "services":
            self._services.pop(key, None)
        self._parts.get(view, {}).pop(key, None)
        if isinstance(item, ServiceItem):
            self._services[key] = item
        elif isinstance(item, FeatureItem) and view in self._parts:
            self._parts[view][key] = item.parts

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Gauges of the items as last rendered, and of Leases and tokens in a new snapshot."""
        yield from self._count_services()
        for view, (name, meaning, label) in _PARTS.items():
            rows = [
                ((key, part.cluster, state), count)
                for key, parts in self._parts[view].items()
                for part in parts
                for state, count in (("ready", part.ready), ("all", part.all))
            ]
            yield _gauge(name, meaning, (label, "cluster", "state"), rows)
        snapshot = self._take_snapshot()
        yield _gauge(
            "hanse_lease_age_seconds",
            "Time since a member renewed its Lease on the broker.",
            ("cluster",),
            _lease_ages(snapshot),
        )
        yield _gauge(
            "hanse_token_expiry_timestamp_seconds",
            "When a token ends by which this agent reaches another cluster.",
            ("namespace", "secret"),
            _token_expiries(snapshot),
        )

    def _count_services(self) -> Iterator[GaugeMetricFamily]:
        """Gauges of services by state, and of exports and their endpoints by cluster and state.

        An export is unknown, lost, ready or empty. Endpoints are counted as `ready` and as `all`,
        those of an unknown export not at all.
        """
        states = Counter((one.state,) for one in self._services.values())
        yield _gauge(
            "hanse_services", "Multi-cluster services by state.", ("state",), states.items()
        )
        exports: Counter[Labels] = Counter()
        endpoints: Counter[Labels] = Counter()
        for one in self._services.values():
            for exporter in one.exporters:
                if exporter.unknown:
                    exports[exporter.cluster, "unknown"] += 1
                    continue
                state = "lost" if exporter.lost else "ready" if exporter.ready else "empty"
                exports[exporter.cluster, state] += 1
                endpoints[exporter.cluster, "ready"] += exporter.ready
                endpoints[exporter.cluster, "all"] += exporter.all
        labels = ("cluster", "state")
        yield _gauge("hanse_exports", "Exported services by state.", labels, exports.items())
        yield _gauge("hanse_endpoints", "Endpoints of exports.", labels, endpoints.items())


def _gauge(
    name: str, meaning: str, labels: Labels, rows: Iterable[tuple[Labels, float]]
) -> GaugeMetricFamily:
    """A gauge with a value for each row of label values."""
    made = GaugeMetricFamily(name, meaning, labels=labels)
    for values, value in rows:
        made.add_metric(values, value)
    return made


def _lease_ages(snapshot: MultiClusterSnapshot) -> Iterator[tuple[Labels, float]]:
    """Seconds since the last renewal of each member's Lease on a broker, labelled by the member.

    By the broker's clock, and at least 0. A Lease without any valid time is left out.
    """
    members = set(snapshot.members)
    for broker in snapshot.clusters_with_role(Role.BROKER):
        clocks = (one.fact(ServerClock, broker) for one in snapshot.by_agent.values())
        now = snapshot.now + next((c.ahead for c in clocks if c is not None), timedelta(0))
        for lease in snapshot.all(broker, Lease):
            if lease.name in members and lease.last_renewal is not None:
                yield (lease.name,), max((now - lease.last_renewal).total_seconds(), 0.0)


def _token_expiries(snapshot: MultiClusterSnapshot) -> Iterator[tuple[Labels, float]]:
    """The end of each token in a Secret of an agent's own cluster, as Unix time.

    Labelled by namespace and name of the Secret. Taken from the token's claims; Secrets whose
    `token` does not say it are left out.
    """
    for where in snapshot.by_agent:
        for secret in snapshot.all(where, Secret):
            claims = parse_claims(secret.data.get("token", b"").decode("ascii", "replace").strip())
            if claims is not None and claims.expires is not None:
                yield (secret.namespace, secret.name), claims.expires.timestamp()
