"""The Prometheus metrics of one agent."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hanse.kube.watch_events import Interrupted, Listed
from hanse.model.facts import ClusterState, Fact, Phase
from hanse.model.objects import ClusterId
from hanse.runtime.apply import WriteReport
from hanse.runtime.connection import Scope
from hanse.runtime.workqueue import Item

log = logging.getLogger(__name__)

_FINE = (0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0)
_COARSE = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)


class Metrics:
    """One registry per reconciler, so that several agents can run in one process."""

    def __init__(self) -> None:
        """Register all metrics of the control loop in a registry of their own."""
        registry = self.registry = CollectorRegistry()
        self._queue = Gauge("hanse_queue_depth", "Keys waiting for a plan.", registry=registry)
        self._plans = Histogram(
            "hanse_plan_seconds", "Time of one plan.", ["feature"], buckets=_FINE, registry=registry
        )
        self._slow = Counter(
            "hanse_slow_plans", "Plans over 20 ms.", ["feature"], registry=registry
        )
        self._failed = Counter(
            "hanse_failed_plans", "Plans that raised.", ["feature"], registry=registry
        )
        self._failed_mappings = Counter(
            "hanse_failed_wakes",
            "Changes that a feature failed to take in.",
            ["feature"],
            registry=registry,
        )
        self._applies = Histogram(
            "hanse_apply_seconds",
            "Time to write one plan.",
            ["feature"],
            buckets=_COARSE,
            registry=registry,
        )
        self._writes = Counter(
            "hanse_writes",
            "Writes by verb and result.",
            ["cluster", "kind", "verb", "result"],
            registry=registry,
        )
        self._held = Counter(
            "hanse_held_deletions",
            "Deletions held as suspicious.",
            ["cluster", "feature"],
            registry=registry,
        )
        self._restarts = Counter(
            "hanse_watch_interruptions",
            "Watches that went down.",
            ["cluster", "kind"],
            registry=registry,
        )
        self._synced = Gauge(
            "hanse_synced",
            "Whether a kind is listed and watched.",
            ["cluster", "kind"],
            registry=registry,
        )
        self._reachable = Gauge(
            "hanse_reachable",
            "Whether a cluster answers and lets all be read.",
            ["cluster"],
            registry=registry,
        )
        self._unreadable = Gauge(
            "hanse_unreadable_objects",
            "Objects that do not fit their kind.",
            ["cluster", "kind"],
            registry=registry,
        )
        self.writes = 0
        self._counters: dict[tuple[str, ...], Counter] = {}
        self._by_feature: dict[tuple[int, str], Histogram] = {}

    def queue_depth(self, depth: int) -> None:
        """Set the gauge of keys that wait for a plan."""
        self._queue.set(depth)

    def plan_failed(self, feature: str) -> None:
        """Count a plan, or its writing, that raised."""
        self._failed.labels(feature).inc()

    def mapping_failed(self, feature: str) -> None:
        """Count a change for which a feature's `keys_for` raised."""
        self._failed_mappings.labels(feature).inc()

    def count_held_deletions(self, where: ClusterId, feature: str, deletions: int) -> None:
        """Add deletions that are held to their counter."""
        self._held.labels(where, feature).inc(deletions)

    def count_write(self, report: WriteReport) -> None:
        """Count one write by cluster, kind, verb and result; `writes` has all but fenced ones."""
        verb = type(report.action).__name__.lower()
        place = report.target
        labels = (place.where, place.ref.kind.name, verb, report.result)
        counter = self._counters.get(labels)
        if counter is None:
            counter = self._counters[labels] = self._writes.labels(*labels)
        counter.inc()
        self.writes += report.result != "Fenced"

    def on_watch_event(self, cluster: ClusterId, scope: Scope, event: Any) -> None:
        """Count an interruption, which sets the kind as not synced; a list sets it as synced.

        A list also sets how many objects do not decode; other events are ignored.
        """
        kind = scope.kind.kind.name
        if isinstance(event, Interrupted):
            self._restarts.labels(cluster, kind).inc()
            self._synced.labels(cluster, kind).set(0)
        elif isinstance(event, Listed):
            self._synced.labels(cluster, kind).set(1)
            self._unreadable.labels(cluster, kind).set(len(event.unreadable))

    def on_cluster_state(self, before: Fact | None, after: Fact | None) -> None:
        """Set whether a cluster is reachable by its `ClusterState`; without one, remove the metric.

        Other facts are ignored.
        """
        match before, after:
            case _, ClusterState(cluster, phase=phase):
                self._reachable.labels(cluster).set(phase is not Phase.UNREACHABLE)
            case ClusterState(cluster), None:
                self._reachable.remove(cluster)

    def observe_plan(self, item: Item, seconds: float, slow: timedelta) -> None:
        """Observe how long a key's plan took; one longer than `slow` is counted, and logged."""
        self._histogram(self._plans, item[0]).observe(seconds)
        if seconds > slow.total_seconds():
            self._slow.labels(item[0]).inc()
            log.debug("slow plan", extra={"feature": item[0], "key": str(item[1]), "s": seconds})

    @contextmanager
    def applying(self, feature: str) -> Iterator[None]:
        """Time the writes in the block; not observed if they raise."""
        started = time.perf_counter()
        yield
        self._histogram(self._applies, feature).observe(time.perf_counter() - started)

    def _histogram(self, parent: Histogram, feature: str) -> Histogram:
        """The child of one feature, cached: `labels` takes a lock and a copy each time."""
        found = self._by_feature.get((id(parent), feature))
        if found is None:
            found = self._by_feature[id(parent), feature] = parent.labels(feature)
        return found
