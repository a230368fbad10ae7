"""Explanations of answers about services."""

import pytest

from hanse.app.explain import ExcludedCluster, ExplainedRecord, Explanation, explain
from hanse.model.dns.records import RecordType
from hanse.model.dns.zones import View
from hanse.model.facts import HolderState, LeaseLiveness, Phase
from tests.dns.builders import WEB, ZONE, cluster_snapshot, endpoint_slice, imported, pod, rules
from tinykube.virtual_time import EPOCH

LUBECK = View("lubeck", local="lubeck")
NOWHERE = View("none")


def why(name: str = WEB, view: View = NOWHERE, rtype: int = RecordType.A) -> Explanation:
    dead = LeaseLiveness("broker", "hanse-broker", "riga", "riga", HolderState.SILENT, EPOCH)
    observed = cluster_snapshot(
        "lubeck",
        imported(clusters=["tallinn"]),
        endpoint_slice("bergen", "10.2.0.1", weight=3),
        endpoint_slice("hamburg", pod("10.1.0.1", ready=False)),
        endpoint_slice("lubeck", "10.0.0.1"),
        endpoint_slice("riga", "10.4.0.1"),
        endpoint_slice("visby", "10.5.0.1", weight=0),
        imported("db", type_="Headless"),
        endpoint_slice("bergen", pod("10.2.0.7", hostname="db-0"), service="db"),
        endpoint_slice("hamburg", service="db"),
        facts=[dead],
    )
    return explain(name, rtype, view, observed)


def test_round_robin_answers_are_explained_with_shares_and_missing_clusters() -> None:
    explanation = why()

    assert explanation.code == "NOERROR"
    assert explanation.records == (ExplainedRecord("10.2.0.1", 75), ExplainedRecord("10.0.0.1", 25))
    assert explanation.rule == "in turn by weight: bergen, lubeck"
    assert explanation.left_out == (
        ExcludedCluster("hamburg", "none of its endpoints is ready"),
        ExcludedCluster("riga", "its Lease on the broker has run out"),
        ExcludedCluster("tallinn", "it exports the service, and none of its slices has arrived"),
        ExcludedCluster("visby", "its weight is 0, and others are ready"),
    )


def test_local_first_is_given_as_the_reason() -> None:
    explanation = why(view=LUBECK)

    assert (explanation.records, explanation.rule) == (
        (ExplainedRecord("10.0.0.1"),),
        "local first: lubeck is ready",
    )
    assert (
        ExcludedCluster("bergen", "the local cluster is ready and comes first")
        in explanation.left_out
    )


@pytest.mark.parametrize(
    ("name", "rtype", "code", "rule"),
    [
        pytest.param(f"bergen.{WEB}", 1, "NOERROR", "bergen alone is asked for", id="cluster"),
        pytest.param(f"oslo.{WEB}", 1, "NXDOMAIN", "oslo does not export the service", id="none"),
        pytest.param(
            f"_http._tcp.bergen.{WEB}", 33, "NOERROR", "bergen alone is asked for", id="port"
        ),
        pytest.param(
            f"db.shop.svc.{ZONE}",
            1,
            "NOERROR",
            "headless: every ready pod of every cluster",
            id="headless",
        ),
        pytest.param(
            f"db-0.bergen.db.shop.svc.{ZONE}",
            1,
            "NOERROR",
            "pod db-0 of bergen is asked for",
            id="pod",
        ),
        pytest.param(
            f"no.shop.svc.{ZONE}", 1, "NXDOMAIN", "no ServiceImport shop/no in lubeck", id="unknown"
        ),
        pytest.param(
            f"dns-version.{ZONE}",
            16,
            "NOERROR",
            "the version of the names themselves",
            id="version",
        ),
        pytest.param(
            f"shop.svc.{ZONE}",
            1,
            "NODATA",
            f"shop.svc.{ZONE}. names no service; names stand below it",
            id="namespace",
        ),
        pytest.param(
            f"bergen.{WEB}",
            28,
            "NODATA",
            "bergen alone is asked for; it has records of type A, SRV and none of AAAA",
            id="other-type",
        ),
        pytest.param(
            f"_nope._tcp.db.shop.svc.{ZONE}",
            33,
            "NXDOMAIN",
            "headless: every ready pod of every cluster; nobody serves _nope._tcp",
            id="no-port",
        ),
        pytest.param(
            f"_nope._tcp.bergen.{WEB}",
            33,
            "NXDOMAIN",
            "bergen alone is asked for; nobody serves _nope._tcp",
            id="no-port-there",
        ),
        pytest.param(
            f"db-9.bergen.db.shop.svc.{ZONE}",
            1,
            "NXDOMAIN",
            "pod db-9 of bergen is asked for; there is none that is ready",
            id="no-pod",
        ),
        pytest.param(
            "example.org",
            1,
            "REFUSED",
            f"it is in no zone that is served here, such as {ZONE}",
            id="outside",
        ),
        pytest.param(WEB, 255, "REFUSED", "questions for everything are refused", id="ANY"),
    ],
)
def test_each_form_has_its_rule(name: str, rtype: int, code: str, rule: str) -> None:
    explanation = why(name, rtype=rtype)

    assert (explanation.code, explanation.rule) == (code, rule)


def test_a_cluster_that_is_asked_for_and_has_nothing_is_explained() -> None:
    explanation = why(f"hamburg.{WEB}")

    assert explanation.code == "NODATA"
    assert explanation.left_out == (ExcludedCluster("hamburg", "none of its endpoints is ready"),)


def test_the_addresses_of_the_import_are_the_rule_of_kep_1645() -> None:
    observed = cluster_snapshot("lubeck", imported(ips=("10.9.0.1",)), fleet=rules("kep-1645"))

    explanation = explain(WEB, RecordType.A, LUBECK, observed)

    assert explanation.records == (ExplainedRecord("10.9.0.1"),)
    assert explanation.rule == "kep-1645: the addresses of the ServiceImport"
    alone = explain(f"bergen.{WEB}", RecordType.A, LUBECK, observed)
    assert (alone.code, alone.rule) == ("NXDOMAIN", "kep-1645: no name is of a single cluster")


def test_before_the_first_sync_nothing_is_known() -> None:
    observed = cluster_snapshot("lubeck", phase=Phase.CONNECTING)

    assert explain(WEB, RecordType.A, LUBECK, observed).code == "SERVFAIL"
