"""The files that come with Hanse: what they name must exist."""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from hanse.app.domain_metrics import DomainMetrics
from hanse.app.finding_metrics import FindingsCollector
from hanse.dns.metrics import DnsMetrics
from hanse.model.fleet import MultiClusterSnapshot
from hanse.runtime.metrics import Metrics as EngineMetrics

ROOT = Path(__file__).parents[2]


def known_metrics() -> set[str]:
    """The names of everything that we measure, as Prometheus sees them."""
    known: set[str] = set()
    found = CollectorRegistry()
    found.register(FindingsCollector(tuple))
    found.register(DomainMetrics(lambda: MultiClusterSnapshot({})))
    for registry in (EngineMetrics().registry, DnsMetrics(CollectorRegistry()).registry, found):
        metrics_text = generate_latest(registry).decode()
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", metrics_text, re.MULTILINE):
            known.add(name)
            if kind == "histogram":
                known |= {f"{name}_{end}" for end in ("bucket", "sum", "count")}
    return known


def named_in(expressions: list[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"hanse_[a-z_]+", text)}


def test_alerts_and_panels_name_metrics_that_exist() -> None:
    alerts = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())
    panels = json.loads((ROOT / "deploy/grafana.json").read_text())["panels"]
    asked = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    asked += [target["expr"] for panel in panels for target in panel["targets"]]

    assert len(asked) > 15
    assert named_in(asked) - known_metrics() == set()


SUBJECT = ("kind", "cluster", "namespace", "name")
Labels = dict[str, str]


def alerts_for(findings: list[Labels]) -> set[tuple[str, str, str]]:
    """Alert, code and name of the subject, by the two rules about findings and these series."""
    rules = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["groups"][0]["rules"]
    found = set()
    for rule in rules:
        if "hanse_finding{" in rule["expr"]:
            series = [*_firing(rule["expr"], findings)]
            found |= {(rule["alert"], one["code"], one["name"]) for one in series}
    return found


def _firing(expression: str, findings: list[Labels]) -> Iterator[Labels]:
    """What `A or on (subject) B unless on (subject) C` selects, as the rules are written."""
    named = ", ".join(SUBJECT)
    shape = (
        rf"\( max by \(code, {named}\) \((?P<a>[^)]*)\) or on \({named}\) "
        rf"max by \(code, {named}\) \((?P<b>[^)]*)\) \)"
        rf"(?: unless on \({named}\) (?P<c>hanse_finding{{.*}}))? > 0"
    )
    parts = re.fullmatch(shape, " ".join(expression.split()))
    assert parts is not None, expression
    first = [one for one in findings if _selected(one, parts["a"])]
    second = [one for one in findings if _selected(one, parts["b"])]
    without = {_subject(one) for one in findings if parts["c"] and _selected(one, parts["c"])}
    known = {_subject(one) for one in first}
    several = [*first, *(one for one in second if _subject(one) not in known)]
    yield from (one for one in several if _subject(one) not in without)


def _selected(one: Labels, selector: str) -> bool:
    terms = re.findall(r'(\w+)(!?=)"([^"]*)"', selector)
    return all((one[name] == value) is (operator == "=") for name, operator, value in terms)


def _subject(one: Labels) -> tuple[str, ...]:
    return tuple(one[name] for name in SUBJECT)


def reported(code: str, severity: str = "degraded", name: str = "bergen") -> Labels:
    """The series of a finding about a cluster."""
    of = {"kind": "Cluster", "cluster": name, "namespace": "", "name": name}
    return {"code": code, "severity": severity, **of}


@pytest.mark.parametrize(
    ("findings", "alerts"),
    [
        ([("ClusterSilent",), ("ClusterSilent",)], {("HanseDegraded", "ClusterSilent")}),
        ([("ClusterSilent",), ("AgentMissing",)], {("HanseDegraded", "AgentMissing")}),
        ([("ClusterSilent",), ("ClusterUnreachable",)], {("HanseDegraded", "ClusterUnreachable")}),
        (
            [("ClusterSilent", "outage"), ("ClusterUnreachable",)],
            {("HanseOutage", "ClusterSilent")},
        ),
    ],
    ids=["silent", "without its agent", "unreachable", "with something that users lose"],
)
def test_a_cluster_that_dies_is_one_alert_whatever_each_agent_says_of_it(
    findings: list[tuple[str, ...]], alerts: set[tuple[str, str]]
) -> None:
    series = [reported(*one) for one in findings]

    assert alerts_for(series) == {(*one, "bergen") for one in alerts}
    assert len(alerts_for([*series, reported("ClusterSilent", name="oslo")])) == 2


def test_no_alert_but_those_of_findings_is_about_a_cluster_that_died() -> None:
    rules = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["groups"][0]["rules"]

    assert not named_in([rule["expr"] for rule in rules]) & {
        "hanse_reachable",
        "hanse_synced",
        "hanse_lease_age_seconds",
    }


def test_every_alert_says_what_it_is_about_and_links_to_its_page() -> None:
    alerts = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())

    rules: list[dict[str, Any]] = [r for group in alerts["groups"] for r in group["rules"]]
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)
    for rule in rules:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        titles = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9 -]", "", t.lower()).replace(" ", "-") for t in titles}
        assert "$labels.code" in anchor or anchor in anchors, rule["alert"]


def test_the_wheel_holds_the_page_and_both_commands(tmp_path: Path) -> None:
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*wheel, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, timeout=120)

    with zipfile.ZipFile(next(tmp_path.glob("hanse-*.whl"))) as whole:
        names = set(whole.namelist())
        commands = next(whole.read(n).decode() for n in names if n.endswith("entry_points.txt"))

    page = ROOT / "src/hanse/web/dashboard/page"
    assert {f"hanse/web/dashboard/page/{file.name}" for file in page.iterdir()} <= names
    assert "hanse/py.typed" in names
    assert "kubectl-hanse" in commands
