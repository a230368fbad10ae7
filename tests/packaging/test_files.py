"""The files that come with Hanse: what they name must exist."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

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
