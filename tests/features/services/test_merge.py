"""The merge of exports: laws over any records, and the cases of the specification."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations, product
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanse.features.services.merge import MergedImport, merge_exports
from hanse.features.services.records import ExportRecord
from hanse.model.kinds.core import ClientIPConfig, Protocol, SessionAffinityConfig
from hanse.model.kinds.hanse import Profile
from hanse.model.kinds.multicluster import ImportedPort
from tests.features.services.builders import PROFILES, port, record
from tinykube.virtual_time import EPOCH

laws = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
both_profiles = pytest.mark.parametrize("profile", PROFILES)

TRANSPORTS: tuple[Protocol, ...] = ("TCP", "UDP")
SINGLE = [
    port(number, name, protocol, app_protocol=spoken)
    for number, name, protocol, spoken in product(
        (80, 81, 443), ("", "http", "web", "tls", "tcp-80"), TRANSPORTS, ("", "h2c")
    )
]
PORT_SETS = [(p,) for p in SINGLE] + [
    (p, q)
    for p, q in permutations(SINGLE, 2)
    if p.name and q.name and p.name != q.name and (p.protocol, p.port) != (q.protocol, q.port)
]
"""What ports a Service can have, up to two of them."""

some_records = st.lists(
    st.builds(
        ExportRecord,
        cluster=st.sampled_from(("lubeck", "hamburg", "bergen", "visby", "riga")),
        namespace=st.just("shop"),
        name=st.just("web"),
        exported_at=st.sampled_from([EPOCH + timedelta(seconds=n) for n in range(3)]),
        type=st.sampled_from(("ClusterSetIP", "Headless")),
        ports=st.sampled_from(PORT_SETS),
        ip_families=st.sampled_from((("IPv4",), ("IPv6",), ("IPv4", "IPv6"), ("IPv6", "IPv4"))),
        session_affinity=st.sampled_from(("None", "ClientIP")),
        internal_traffic_policy=st.sampled_from(("", "Local")),
        traffic_distribution=st.sampled_from(("", "PreferClose")),
        exported_labels=st.sampled_from(({}, {"tier": "gold"})),
        exported_annotations=st.sampled_from(({}, {"note": "x"})),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda r: r.cluster,
)


def merged(records: Sequence[ExportRecord], profile: Profile) -> MergedImport:
    result = merge_exports(records, profile)
    assert result is not None
    return result


@both_profiles
@laws
@given(records=some_records, seed=st.integers(0, 99))
def test_the_order_of_records_is_irrelevant(
    profile: Profile, records: list[ExportRecord], seed: int
) -> None:
    shuffled = list(records)
    Random(seed).shuffle(shuffled)

    assert merge_exports(shuffled, profile) == merge_exports(records, profile)


@both_profiles
@laws
@given(records=some_records)
def test_the_import_is_the_oldest_exports_in_all_but_ports_and_families(
    profile: Profile, records: list[ExportRecord]
) -> None:
    oldest = min(records, key=lambda r: (r.exported_at, r.cluster))
    result = merged(records, profile)

    assert result.type == oldest.type
    assert result.session_affinity == oldest.session_affinity
    assert result.labels == oldest.exported_labels
    assert result.annotations == oldest.exported_annotations
    assert result.clusters[0] == oldest.cluster


@laws
@given(records=some_records)
def test_lighthouse_imports_only_ports_that_every_admitted_cluster_serves(
    records: list[ExportRecord],
) -> None:
    result = merged(records, "lighthouse")
    admitted = [r for r in records if r.cluster in result.clusters]

    common = set.intersection(*({(p.name, p.protocol, p.port) for p in r.ports} for r in admitted))
    assert {(p.name, p.protocol, p.port) for p in result.ports} == common
    assert set(result.ports) <= set(min(admitted, key=lambda r: r.age).ports)


@laws
@given(records=some_records)
def test_kep_1645_imports_every_port_unless_its_name_or_number_is_taken(
    records: list[ExportRecord],
) -> None:
    result = merged(records, "kep-1645")
    names = [p.name for p in result.ports]
    numbers = [(p.protocol, p.port) for p in result.ports]

    assert len(set(names)) == len(names)
    assert len(set(numbers)) == len(numbers)
    assert len(names) == 1 or all(names), "a Service names each of several ports"
    for reported in (p for r in records for p in r.ports):
        taken = {_name(port) for port in result.ports}
        assert _name(reported) in taken or (reported.protocol, reported.port) in numbers


def _name(port: ImportedPort) -> str:
    """The name of a port in a union of several, which an unnamed port has of its number."""
    return port.name or f"{port.protocol.lower()}-{port.port}"


@both_profiles
@laws
@given(records=some_records)
def test_everybody_is_either_admitted_or_refused(
    profile: Profile, records: list[ExportRecord]
) -> None:
    result = merged(records, profile)

    assert set(result.clusters) | result.refused == {r.cluster for r in records}
    assert not set(result.clusters) & result.refused
    assert profile == "lighthouse" or not result.refused


@both_profiles
@laws
@given(records=some_records)
def test_conflicts_other_than_of_type_are_reported_to_all_admitted_clusters_or_to_none(
    profile: Profile, records: list[ExportRecord]
) -> None:
    result = merged(records, profile)

    reported = {
        cluster: {c.reason for c in result.conflicts[cluster]} - {"TypeConflict"}
        for cluster in result.clusters
    }
    assert len({frozenset(reasons) for reasons in reported.values()}) == 1
    typed = {
        c for c, found in result.conflicts.items() if "TypeConflict" in {f.reason for f in found}
    }
    differ = len({r.type for r in records}) > 1
    everybody = {r.cluster for r in records}
    assert typed == (set() if not differ else result.refused or everybody)


@both_profiles
@laws
@given(records=some_records)
def test_without_those_who_disagree_with_the_oldest_nothing_is_in_conflict(
    profile: Profile, records: list[ExportRecord]
) -> None:
    oldest = min(records, key=lambda r: r.age)
    alone = [r for r in records if _agrees(r, oldest)]

    result = merged(alone, profile)

    assert all(found == () for found in result.conflicts.values())
    assert result.refused == frozenset()
    assert set(result.ports) == set(oldest.ports)


def _agrees(one: ExportRecord, other: ExportRecord) -> bool:
    def merged_fields(r: ExportRecord) -> tuple[object, ...]:
        return (
            r.type,
            set(r.ports),
            set(r.ip_families),
            r.session_affinity,
            r.internal_traffic_policy,
            r.traffic_distribution,
            r.exported_labels,
            r.exported_annotations,
        )

    return merged_fields(one) == merged_fields(other)


@both_profiles
@laws
@given(records=some_records)
def test_a_refused_export_is_admitted_once_those_of_the_other_type_are_gone(
    profile: Profile, records: list[ExportRecord]
) -> None:
    before = merged(records, profile)
    left = [r for r in records if r.cluster in before.refused]
    if not left:
        return

    after = merged(left, profile)

    assert after.refused == frozenset()
    assert set(after.clusters) == before.refused


def test_nobody_exports_nothing() -> None:
    assert merge_exports([], "lighthouse") is None
    assert merge_exports([], "kep-1645") is None


def test_of_two_exports_of_one_second_the_first_by_name_of_its_cluster_wins() -> None:
    records = [record("lubeck", port(80, "a")), record("bergen", port(80, "b"))]

    assert merged(records, "kep-1645").ports == (port(80, "b"),)


PORT_CASES: dict[str, tuple[tuple[ImportedPort, ...], tuple[ImportedPort, ...], str, str]] = {
    "same ports": ((port(80, "http"),), (port(80, "http"),), "http/80", "http/80"),
    "one more in one": (
        (port(80, "http"), port(443, "tls")),
        (port(80, "http"),),
        "http/80",
        "http/80 tls/443",
    ),
    "same name, another number": ((port(80, "http"),), (port(81, "http"),), "", "http/80"),
    "same number, another name": ((port(80, "http"),), (port(80, "web"),), "", "http/80"),
    "another protocol": (
        (port(53, "dns"),),
        (port(53, "dns-udp", "UDP"),),
        "",
        "dns/53 dns-udp/53",
    ),
    "another application protocol": (
        (port(80, "http"),),
        (port(80, "http", app_protocol="h2c"),),
        "http/80",
        "http/80",
    ),
    "one without a name": ((port(80),), (port(443, "tls"),), "", "tcp-80/80 tls/443"),
    "none with a name": ((port(80),), (port(443),), "", "tcp-80/80 tcp-443/443"),
    "its name is taken": ((port(80),), (port(81, "tcp-80"),), "", "/80"),
}


@pytest.mark.parametrize("case", PORT_CASES.values(), ids=list(PORT_CASES))
def test_ports_of_two_clusters(
    case: tuple[tuple[ImportedPort, ...], tuple[ImportedPort, ...], str, str],
) -> None:
    old, young, common, all_ = case
    records = [record("lubeck", *old, age=9), record("bergen", *young, age=1)]

    for profile, expected in zip(PROFILES, (common, all_), strict=True):
        result = merged(records, profile)
        assert " ".join(f"{p.name}/{p.port}" for p in result.ports) == expected
        conflict = ("PortConflict",) if set(old) != set(young) else ()
        for cluster in ("lubeck", "bergen"):
            assert tuple(c.reason for c in result.conflicts[cluster]) == conflict


@both_profiles
def test_the_oldest_application_protocol_is_used_and_the_conflict_says_so(
    profile: Profile,
) -> None:
    records = [
        record("lubeck", port(80, "http", app_protocol="h2c"), age=9),
        record("bergen", port(80, "http")),
    ]

    result = merged(records, profile)

    assert result.ports == (port(80, "http", app_protocol="h2c"),)
    for cluster in ("lubeck", "bergen"):
        [conflict] = result.conflicts[cluster]
        assert conflict.reason == "PortConflict"
        assert conflict.message == (
            "port http TCP/80 has appProtocol h2c, as in lubeck, the oldest export; bergen has "
            "another"
        )


def test_a_later_export_of_another_type_is_refused_in_lighthouse_and_alone_has_the_conflict() -> (
    None
):
    old = record("lubeck", age=9, headless=True)
    young = record("bergen", age=1)

    result = merged([young, old], "lighthouse")

    assert result.type == "Headless"
    assert result.clusters == ("lubeck",)
    assert result.refused == {"bergen"}
    assert result.conflicts["lubeck"] == ()
    [reported] = result.conflicts["bergen"]
    assert reported.reason == "TypeConflict"
    assert "lubeck" in reported.message
    assert "not exported until the types agree" in reported.message


def test_in_kep_1645_both_types_are_admitted_under_the_oldest_and_both_have_the_conflict() -> None:
    result = merged([record("bergen"), record("lubeck", age=9, headless=True)], "kep-1645")

    assert result.type == "Headless"
    assert set(result.clusters) == {"lubeck", "bergen"}
    assert [c.reason for c in result.conflicts["lubeck"]] == ["TypeConflict"]
    assert [c.reason for c in result.conflicts["bergen"]] == ["TypeConflict"]


FIELD_CASES: dict[str, dict[str, Any]] = {
    "SessionAffinityConflict": {"session_affinity": "ClientIP"},
    "SessionAffinityConfigConflict": {
        "session_affinity_config": SessionAffinityConfig(
            client_ip=ClientIPConfig(timeout_seconds=10)
        )
    },
    "InternalTrafficPolicyConflict": {"internal_traffic_policy": "Local"},
    "TrafficDistributionConflict": {"traffic_distribution": "PreferClose"},
    "IPFamilyConflict": {"ip_families": ("IPv4", "IPv6")},
    "LabelsConflict": {"exported_labels": {"tier": "gold"}},
    "AnnotationsConflict": {"exported_annotations": {"note": "x"}},
}


@both_profiles
@pytest.mark.parametrize("reason", FIELD_CASES)
def test_a_field_that_differs_is_a_conflict_of_its_own_name(profile: Profile, reason: str) -> None:
    old = record("lubeck", age=9)
    young = record("bergen", age=1, **FIELD_CASES[reason])

    result = merged([old, young], profile)

    for cluster in ("lubeck", "bergen"):
        [reported] = result.conflicts[cluster]
        assert reported.reason == reason
        assert "lubeck, the oldest export, is used" in reported.message
        assert "bergen has another" in reported.message


def test_several_who_disagree_are_counted() -> None:
    odd = [record(f"c{n}", exported_labels={"n": str(n)}) for n in range(5)]

    [reported] = merged([record("lubeck", age=9), *odd], "lighthouse").conflicts["c3"]

    assert "5 clusters (c0, c1, c2, …) have another" in reported.message


def test_families_are_those_that_all_have_and_else_the_oldests() -> None:
    both, four = ("IPv6", "IPv4"), ("IPv4",)
    old = record("lubeck", age=9, ip_families=both)

    assert merged([old, record("bergen", ip_families=four)], "kep-1645").ip_families == four
    six = merged([old, record("bergen", age=19, ip_families=("IPv6",))], "kep-1645")
    assert six.ip_families == ("IPv6",)
    apart = [record("a", ip_families=("IPv4",)), record("b", ip_families=("IPv6",))]
    assert merged(apart, "kep-1645").ip_families == ("IPv4",)


def test_a_union_tells_which_port_it_leaves_out() -> None:
    old = record("lubeck", port(80, "http"), age=9)
    new = record("bergen", port(81, "http"), port(80, "web"))

    result = merged([old, new], "kep-1645")

    assert result.ports == (port(80, "http"),)
    (conflict,) = result.conflicts["bergen"]
    assert conflict.message.startswith(
        "the ports of all are imported but http TCP/81 of bergen, whose name an older export "
        "uses and web TCP/80 of bergen, whose number is that of http; "
    )
