"""Findings are grouped under their cause, worst first."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.model.findings import Finding, Ref, Remedy, Severity, cluster_ref, judge, remedy

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def finding(code: str, subject: Ref, severity: Severity, *causes: Ref) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        subject=subject,
        summary=f"{code} {subject}",
        remedy=Remedy(commands=(f"mend {code} {subject}",)),
        caused_by=causes,
    )


BERGEN = cluster_ref("bergen")
SILENT = finding("ClusterSilent", BERGEN, Severity.DEGRADED)


def service(name: str, severity: Severity, *causes: Ref) -> Finding:
    return finding("EndpointsLost", Ref("Service", name, "shop"), severity, *causes)


def test_consequences_stand_under_their_cause_which_is_as_severe_as_they_are() -> None:
    lost = service("web", Severity.OUTAGE, BERGEN)

    (found,) = judge([lost, SILENT])

    assert (found.code, found.severity) == ("ClusterSilent", Severity.OUTAGE)
    assert [c.subject for c in found.consequences] == [lost.subject]


def test_a_finding_stands_for_itself_while_its_cause_is_not_found() -> None:
    lost = service("web", Severity.DEGRADED, BERGEN)

    assert judge([lost]) == (lost,)


def test_a_consequence_of_a_consequence_stands_under_the_first_cause() -> None:
    link, host = Ref("Link", "lubeck-bergen"), service("web", Severity.RISK, BERGEN)
    cut = finding("LinkCut", link, Severity.DEGRADED, BERGEN)
    stage = finding("GslbStageFailed", Ref("AMKOCluster", "a"), Severity.DEGRADED, link)

    (found,) = judge([stage, host, cut, SILENT])
    assert {c.subject for c in found.consequences} == {link, host.subject, stage.subject}

    (found, other) = judge([stage, host, cut])
    assert [c.subject for c in found.consequences] == [stage.subject], "while it is no finding"
    assert other == host


def test_nothing_vanishes_where_findings_name_each_other_as_their_cause() -> None:
    one, other = (Ref("Service", name) for name in "ab")
    circle = [
        finding("HostDown", one, Severity.RISK, other),
        finding("HostDown", other, Severity.RISK, one),
    ]

    assert {f.subject for f in judge(circle)} == {one, other}


def test_the_worst_comes_first_and_then_what_has_most_consequences() -> None:
    lubeck = finding("ClusterSilent", cluster_ref("lubeck"), Severity.DEGRADED)
    note, lost = service("a", Severity.NOTE), service("b", Severity.DEGRADED, BERGEN)
    out = service("c", Severity.OUTAGE)

    judged = judge([note, lubeck, lost, SILENT, out])

    assert [one.subject.name for one in judged] == ["c", "bergen", "lubeck", "a"]


@given(st.permutations([SILENT, service("a", Severity.RISK, BERGEN), service("b", Severity.NOTE)]))
def test_the_order_in_which_views_report_does_not_matter(findings: list[Finding]) -> None:
    assert judge(findings) == judge(sorted(findings, key=lambda one: one.subject))
    assert judge((*findings, *findings)) == judge(findings), "a second report changes nothing"
    assert judge(judge(findings)) == judge(findings)


def test_a_command_that_mends_several_findings_is_told_with_the_first_alone() -> None:
    scale, restart = "scale --current-replicas=0 --replicas=1", "restart"
    down = replace(service("web", Severity.OUTAGE), remedy=remedy(scale))
    same = replace(service("shop", Severity.DEGRADED), remedy=remedy(scale, advice="or withdraw"))
    more = replace(service("store", Severity.RISK), remedy=remedy(scale, restart))

    found = judge([more, same, down])

    assert [one.remedy.commands for one in found] == [(scale,), (), (restart,)]
    assert str(found[1].remedy) == "what mends EndpointsLost of Service shop/web mends this, too"
