"""Findings as Prometheus metrics: what an agent judges to be wrong, from its own snapshot."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hanse.model.findings import Finding

MAX_SERIES = 200
"""Findings with labels of their own; the rest is counted by code alone."""


class FindingsCollector(Collector):
    """`hanse_finding` for each finding, and `hanse_findings` by code and severity."""

    def __init__(self, read_findings: Callable[[], Sequence[Finding]]) -> None:
        self._read_findings = read_findings

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Gauges of the findings as last judged: `hanse_finding`, then their counts.

        `hanse_finding` has only the first MAX_SERIES; `hanse_findings` counts all. Nothing is
        judged here.
        """
        findings = self._read_findings()
        each = GaugeMetricFamily(
            "hanse_finding",
            "What is wrong: 1 for each finding.",
            labels=("code", "severity", "kind", "cluster", "namespace", "name"),
        )
        for one in findings[:MAX_SERIES]:
            at = one.subject
            labels = (one.code, one.severity, at.kind, at.cluster, at.namespace, at.name)
            each.add_metric(labels, 1)
        yield each
        counts: dict[tuple[str, str], int] = {}
        for one in findings:
            counts[one.code, one.severity] = counts.get((one.code, one.severity), 0) + 1
        total = GaugeMetricFamily(
            "hanse_findings", "How many findings there are.", labels=("code", "severity")
        )
        for (code, severity), count in counts.items():
            total.add_metric((code, severity), count)
        yield total
