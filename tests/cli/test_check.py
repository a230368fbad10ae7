"""`hanse check --pre`: results before an installation, each with its remedy."""

import json
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import msgspec
import pytest
from msgspec.json import encode
from msgspec.structs import replace

from hanse.cli.check.preview import ClusterPreview, read_previews
from hanse.cli.check.results import CheckResult, Intended, check_previews
from hanse.cli.clusters import ClusterAccess
from hanse.cli.doctor.clusters import CheckContext
from hanse.cli.inventory import ClusterInventory, NodeCounts, UnreadCluster
from hanse.cli.permissions import Permission
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, ServerEndpoint, StaticCredentials
from hanse.kube.transport import Request, Response
from hanse.local.in_process import InProcessTransport
from hanse.model.crds import crds
from hanse.model.kinds.hanse import ClusterSetSpec
from tests.cli.programs import RunningFederation

CONTEXT = CheckContext(datetime(2026, 7, 1, 12, tzinfo=UTC), ())
LIGHTHOUSE = Intended(CONTEXT, broker="hub")
KEP = Intended(CONTEXT, ClusterSetSpec(profile="kep-1645"), "hub")


def preview(name: str, number: int, **changes: Any) -> ClusterPreview:
    """A cluster that is fit, with ranges by its number."""
    inventory = ClusterInventory(
        name,
        server=f"https://192.0.2.{number}:6443",
        version="v1.34.1",
        skew=timedelta(0),
        nodes=NodeCounts(3, 3),
        definitions={},
    )
    of_inventory = {n: changes.pop(n) for n in list(changes) if hasattr(inventory, n)}
    fields: dict[str, Any] = {
        "service_ranges": (ip_network(f"10.{number}.0.0/16"),),
        "pod_ranges": (ip_network(f"10.{100 + number}.0.0/16"),),
        "policies_served": True,
        "corefiles": {"coredns": ".:53 {}"},
        **changes,
    }
    return ClusterPreview(name, replace(inventory, **of_inventory), **fields)


class Refusing(InProcessTransport):
    """A server that refuses every request with one status."""

    def __init__(self, status: int) -> None:
        self._status = status

    async def send(self, request: Request) -> Response:
        return Response(self._status, b"{}")


HUB = preview("hub", 9, nodes=NodeCounts(0, 0), pod_ranges=(), service_ranges=())
LUBECK, BERGEN = preview("lubeck", 1), preview("bergen", 2)


def failures(*previews: ClusterPreview, intended: Intended = LIGHTHOUSE) -> list[CheckResult]:
    return [r for r in check_previews(previews, intended) if r.status == "failed"]


def test_nothing_fails_in_clusters_that_are_fit() -> None:
    results = check_previews([LUBECK, BERGEN, HUB], LIGHTHOUSE)

    assert {r.status for r in results} == {"ok", "unknown"}
    assert [r.check for r in results if r.status == "unknown"] == ["routes"]


@pytest.mark.parametrize(
    ("changes", "check", "message"),
    [
        ({"version": "v1.27.0"}, "version", "1.30 to 1.35"),
        ({"skew": timedelta(seconds=9)}, "clock", "9 s ahead"),
        ({"denied": (Permission("create", "namespaces"),)}, "rights", "create namespaces"),
        ({"nodes": NodeCounts(3, 2)}, "nodes", "1 of 3"),
        ({"policies_served": False}, "admission policies", "not served"),
    ],
)
def test_a_cluster_that_is_not_fit_is_told_with_a_remedy(
    changes: dict[str, Any], check: str, message: str
) -> None:
    found = [r for r in failures(preview("hub", 1, **changes)) if r.check == check]

    assert [r.cluster for r in found] == ["hub"]
    assert message in found[0].message
    assert found[0].remedy


def test_only_the_broker_must_have_admission_policies() -> None:
    assert failures(preview("lubeck", 1, policies_served=False), HUB) == []


def test_what_could_not_be_read_is_unknown_and_not_judged() -> None:
    unread = ClusterPreview("hub", preview("hub", 1).inventory)

    results = {r.check: r for r in check_previews([unread], LIGHTHOUSE)}

    assert failures(unread) == []
    assert {results[c].status for c in ("admission policies", "DNS stub")} == {"unknown"}
    assert results["admission policies"].remedy


@pytest.mark.anyio
@pytest.mark.parametrize(("status", "served"), [(404, False), (403, None), (500, None)])
async def test_policies_are_not_served_only_if_the_server_says_so(
    monkeypatch: pytest.MonkeyPatch, status: int, served: bool | None
) -> None:
    client = Client(Refusing(status))

    async def read_with(clusters: list[ClusterAccess], read: Any) -> list[ClusterPreview]:
        return [await read(one, client) for one in clusters]

    async def inventories(*_: Any) -> list[Any]:
        return [LUBECK.inventory]

    monkeypatch.setattr("hanse.cli.check.preview.read_clusters", read_with)
    monkeypatch.setattr("hanse.cli.check.preview.read_inventories", inventories)
    nowhere = StaticCredentials(ClientConfig(ServerEndpoint("https://192.0.2.1")))

    [found] = await read_previews([ClusterAccess("lubeck", nowhere)])

    assert found.policies_served is served


def test_a_cluster_that_does_not_answer_fails_once() -> None:
    silent = ClusterPreview("riga", UnreadCluster("riga", "no route to host"))

    assert [(r.cluster, r.message) for r in failures(silent, LUBECK, HUB)] == [
        ("riga", "no route to host")
    ]


def test_service_ranges_may_overlap_only_where_pods_are_published() -> None:
    other = replace(BERGEN, service_ranges=LUBECK.service_ranges)

    [failed] = failures(LUBECK, other, HUB)
    assert failed.check == "overlaps"
    assert "service range 10.1.0.0/16 of lubeck overlaps service range" in failed.message
    assert failures(LUBECK, other, HUB, intended=KEP) == []


@pytest.mark.parametrize("intended", [LIGHTHOUSE, KEP], ids=["lighthouse", "kep-1645"])
def test_pod_ranges_may_not_overlap_unless_globalnet_translates_them(intended: Intended) -> None:
    other = replace(BERGEN, pod_ranges=(), pod_addresses=("10.101.3.4",))
    [failed] = failures(LUBECK, other, HUB, intended=intended)
    assert "pod range 10.101.0.0/16 of lubeck overlaps pod range 10.101.3.4/32" in failed.message

    both: dict[str, Any] = {"definitions": {"globalingressips.submariner.io": {}}}
    translated = [preview("lubeck", 1, **both), preview("bergen", 1, **both), HUB]
    assert failures(*translated, intended=intended) == []


@pytest.mark.parametrize(
    ("definitions", "status"),
    [
        ({"globalingressips.submariner.io": {}}, "unknown"),
        (None, "unknown"),
        ({}, "failed"),
    ],
    ids=["the other has it", "neither could be listed", "the other lacks it"],
)
def test_whether_globalnet_translates_ranges_is_unknown_where_definitions_cannot_be_listed(
    definitions: dict[str, Any] | None, status: str
) -> None:
    unlisted = preview("lubeck", 1, definitions=None)
    other = preview("bergen", 2, pod_ranges=LUBECK.pod_ranges, definitions=definitions)

    results = check_previews([unlisted, other, HUB], LIGHTHOUSE)

    [overlap] = (r for r in results if r.check == "overlaps")
    assert overlap.status == status
    if status == "unknown":
        assert overlap.remedy == "kubectl --context lubeck get customresourcedefinitions"


def test_whether_ranges_overlap_is_unknown_where_a_cluster_says_none() -> None:
    unsaid = preview("bergen", 2, pod_ranges=(), pod_addresses=())

    results = check_previews([LUBECK, unsaid, HUB], LIGHTHOUSE)

    [overlap] = (r for r in results if r.check == "overlaps")
    assert (overlap.status, overlap.message) == (
        "unknown",
        "no known range of one is in another; bergen does not say all of its own",
    )


def test_clocks_that_differ_from_each_other_fail() -> None:
    late, early = (
        preview("a", 1, skew=timedelta(seconds=-2)),
        preview("b", 2, skew=timedelta(seconds=2)),
    )

    [failed] = failures(late, early, HUB)
    assert (failed.check, failed.message) == ("clocks", "b is 4 s ahead of a")


def test_a_broker_at_a_loopback_address_is_no_use_to_others() -> None:
    at_home = preview("hub", 9, server="https://127.0.0.1:6443")

    assert [r.check for r in failures(LUBECK, at_home)] == ["broker address"]
    assert failures(preview("lubeck", 1, server="https://localhost:7443"), at_home) == []


def test_definitions_of_others_are_a_warning_and_our_own_are_not() -> None:
    ours = {one["metadata"]["name"]: msgspec.Raw(encode(one["spec"])) for one in crds()}
    spec = encode({"names": {"categories": ["multicluster"]}})
    theirs = {"serviceexports.multicluster.x-k8s.io": msgspec.Raw(spec)}

    for definitions, expected in ((ours, "ok"), (theirs, "warning")):
        results = check_previews([preview("lubeck", 1, definitions=definitions)], LIGHTHOUSE)
        assert {r.status for r in results if r.check == "other controllers"} == {expected}


def test_other_controllers_are_unknown_where_definitions_cannot_be_listed() -> None:
    [result] = (
        r
        for r in check_previews([preview("lubeck", 1, definitions=None)], LIGHTHOUSE)
        if r.check == "other controllers"
    )

    assert (result.status, result.remedy) == (
        "unknown",
        "kubectl --context lubeck get customresourcedefinitions",
    )


def test_a_running_fleet_is_read_and_reported(fleet: RunningFederation) -> None:
    result = fleet.run_hanse("check", "--pre", "--broker", "broker", "--json")

    assert result.status == 0, result.err
    checks = json.loads(result.out)["checks"]
    ranges = {c["message"] for c in checks if c["check"] == "service ranges"}
    assert len(ranges) == 3
    assert {c["status"] for c in checks if c["check"] == "overlaps"} == {"ok"}


def test_bad_input_gets_one_line(fleet: RunningFederation) -> None:
    for arguments, text in (
        ((), "say --pre"),
        (("--pre", "--broker", "rome"), "--broker: no context 'rome'"),
        (("--pre", "--endpoints", "pods"), "needs --profile kep-1645"),
    ):
        result = fleet.run_hanse("check", *arguments)
        assert result.status == 2
        assert text in result.err
        assert result.err.count("\n") == 1
