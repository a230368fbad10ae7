"""Federations in the output of status."""

from typing import Any

import msgspec
import pytest

from hanse.cli.inventory import membership
from hanse.cli.status.clusters import membership_document, print_membership
from hanse.model.kinds.federation import ClusterClaim, Federation


def federation(members: list[dict[str, Any]], *bad: str) -> list[Federation]:
    conditions = [
        {"type": "Ready", "status": "False", "reason": "MemberUnreachable", "message": b}
        for b in bad
    ]
    status = {"members": members, "leaders": ["lubeck"], "conditions": conditions}
    return [msgspec.convert({"metadata": {"name": "league"}, "status": status}, Federation)]


def member(cluster: str, leader: str, reachable: bool = True) -> dict[str, Any]:
    since = "2026-05-01T12:00:00Z"
    return {"clusterID": cluster, "leader": leader, "reachable": reachable, "since": since}


CLAIM = {"metadata": {"name": "supervisor.antreaplus.tanzu-vmware.com"}, "value": "yes"}
SUPERVISES = [msgspec.convert(CLAIM, ClusterClaim)]


def test_without_a_federation_there_is_nothing_to_show() -> None:
    assert membership([], []) is None
    assert membership([], SUPERVISES) is None
    assert membership_document(None) is None


def test_who_leads_and_who_is_not_reached_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    lubeck = membership(federation([member("bergen", "lubeck")]), SUPERVISES)
    hamburg = membership(
        federation([member("bergen", "lubeck", reachable=False)], "bergen: no answer"), SUPERVISES
    )
    assert lubeck is not None
    assert hamburg is not None

    print_membership([("lubeck", lubeck), ("hamburg", hamburg)])

    document = capsys.readouterr().out
    assert "bergen  lubeck  lubeck (not from hamburg)" in document


def test_a_child_says_who_leads_it() -> None:
    child = membership(federation([]), [])

    assert child is not None
    document = membership_document(child)
    assert document is not None
    assert (document["supervises"], document["leaders"]) == (False, ["lubeck"])
