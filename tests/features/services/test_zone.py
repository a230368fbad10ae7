"""Multi-cluster services: every row of the specification, queried in wire format."""

from collections import Counter

import pytest

from hanse.features.services.names import AFFINITY
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.zones import View
from hanse.model.facts import HolderState, LeaseLiveness, Phase, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.snapshot import Watch
from tests.dns.builders import (
    NODATA,
    NXDOMAIN,
    WEB,
    ZONE,
    ZoneResolver,
    ZoneWatcher,
    cluster_snapshot,
    endpoint_slice,
    imported,
    pod,
    rules,
)
from tests.support.builders import annotated, cluster, snapshot
from tinykube.virtual_time import EPOCH

LUBECK = View("lubeck", local="lubeck")


def test_one_cluster_answers_at_a_time_and_all_have_their_turn() -> None:
    ask = ZoneResolver(
        cluster_snapshot(
            "lubeck",
            imported(),
            endpoint_slice("bergen", "10.2.0.1"),
            endpoint_slice("hamburg", "10.1.0.1"),
        )
    )

    answer = [ask().records for _ in range(4)]

    assert Counter(answer) == {("10.2.0.1",): 2, ("10.1.0.1",): 2}
    assert answer[0] != answer[1]


def test_the_local_cluster_comes_first_when_it_is_ready() -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("lubeck", "10.0.0.1"),
        endpoint_slice("bergen", "10.2.0.1"),
    )

    ask = ZoneResolver(observed, LUBECK)

    assert {ask().records for _ in range(5)} == {("10.0.0.1",)}


def test_the_local_cluster_is_passed_over_while_it_is_not_ready() -> None:
    local = endpoint_slice("lubeck", pod("10.0.0.1", ready=False))

    ask = ZoneResolver(
        cluster_snapshot("lubeck", imported(), local, endpoint_slice("bergen", "10.2.0.1")), LUBECK
    )

    assert {ask().records for _ in range(5)} == {("10.2.0.1",)}


def test_local_first_can_be_switched_off() -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("lubeck", "10.0.0.1"),
        endpoint_slice("bergen", "10.2.0.1"),
    )

    ask = ZoneResolver(observed, View("lubeck", local="lubeck", local_first=False))

    assert {ask().records for _ in range(4)} == {("10.0.0.1",), ("10.2.0.1",)}


@pytest.mark.parametrize(
    ("affinity", "local_first", "answered"),
    [
        ("local", False, {"10.0.0.1"}),
        ("none", True, {"10.0.0.1", "10.2.0.1"}),
        ("remote", True, {"10.2.0.1"}),
        ("else", True, {"10.0.0.1"}),
    ],
)
def test_the_affinity_of_an_export_counts_more_than_the_servers(
    affinity: str, local_first: bool, answered: set[str]
) -> None:
    web = annotated(imported(), {AFFINITY: affinity})
    slices = (endpoint_slice("lubeck", "10.0.0.1"), endpoint_slice("bergen", "10.2.0.1"))
    view = View("lubeck", local="lubeck", local_first=local_first)

    ask = ZoneResolver(cluster_snapshot("lubeck", web, *slices), view)

    assert {ask().records for _ in range(4)} == {(address,) for address in answered}


def test_a_local_cluster_of_one_family_answers_nothing_for_the_other() -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("lubeck", "10.0.0.1"),
        endpoint_slice("bergen", "fd00::2"),
    )

    ask = ZoneResolver(observed, LUBECK)

    assert ask(WEB, "AAAA").code == NODATA


def test_weights_of_the_fleet_share_answers_out() -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("bergen", "10.2.0.1"),
        endpoint_slice("hamburg", "10.1.0.1"),
        fleet=rules(bergen=3, hamburg=1),
    )

    ask = ZoneResolver(observed)

    assert Counter(ask().records for _ in range(8)) == {("10.2.0.1",): 6, ("10.1.0.1",): 2}


def test_an_exports_own_weight_overrules_the_fleets() -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("bergen", "10.2.0.1", weight=1),
        endpoint_slice("hamburg", "10.1.0.1"),
        fleet=rules(bergen=9),
    )

    ask = ZoneResolver(observed)

    assert Counter(ask().records for _ in range(8)) == {("10.2.0.1",): 4, ("10.1.0.1",): 4}


def test_a_drained_cluster_answers_only_when_nobody_else_can() -> None:
    bergen, hamburg = (
        endpoint_slice("bergen", "10.2.0.1", weight=0),
        endpoint_slice("hamburg", "10.1.0.1"),
    )

    together = ZoneResolver(cluster_snapshot("lubeck", imported(), bergen, hamburg))
    alone = ZoneResolver(cluster_snapshot("lubeck", imported(), bergen))

    assert {together().records for _ in range(4)} == {("10.1.0.1",)}
    assert alone().records == ("10.2.0.1",)


def test_a_cluster_that_went_silent_is_left_out() -> None:
    dead = LeaseLiveness("broker", "hanse-broker", "bergen", "bergen", HolderState.SILENT, EPOCH)
    observed = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("bergen", "10.2.0.1"),
        endpoint_slice("hamburg", "10.1.0.1"),
        facts=[dead],
    )

    ask = ZoneResolver(observed)

    assert {ask().records for _ in range(4)} == {("10.1.0.1",)}
    assert ask(f"bergen.{WEB}").code == NODATA


def test_both_families_are_answered() -> None:
    ask = ZoneResolver(
        cluster_snapshot(
            "lubeck",
            imported(),
            endpoint_slice("bergen", "10.2.0.1"),
            endpoint_slice("bergen", "fd00::2"),
        )
    )

    assert ask(WEB, "A").records == ("10.2.0.1",)
    assert ask(WEB, "AAAA").records == ("fd00::2",)


PORTS = (("http", 80), ("metrics", 9100))


@pytest.mark.parametrize(
    ("name", "rtype", "expected"),
    [
        pytest.param(f"bergen.{WEB}", "A", ("10.2.0.1",), id="one cluster"),
        pytest.param(WEB, "SRV", (f"0 50 80 {WEB}.",), id="bare SRV has the aggregate's ports"),
        pytest.param(f"_http._tcp.{WEB}", "SRV", (f"0 50 80 {WEB}.",), id="named port"),
        pytest.param(
            f"bergen.{WEB}",
            "SRV",
            (f"0 50 80 bergen.{WEB}.", f"0 50 9100 bergen.{WEB}."),
            id="a cluster's SRV has its own ports",
        ),
        pytest.param(
            f"_metrics._tcp.bergen.{WEB}",
            "SRV",
            (f"0 50 9100 bergen.{WEB}.",),
            id="a cluster's named port",
        ),
        pytest.param(f"dns-version.{ZONE}", "TXT", ('"1.0.0"',), id="version"),
        pytest.param(ZONE, "NS", (f"ns.dns.{ZONE}.",), id="name server"),
    ],
)
def test_an_addressed_service_answers(name: str, rtype: str, expected: tuple[str, ...]) -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("bergen", "10.2.0.1", ports=PORTS),
        endpoint_slice("hamburg", "10.1.0.1"),
    )

    answer = ZoneResolver(observed)(name, rtype)

    assert answer.records == expected
    assert answer.message is not None
    assert all(rrset.ttl == 5 for rrset in answer.message.answer)


@pytest.mark.parametrize(
    ("name", "rtype", "code"),
    [
        pytest.param(WEB, "TXT", NODATA, id="another type"),
        pytest.param(WEB, "AAAA", NODATA, id="another family"),
        pytest.param(f"_tcp.{WEB}", "A", NODATA, id="name between names"),
        pytest.param(f"shop.svc.{ZONE}", "A", NODATA, id="namespace"),
        pytest.param(f"svc.{ZONE}", "A", NODATA, id="svc"),
        pytest.param(f"_metrics._tcp.{WEB}", "SRV", NODATA, id="port that not all have"),
        pytest.param(f"hamburg.{WEB}", "A", NODATA, id="cluster without ready endpoints"),
        pytest.param(f"_http._tcp.hamburg.{WEB}", "SRV", NODATA, id="its port"),
        pytest.param(f"lubeck.{WEB}", "A", NXDOMAIN, id="cluster that does not export"),
        pytest.param(f"_smtp._tcp.{WEB}", "SRV", NXDOMAIN, id="unknown port"),
        pytest.param(f"_http._udp.{WEB}", "SRV", NXDOMAIN, id="unknown protocol"),
        pytest.param(f"mail.shop.svc.{ZONE}", "A", NXDOMAIN, id="unknown service"),
        pytest.param(f"web.club.svc.{ZONE}", "A", NXDOMAIN, id="unknown namespace"),
        pytest.param(f"web.shop.pod.{ZONE}", "A", NXDOMAIN, id="not svc"),
        pytest.param(f"a.bergen.{WEB}", "A", NXDOMAIN, id="no pods of addressed services"),
        pytest.param(WEB, "ANY", "REFUSED", id="ANY"),
        pytest.param("web.shop.svc.cluster.local", "A", "REFUSED", id="another zone"),
        pytest.param("local", "A", "REFUSED", id="above the zone"),
        pytest.param(".", "NS", "REFUSED", id="the root"),
    ],
)
def test_a_missing_name_and_a_missing_type_are_distinguished(
    name: str, rtype: str, code: str
) -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(),
        endpoint_slice("bergen", "10.2.0.1", ports=PORTS),
        endpoint_slice("hamburg", pod("10.1.0.1", ready=False)),
    )

    answer = ZoneResolver(observed)(name, rtype)

    assert (answer.code, answer.records) == (code, ())
    assert answer.authority == (("SOA",) if code in (NODATA, NXDOMAIN) else ())


def test_a_known_service_with_nothing_usable_is_empty_not_unknown() -> None:
    ask = ZoneResolver(
        cluster_snapshot("lubeck", imported(clusters=["bergen"]), endpoint_slice("bergen"))
    )

    assert [ask(WEB, t).code for t in ("A", "AAAA", "SRV")] == [NODATA] * 3
    assert ask(f"_http._tcp.{WEB}", "SRV").code == NODATA
    assert ask(f"bergen.{WEB}").code == NODATA


def test_clusters_that_agree_on_no_port_are_answered_without_ports() -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(ports=()),
        endpoint_slice("bergen", "10.2.0.1", ports=[("a", 1)]),
        endpoint_slice("hamburg", "10.1.0.1", ports=[("b", 2)]),
    )

    ask = ZoneResolver(observed)

    assert ask(WEB, "A").code == "NOERROR"
    assert ask(WEB, "SRV").code == NODATA
    assert ask(f"_a._tcp.{WEB}", "SRV").code == NODATA


def test_the_sets_own_addresses_are_answered_in_kep_1645() -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(ips=("10.9.0.1", "fd09::1")),
        endpoint_slice("bergen", pod("10.2.0.1", ready=False)),
        fleet=rules("kep-1645"),
    )

    ask = ZoneResolver(observed, LUBECK)

    assert ask(WEB, "A").records == ("10.9.0.1",)
    assert ask(WEB, "AAAA").records == ("fd09::1",)
    assert ask(f"_http._tcp.{WEB}", "SRV").records == (f"0 50 80 {WEB}.",)
    assert ask(f"bergen.{WEB}").code == NXDOMAIN


@pytest.mark.parametrize("phase", [Phase.CONNECTING, Phase.LEAVING])
def test_an_imports_own_address_is_answered_before_the_broker_is_read_and_as_it_is_left(
    phase: Phase,
) -> None:
    observed = cluster_snapshot(
        "lubeck", imported(ips=("10.9.0.1",)), endpoint_slice("bergen", "10.2.0.1"), broker=phase
    )

    ask = ZoneResolver(observed, LUBECK)

    assert ask(WEB, "A").records == ("10.9.0.1",)
    assert ask(f"bergen.{WEB}").code == NXDOMAIN


def test_an_import_without_addresses_yet_is_empty_in_kep_1645() -> None:
    ask = ZoneResolver(
        cluster_snapshot(
            "lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"), fleet=rules("kep-1645")
        )
    )

    assert ask(WEB, "A").code == NODATA
    assert ask(WEB, "SRV").code == NODATA


def test_cluster_names_can_be_switched_on_in_kep_1645() -> None:
    observed = cluster_snapshot(
        "lubeck",
        imported(ips=("10.9.0.1",)),
        endpoint_slice("bergen", "10.2.0.1"),
        fleet=rules("kep-1645"),
    )

    ask = ZoneResolver(observed, View("lubeck", cluster_names=True))

    assert ask(f"bergen.{WEB}").records == ("10.2.0.1",)


HEADLESS = imported(type_="Headless")


def test_every_ready_pod_of_every_cluster_is_answered_once() -> None:
    observed = cluster_snapshot(
        "lubeck",
        HEADLESS,
        endpoint_slice("bergen", "10.2.0.1", "10.2.0.2", pod("10.2.0.3", ready=False)),
        endpoint_slice("hamburg", "10.1.0.1"),
        endpoint_slice("hamburg", "10.1.0.1", slot="-again"),
    )

    ask = ZoneResolver(observed, LUBECK)

    assert ask(WEB, "A").records == ("10.1.0.1", "10.2.0.1", "10.2.0.2")
    assert ask(f"bergen.{WEB}", "A").records == ("10.2.0.1", "10.2.0.2")


def test_pods_take_turns_in_being_first() -> None:
    ask = ZoneResolver(
        cluster_snapshot(
            "lubeck", HEADLESS, endpoint_slice("bergen", "10.2.0.1", "10.2.0.2", "10.2.0.3")
        )
    )

    messages = [ask().message for _ in range(6)]

    first = Counter(str(m.answer[0][0]) for m in messages if m is not None)
    assert first == {"10.2.0.1": 2, "10.2.0.2": 2, "10.2.0.3": 2}


@pytest.mark.parametrize(
    ("name", "rtype", "expected"),
    [
        pytest.param(f"db-0.bergen.{WEB}", "A", ("10.2.0.1",), id="by host name"),
        pytest.param(f"db-0.bergen.{WEB}", "AAAA", ("fd00::1",), id="its other family"),
        pytest.param(f"10-1-0-7.hamburg.{WEB}", "A", ("10.1.0.7",), id="by dashed address"),
        pytest.param(f"fd01--9.hamburg.{WEB}", "AAAA", ("fd01::9",), id="by dashed IPv6 address"),
        pytest.param(
            f"_http._tcp.{WEB}",
            "SRV",
            (
                f"0 50 80 10-1-0-7.hamburg.{WEB}.",
                f"0 50 80 db-0.bergen.{WEB}.",
                f"0 50 80 fd01--9.hamburg.{WEB}.",
            ),
            id="SRV: one per pod and port",
        ),
        pytest.param(
            f"_http._tcp.bergen.{WEB}", "SRV", (f"0 50 80 db-0.bergen.{WEB}.",), id="of a cluster"
        ),
        pytest.param(
            f"bergen.{WEB}",
            "SRV",
            (f"0 50 80 db-0.bergen.{WEB}.", f"0 50 9100 db-0.bergen.{WEB}."),
            id="bare SRV of a cluster has its own ports",
        ),
    ],
)
def test_a_headless_service_answers(name: str, rtype: str, expected: tuple[str, ...]) -> None:
    observed = cluster_snapshot(
        "lubeck",
        HEADLESS,
        endpoint_slice("bergen", pod("10.2.0.1", hostname="db-0"), ports=PORTS),
        endpoint_slice("bergen", pod("fd00::1", hostname="db-0"), ports=PORTS),
        endpoint_slice("hamburg", "10.1.0.7"),
        endpoint_slice("hamburg", "fd01::9"),
    )

    assert ZoneResolver(observed)(name, rtype).records == expected


def test_a_pod_with_a_host_name_has_no_dashed_name() -> None:
    ask = ZoneResolver(
        cluster_snapshot(
            "lubeck", HEADLESS, endpoint_slice("bergen", pod("10.2.0.1", hostname="db-0"))
        )
    )

    assert ask(f"10-2-0-1.bergen.{WEB}").code == NXDOMAIN


def test_a_pod_that_is_not_ready_has_no_name() -> None:
    down = pod("10.2.0.1", hostname="db-0", ready=False)

    assert ZoneResolver(cluster_snapshot("lubeck", HEADLESS, endpoint_slice("bergen", down)))(
        f"db-0.bergen.{WEB}"
    ).code == (NXDOMAIN)


def test_pods_are_answered_with_the_port_they_serve() -> None:
    ask = ZoneResolver(
        cluster_snapshot(
            "lubeck", HEADLESS, endpoint_slice("bergen", "10.2.0.1", ports=[("http", 8080)])
        )
    )

    assert ask(WEB, "SRV").records == (f"0 50 8080 10-2-0-1.bergen.{WEB}.",)


@pytest.mark.parametrize(("profile", "code"), [("lighthouse", NODATA), ("kep-1645", NXDOMAIN)])
def test_the_profiles_differ_about_a_headless_service_without_pods(profile: str, code: str) -> None:
    fleet = rules("lighthouse" if profile == "lighthouse" else "kep-1645")

    ask = ZoneResolver(cluster_snapshot("lubeck", HEADLESS, endpoint_slice("bergen"), fleet=fleet))

    assert ask(WEB).code == code


def test_pods_are_named_by_cluster_in_kep_1645_too() -> None:
    observed = cluster_snapshot(
        "lubeck", HEADLESS, endpoint_slice("bergen", "10.2.0.1"), fleet=rules("kep-1645")
    )

    ask = ZoneResolver(observed)

    assert ask(f"10-2-0-1.bergen.{WEB}").records == ("10.2.0.1",)
    assert ask(f"bergen.{WEB}").code == NODATA


def test_before_the_first_sync_every_name_fails() -> None:
    ask = ZoneResolver(cluster_snapshot("lubeck", phase=Phase.CONNECTING))

    assert ask(WEB).code == "SERVFAIL"
    assert ask(f"nothing.{ZONE}").code == "SERVFAIL"
    assert ask("example.org").code == "REFUSED"


def test_the_zone_can_be_another() -> None:
    observed = cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))

    ask = ZoneResolver(observed, View("x", zone="hanse.example"))

    assert ask("web.shop.svc.hanse.example").records == ("10.2.0.1",)
    assert ask(WEB).code == "REFUSED"


def test_nothing_is_answered_before_it_is_known_who_is_alive() -> None:
    class Watcher(ZoneWatcher):
        watches = (*ZoneWatcher.watches, Watch(Role.BROKER, Lease))

    def is_synced(broker: Phase) -> bool:
        clusters = [cluster("lubeck", Role.LOCAL), cluster("broker", Role.BROKER, phase=broker)]
        return ServiceZone(LUBECK).synced(snapshot(Watcher(), "lubeck", clusters, {}))

    assert is_synced(Phase.SYNCED)
    assert not is_synced(Phase.CONNECTING)
    assert is_synced(Phase.UNREACHABLE), "what stands is answered"
