"""What doctor says of nodes whose guard is away."""

from typing import Any

import pytest

from hanse.cli.doctor.objects import check_objects
from hanse.cli.fleet import ClusterRead
from hanse.features.networks.cni_script import GUARD_SILENT, plugin_script
from tests.cli.test_doctor_objects import NOW, lists, named, only

NETWORK = named("acme.default", spec={"type": "flat", "tenant": "acme"})
SILENT = f'plugin type="hanse" failed (add): {GUARD_SILENT}; pods start once …'


def agent(relies: str = "true") -> dict[str, Any]:
    variable = {"name": "HANSE_NETWORK_GUARD", "value": relies}
    container = {"name": "agent", "env": [{"name": "A", "value": "b"}, variable]}
    return named("hanse-agent", spec={"template": {"spec": {"containers": [container]}}})


GUARDS = named("hanse-guard")


def lease(boot: str = "boot-1", renewed: str = "2026-05-01T11:59:30Z") -> dict[str, Any]:
    """The Lease of a guard, half a minute old."""
    spec = {"holderIdentity": boot, "leaseDurationSeconds": 60, "renewTime": renewed}
    return named("node-1", spec=spec)


def told(reason: str) -> dict[str, Any]:
    """A network as the agent describes it."""
    condition = {"type": "Isolated", "status": "True", "reason": reason}
    return {**NETWORK, "status": {"conditions": [condition]}}


def unattached(message: str = SILENT, at: str = "2026-05-01T11:55:00Z") -> dict[str, Any]:
    """An Event of a kubelet, five minutes ago."""
    about = {"involvedObject": {"kind": "Pod", "name": "web"}, "message": message}
    return named("web.1", **about, source={"host": "node-1"}, lastTimestamp=at)


def cluster(**more: Any) -> ClusterRead:
    node = named("node-1", status={"nodeInfo": {"bootID": "boot-1"}})
    return lists(**{"networks": [NETWORK], "nodes": [node], **more})


def test_networks_that_rely_on_guards_without_any_are_told() -> None:
    finding = only(cluster(deployments=[agent()]))

    assert (finding.code, finding.pasteable) == ("GuardMissing", True)
    assert finding.remedy == (
        "kubectl --context lubeck -n hanse-system set env deployment/hanse-agent "
        "HANSE_NETWORK_GUARD=false"
    )


@pytest.mark.parametrize(
    "more",
    [
        {"deployments": [agent()]},
        {"deployments": [agent()], "guard_leases": [lease(boot="boot-0")]},
        {"deployments": [agent()], "guard_leases": [lease(renewed="2026-05-01T11:58:00Z")]},
        {"networks": [told("GuardsMissing")]},
        {"networks": [told("Guards")]},
    ],
    ids=["no Lease", "of another boot", "not renewed", "policies isolate", "agent is away"],
)
def test_a_node_without_a_guard_that_is_ready_is_told(more: dict[str, Any]) -> None:
    finding = only(cluster(daemonsets=[GUARDS], **more))

    assert "1 of its nodes have no guard that is ready (node-1)" in finding.problem
    assert finding.remedy.endswith("rollout restart daemonset/hanse-guard")


@pytest.mark.parametrize(
    "more",
    [
        {"deployments": [agent()], "guard_leases": [lease()]},
        {"deployments": [agent("false")]},
        {"networks": [told("NetworkPolicies")]},
        {"networks": [told("Guards")], "guard_leases": [lease()]},
        {"events": [unattached("no address is free")]},
        {"events": [unattached(at="2026-05-01T11:40:00Z")]},
    ],
)
def test_where_nothing_relies_on_a_guard_nothing_is_told(more: dict[str, Any]) -> None:
    assert check_objects([cluster(**more)], NOW) == []


def test_a_plugin_that_was_left_on_a_node_is_told_with_how_it_goes() -> None:
    """Also in a cluster from which all else was uninstalled."""
    finding = only(lists(nodes=[named("node-1")], events=[unattached(), unattached()]))

    assert (finding.code, str(finding.subject)) == ("GuardMissing", "Node node-1")
    assert finding.remedy == (
        "kubectl --context lubeck debug node/node-1 -q --image=busybox "
        "-- rm -f /host/etc/cni/net.d/00-hanse.conflist"
    )
    with_guards = only(lists(nodes=[named("node-1")], events=[unattached()], daemonsets=[GUARDS]))
    assert with_guards.remedy.endswith("rollout restart daemonset/hanse-guard")


def test_what_doctor_looks_for_is_what_the_plugin_says() -> None:
    assert f'silent="{GUARD_SILENT};' in plugin_script("/run", 20)
