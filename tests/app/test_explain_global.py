"""Explanations of answers about global hosts."""

from typing import Any

import pytest

from hanse.app.explain import ExcludedCluster, ExplainedRecord, explain, service_watches
from hanse.features.federated.names import EXTERNAL_DNS, FEDERATED, SHARES, TARGETS
from hanse.features.gslb.feature import Gslb
from hanse.model.dns.records import RecordType
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.core import Service
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, GlobalServiceSpec
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Meta
from hanse.model.snapshot import Snapshot
from tests.dns.builders import ZoneWatcher
from tests.support.builders import cluster, snapshot, stored

HOST = "shop.global.test"
VIEW = View("all")


def observed(*members: GlobalMember, **settings: Any) -> Snapshot:
    service = GlobalService(
        metadata=Meta(name=HOST, namespace=NAMESPACE),
        spec=GlobalServiceSpec(host=HOST, members=members, **settings),
    )
    return snapshot(
        Gslb(), "lubeck", [cluster("lubeck", Role.LOCAL)], {"lubeck": [stored(service)]}
    )


def member(name: str, address: str, **more: Any) -> GlobalMember:
    return GlobalMember(cluster=name, address=address, **more)


def test_members_of_which_none_has_a_weight_share_the_answers_equally() -> None:
    members = [member(name, f"10.0.0.{n}", weight=0) for n, name in enumerate(("lubeck", "oslo"))]

    explanation = explain(f"{HOST}.", RecordType.A, VIEW, observed(*members))

    assert explanation.records == (ExplainedRecord("10.0.0.0", 50), ExplainedRecord("10.0.0.1", 50))


def test_weights_priorities_and_excluded_clusters_are_shown() -> None:
    explanation = explain(
        f"{HOST}.",
        RecordType.A,
        VIEW,
        observed(
            member("lubeck", "10.0.0.1", weight=3, priority=20),
            member("hamburg", "10.0.0.2", priority=20),
            member("bergen", "10.0.0.3"),
            member("oslo", "10.0.0.4", ready=False),
        ),
    )

    assert explanation.code == "NOERROR"
    assert explanation.records == (ExplainedRecord("10.0.0.1", 75), ExplainedRecord("10.0.0.2", 25))
    assert explanation.rule == (
        "in turn by weight, priority 20: lubeck (10.0.0.1), hamburg (10.0.0.2)"
    )
    assert explanation.left_out == (
        ExcludedCluster("bergen (10.0.0.3)", "others of a higher priority are up"),
        ExcludedCluster("oslo (10.0.0.4)", "its cluster has nothing ready behind it"),
    )


def test_a_query_of_type_any_for_a_host_is_refused_as_for_any_name() -> None:
    explanation = explain(f"{HOST}.", RecordType.ANY, VIEW, observed(member("lubeck", "10.0.0.1")))

    assert (explanation.code, explanation.rule) == (
        "REFUSED",
        "questions for everything are refused",
    )


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("nobody.global.test.", "NXDOMAIN", "no GlobalService nobody.global.test in lubeck"),
        ("x.shop.global.test.", "NXDOMAIN", "no GlobalService x.shop.global.test in lubeck"),
        ("global.test.", "NODATA", "there is nothing but other names below global.test"),
        ("example.org.", "REFUSED", "no zone that is served here, such as clusterset.local or"),
    ],
)
def test_names_beside_hosts_are_answered_as_name_servers_of_the_zone_do(
    name: str, code: str, why: str
) -> None:
    view = View("all", global_zones=("global.test",))

    explanation = explain(name, RecordType.A, view, observed(member("lubeck", "10.0.0.1")))

    assert explanation.code == code
    assert why in explanation.rule


def test_the_answer_when_all_are_down_is_explained() -> None:
    down = observed(
        member("lubeck", "10.0.0.1", ready=False),
        when_down="GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP",
        fallback_ip="192.0.2.9",
    )

    explanation = explain(HOST, RecordType.A, VIEW, down)

    assert explanation.records == (ExplainedRecord("192.0.2.9"),)
    assert explanation.rule == "every member is down; what is answered then: fallback ip"


def test_no_answer_is_reported_as_such() -> None:
    down = observed(
        member("lubeck", "10.0.0.1", ready=False), when_down="GSLB_SERVICE_DOWN_RESPONSE_NONE"
    )

    assert explain(HOST, RecordType.A, VIEW, down).code == "SILENCE"


class ResolveWatcher(ZoneWatcher):
    watches = service_watches()


def test_an_external_name_of_a_federated_service_is_explained_with_its_shares() -> None:
    host = "web.example.org"
    annotations = {
        FEDERATED: "true",
        f"{EXTERNAL_DNS[1]}/hostname": host,
        TARGETS: '{"10.1.0.1": {}, "10.2.0.1": {}}',
        SHARES: '[["lubeck", 3, ["10.1.0.1"]], ["bergen", 1, ["10.2.0.1"]]]',
    }
    made = Service(metadata=Meta(name="web", namespace="shop", annotations=annotations))
    here = [cluster("lubeck", Role.LOCAL)]
    seen = snapshot(ResolveWatcher(), "lubeck", here, {"lubeck": [stored(made)]})

    explanation = explain(f"{host}.", RecordType.A, VIEW, seen)

    assert explanation.code == "NOERROR"
    assert explanation.records == (
        ExplainedRecord("10.1.0.1", 75),
        ExplainedRecord("10.2.0.1", 25),
    )
    assert explanation.rule == ("federated Service shop/web, in turn by weight: lubeck 3, bergen 1")
    assert explain(host, RecordType.AAAA, VIEW, seen).code == "NODATA"
