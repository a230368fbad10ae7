"""Prometheus metrics of the DNS server."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from hanse.dns.messages import SECONDS, WorkerStats


class Latency(Collector):
    """The latency histogram, summed over the workers' reports."""

    def __init__(self) -> None:
        self._counts = [0] * (len(SECONDS) + 1)
        self._seconds = 0.0

    def add(self, stats: WorkerStats) -> None:
        """Add a worker's times to the totals; without times nothing changes."""
        if stats.times:
            self._counts = [a + b for a, b in zip(self._counts, stats.times, strict=True)]
            self._seconds += stats.seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The histogram `hanse_dns_seconds`, with cumulative buckets."""
        bounds = [*map(str, SECONDS), "+Inf"]
        yield HistogramMetricFamily(
            "hanse_dns_seconds",
            "From reading a batch of datagrams, often one, until its last answer was sent.",
            buckets=list(zip(bounds, accumulate(self._counts), strict=True)),
            sum_value=self._seconds,
        )


class DnsMetrics:
    """Metrics summed over all workers."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Register the metrics of a name server in a registry, by default one of its own."""
        self.registry = registry if registry is not None else CollectorRegistry()
        self._queries = Counter(
            "hanse_dns_queries",
            "Questions answered, by view, zone, type and code.",
            ["view", "zone", "type", "rcode"],
            registry=self.registry,
        )
        self._limited = Counter(
            "hanse_dns_limited", "Answers held back by rate limits.", registry=self.registry
        )
        self._names = Gauge(
            "hanse_dns_names", "Names in the table of a view.", ["view"], registry=self.registry
        )
        self._connections = Gauge(
            "hanse_dns_connections", "Open TCP connections.", ["worker"], registry=self.registry
        )
        self._latency = Latency()
        self.registry.register(self._latency)
        self._restarts = Counter(
            "hanse_dns_worker_restarts", "Workers that ended unasked.", registry=self.registry
        )

    def add_stats(self, worker: int, stats: WorkerStats) -> None:
        """Add the counters of a worker's report, and set the gauges of names and connections.

        Names are by view, as the last worker reports them; connections are by worker.
        """
        for count in stats.counts:
            labels = (count.view, count.zone, count.type, count.rcode)
            self._queries.labels(*labels).inc(count.number)
        for view, names in stats.names.items():
            self._names.labels(view).set(names)
        self._limited.inc(stats.limited)
        self._latency.add(stats)
        self._connections.labels(str(worker)).set(stats.connections)

    def forget_view(self, view: str) -> None:
        """Remove the gauge of names of a view that is served no longer."""
        with suppress(KeyError):
            self._names.remove(view)

    def count_restart(self) -> None:
        """Count the restart of a worker that exited unexpectedly."""
        self._restarts.inc()
