"""Federations in the output of status."""

from typing import Any

import pytest

from hanse.cli.inventory import parse_membership
from hanse.cli.status.clusters import membership_document, print_membership


def federation(members: list[dict[str, Any]], *bad: str) -> dict[str, Any]:
    conditions = [{"status": "False", "reason": "MemberUnreachable", "message": b} for b in bad]
    status = {"members": members, "leaders": ["lubeck"], "conditions": conditions}
    return {"items": [{"metadata": {"name": "league"}, "status": status}]}


def member(cluster: str, leader: str, reachable: bool = True) -> dict[str, Any]:
    since = "2026-05-01T12:00:00Z"
    return {"clusterID": cluster, "leader": leader, "reachable": reachable, "since": since}


SUPERVISES = {
    "items": [{"metadata": {"name": "supervisor.antreaplus.tanzu-vmware.com"}, "value": "yes"}]
}


def test_without_a_federation_there_is_nothing_to_show() -> None:
    assert parse_membership(None, None) is None
    assert parse_membership({"items": []}, SUPERVISES) is None
    assert membership_document(None) is None


def test_who_leads_and_who_is_not_reached_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    lubeck = parse_membership(federation([member("bergen", "lubeck")]), SUPERVISES)
    hamburg = parse_membership(
        federation([member("bergen", "lubeck", reachable=False)], "bergen: no answer"), SUPERVISES
    )
    assert lubeck is not None
    assert hamburg is not None

    print_membership([("lubeck", lubeck), ("hamburg", hamburg)])

    document = capsys.readouterr().out
    assert "bergen  lubeck  lubeck (not from hamburg)" in document


def test_a_child_says_who_leads_it() -> None:
    membership = parse_membership(federation([]), {"items": []})

    assert membership is not None
    document = membership_document(membership)
    assert document is not None
    assert (document["supervises"], document["leaders"]) == (False, ["lubeck"])
