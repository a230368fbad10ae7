"""Our image and chart on real nodes: pods of the chart do what agents of `hanse up` do."""

import subprocess
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from hanse.features.networks.cni import STATE_FOLDER
from hanse.model.acceptance import BROKER_ORIGIN
from hanse.model.kinds.acceptance import (
    ACCEPT,
    DEFAULT_POLICY,
    AcceptancePolicy,
    AcceptancePolicySpec,
    WorkloadAcceptance,
)
from hanse.model.kinds.gslb import NAMESPACE as GSLB_NAMESPACE
from hanse.model.objects import Meta, Wire, to_wire
from tests.nodes import federated_services, global_hosts
from tests.nodes.fleet import NodesFleet, until
from tests.nodes.installation import (
    BROKER,
    FEDERATION,
    SYSTEM,
    Installation,
    give_gslb_credentials,
    installed,
)
from tests.nodes.lighthouse import LighthouseServices
from tests.nodes.lighthouse import create_services as create_lighthouse_services
from tests.nodes.manifests import TCP, export, federated_set, namespace, service, workload
from tests.nodes.processes import container_process, descendants

HERE, THERE = "lubeck", "hamburg"
SPACE, SETS = "shop", "sets"
REPLICAS_ZONE = "myfederation.svc.example.com"
ZONE = f"{SPACE}.svc.clusterset.local"


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("helm")) as found:
        yield found


@pytest.fixture(scope="module")
def fleet(installation: Installation) -> NodesFleet:
    """`web` and, by both IP families, `both` are exported by both clusters, others by one."""
    found = installation.fleet
    found.create_namespace(SPACE)
    for cluster in (HERE, THERE):
        found.apply(cluster, SPACE, workload("Deployment", cluster), service(), export())
        both = service("both", ipFamilyPolicy="RequireDualStack")
        both["spec"]["selector"] = {"app": "web"}
        found.apply(cluster, SPACE, both, export("both"))
    there = (workload("Deployment", THERE, "there", 2), service("there"), export("there"))
    headless = (workload("StatefulSet", THERE, "db", 2), service("db", clusterIP="None"))
    found.apply(THERE, SPACE, *there, *headless, export("db"))
    return found


def test_the_pods_run_by_their_own_accounts_and_not_as_root(fleet: NodesFleet) -> None:
    for cluster in (HERE, THERE):
        pods = fleet.get(cluster, "-n", SYSTEM, "pods")["items"]

        assert {one["spec"]["serviceAccountName"] for one in pods} == {"hanse-agent", "hanse-dns"}
        statuses = [status for one in pods for status in one["status"]["containerStatuses"]]
        assert {status["restartCount"] for status in statuses} == {0}
        assert {_user(status["containerID"].rpartition("/")[2]) for status in statuses} == {65532}


@pytest.mark.parametrize("target", ["http://{}", "tcp:{}:81", "udp:{}:82"])
@pytest.mark.parametrize("cluster", [HERE, THERE])
def test_a_clusterset_ip_reaches_the_pods_of_all_exporting_clusters(
    fleet: NodesFleet, cluster: str, target: str
) -> None:
    fleet.await_answers(cluster, SPACE, target.format(f"web.{ZONE}"), {HERE, THERE}, 24)


def test_a_service_of_both_families_is_answered_and_reached_by_both(fleet: NodesFleet) -> None:
    addresses = until(
        lambda: fleet.lookup(HERE, SPACE, f"both.{ZONE}"), lambda seen: len(seen) == 2
    )

    for address in sorted(map(ip_address, addresses), key=lambda one: one.version):
        host = f"[{address}]" if address.version == 6 else str(address)
        for target in (f"http://{host}", f"tcp:{host}:81", f"udp:{host}:82"):
            seen = fleet.await_answers(HERE, SPACE, target, {HERE, THERE}, 16)

            assert {ip_address(one.client).version for one in seen.answers} == {address.version}


def test_the_pods_of_a_headless_service_are_reached_by_their_own_names(fleet: NodesFleet) -> None:
    for pod in ("db-0", "db-1"):
        target = f"tcp:{pod}.{THERE}.db.{ZONE}:{TCP}"

        assert fleet.await_answers(HERE, SPACE, target, {THERE}, 2).pods == {pod}


def test_a_service_that_is_not_exported_has_no_name_elsewhere(fleet: NodesFleet) -> None:
    fleet.apply(THERE, SPACE, service("hidden"))

    assert fleet.lookup(HERE, SPACE, f"hidden.{ZONE}") == []
    assert fleet.lookup(HERE, SPACE, f"there.{SPACE}.svc.cluster.local") == []
    assert fleet.lookup(THERE, SPACE, f"there.{SPACE}.svc.cluster.local") != []


def test_no_connection_is_lost_while_an_upgrade_replaces_agents_and_name_servers(
    installation: Installation, fleet: NodesFleet
) -> None:
    """Names are resolved for each connection, ten times a second, all the time.

    A name is asked again after 5 s where a packet was dropped: two cores start all agents at once.
    """
    fleet.await_answers(HERE, SPACE, f"http://there.{ZONE}", {THERE}, 4)
    before = {cluster: _names(fleet, cluster) for cluster in (HERE, THERE)}
    times = ("-every", "100ms", "-timeout", "10s", "-n", "100000")
    options = (*times, f"http://there.{ZONE}")

    with fleet.running_netcheck(HERE, SPACE, "http", *options) as client:
        changed = ("federated.hostname={name}.example.org", "dns.localFirst=false")
        installation.run_helm_everywhere("upgrade", *changed)
        client.terminate()
        output = client.communicate()[0]

    outcomes = [line.split(" ", 2)[2] for line in output.splitlines()]
    assert len(outcomes) > 20
    assert [one for one in outcomes if not one.startswith(THERE)] == []
    for cluster in (HERE, THERE):
        pods = until(lambda c=cluster: _names(fleet, c), lambda names: len(names) == 2)  # type: ignore[misc]
        assert not before[cluster] & pods
        [environment] = _environments(fleet, cluster)
        assert environment["HANSE_FEDERATED_HOSTNAME"] == "{name}.example.org"


def test_a_new_agent_goes_on_where_the_old_one_ended(fleet: NodesFleet) -> None:
    fleet.must(THERE, "-n", SPACE, "scale", "deployment/web", "--replicas=0")
    fleet.await_answers(HERE, SPACE, f"http://web.{ZONE}", {HERE}, 16)
    fleet.must(THERE, "-n", SPACE, "scale", "deployment/web", "--replicas=1")

    fleet.await_answers(HERE, SPACE, f"http://web.{ZONE}", {HERE, THERE}, 24)


def test_replicas_of_a_set_over_clusters_dial_each_other_by_global_names(fleet: NodesFleet) -> None:
    for cluster in (HERE, THERE):
        accepting = namespace(SETS)
        accepting["metadata"]["labels"] = {ACCEPT: "true"}
        fleet.apply(cluster, SETS, accepting, _acceptance())
    fleet.apply(BROKER, SETS, namespace(SETS), *federated_set("peer", 2))
    for cluster in (HERE, THERE):
        fleet.await_replica(cluster, SETS, f"peer-{cluster}-0")

    for caller, called in ((HERE, THERE), (THERE, HERE)):
        target = f"peer-{called}-0.peer.{SETS}.{REPLICAS_ZONE}:{TCP}"
        answer = fleet.await_answer_to_pod(caller, SETS, f"peer-{caller}-0", target)

        assert answer.pod == f"peer-{called}-0"


def _acceptance() -> Wire:
    """What a member needs to run workloads of the broker in namespaces with the label."""
    spec = AcceptancePolicySpec(workloads=WorkloadAcceptance(origins=(BROKER_ORIGIN,)))
    return to_wire(AcceptancePolicy(metadata=Meta(name=DEFAULT_POLICY), spec=spec))


@pytest.fixture(scope="module")
def federated(fleet: NodesFleet) -> NodesFleet:
    federated_services.create_services(fleet)
    fleet.apply(THERE, federated_services.SPACE, *federated_services.joined("cluster-ip"))
    return fleet


class TestFederatedServices(federated_services.FederatedServices):
    """With agents of the chart, and members that are reached by their pods, too."""

    @pytest.mark.parametrize("cluster", [HERE, THERE])
    def test_pods_reach_the_pods_of_a_federated_service(
        self, federated: NodesFleet, cluster: str
    ) -> None:
        target = f"http://{federated_services.name_of('cluster-ip')}"

        federated.await_answers(cluster, federated_services.SPACE, target, {THERE}, 4)


@pytest.fixture(scope="module")
def travellers(installation: Installation, fleet: NodesFleet) -> NodesFleet:
    give_gslb_credentials(installation)
    fleet.create_namespace(global_hosts.SPACE)
    for cluster in (HERE, THERE):
        fleet.apply(
            cluster, global_hosts.SPACE, workload("Deployment", cluster), global_hosts.front()
        )
    fleet.apply(HERE, GSLB_NAMESPACE, *global_hosts.gslb_settings(HERE, THERE))
    return fleet


class TestGlobalHosts(global_hosts.GlobalHosts):
    """With agents and DNS of the chart."""

    shop = global_hosts.SPACE
    preferred = (HERE,)
    reserve = THERE


def test_a_cut_from_the_broker_takes_nothing_away(fleet: NodesFleet) -> None:
    """The pods' connections to the broker are cut, not only those of other programs."""
    fleet.await_answers(HERE, SPACE, f"http://web.{ZONE}", {HERE, THERE}, 24)
    fleet.running.run_hanse("local", "cut", HERE, BROKER)

    try:
        fleet.must(HERE, "-n", SYSTEM, "rollout", "restart", "deployment/hanse-agent")
        during = fleet.await_answers(HERE, SPACE, f"http://web.{ZONE}", {HERE, THERE}, 24)
    finally:
        healed = fleet.running.run_hanse("local", "heal", HERE, BROKER)

    assert healed.status == 0
    assert len(during.pods) == 2


def test_a_guard_runs_on_the_node_and_goes_without_a_trace(
    installation: Installation, fleet: NodesFleet
) -> None:
    folders = ("networks.cniConfig=/run/node/cni", "networks.cniPlugins=/run/node/plugins")
    switches = ("networks.guard=true", "networks.cni=true")
    upgraded = installation.run_helm("upgrade", HERE, *switches, *folders)

    assert upgraded.status == 0, upgraded.err
    fleet.await_rollout(HERE, SYSTEM, "daemonset/hanse-guard")
    assert _guarded_nodes(fleet) == 1
    until(lambda: _guard_leases(fleet), lambda boots: len(boots) == 1)
    (node,) = fleet.get(HERE, "nodes")["items"]
    assert _guard_leases(fleet) == {node["metadata"]["name"]: node["status"]["nodeInfo"]["bootID"]}
    fleet.must(HERE, "-n", SPACE, "rollout", "restart", "deployment/web")
    fleet.await_rollout(HERE, SPACE, "deployment/web")
    assert any("attached-" in name for name in _plugin_files(fleet))
    fleet.await_answers(HERE, SPACE, f"http://web.{ZONE}", {HERE, THERE}, 16)
    upgraded = installation.run_helm("upgrade", HERE)
    assert upgraded.status == 0, upgraded.err
    until(lambda: _guarded_nodes(fleet), lambda count: count == 0)
    until(lambda: _plugin_files(fleet), lambda names: not any("conflist" in name for name in names))
    fleet.must(HERE, "-n", SPACE, "rollout", "restart", "deployment/web")
    fleet.await_rollout(HERE, SPACE, "deployment/web")


def _guard_leases(fleet: NodesFleet) -> dict[str, str]:
    """By node, the boot that its guard says it guards."""
    leases = fleet.get(HERE, "-n", "hanse-guards", "leases")["items"]
    return {one["metadata"]["name"]: one["spec"]["holderIdentity"] for one in leases}


def _plugin_files(fleet: NodesFleet) -> list[str]:
    """The files of the guards' CNI plugin on all nodes: its configuration, and what it attached."""
    where = (f"{STATE_FOLDER[1:]}/attached-*", "run/node/cni/00-hanse.conflist")
    roots = [Path(f"/proc/{pid}/root") for pid in _nodes(fleet)]
    return [str(path) for root in roots for names in where for path in root.glob(names)]


def _nodes(fleet: NodesFleet) -> list[int]:
    """A process of each node."""
    processes = descendants(fleet.running.process.pid)
    return [process.pid for process in processes if process.name == "containerd"]


def _guarded_nodes(fleet: NodesFleet) -> int:
    """How many nodes have the rules of a guard."""
    commands = [
        ["nsenter", "--net", "--target", str(pid), "nft", "list", "tables"] for pid in _nodes(fleet)
    ]
    return sum(b"hanse-guard" in subprocess.check_output(command) for command in commands)


@pytest.fixture(scope="module")
def lighthouse(fleet: NodesFleet) -> NodesFleet:
    """The fleet changes its profile, so that these are the last tests of what is installed."""
    change = ("--type=merge", "-p", '{"spec": {"profile": "lighthouse"}}')
    fleet.must(BROKER, "patch", "clusterset", "default", *change)
    create_lighthouse_services(fleet)
    return fleet


class TestLighthouse(LighthouseServices):
    """With agents and DNS of the chart."""


def test_hanse_uninstall_removes_what_the_chart_installed(
    installation: Installation, fleet: NodesFleet
) -> None:
    """The last test of this file: HERE is without Hanse afterwards.

    Only pods reach the broker at the address that they have, so that it is left by its context.
    """
    member = ("--cluster-id", HERE, "--context", HERE)
    installation.hanse("leave", "--federation", FEDERATION, *member)
    installation.hanse("leave", "--broker", BROKER, *member)
    installation.hanse("uninstall", "--context", HERE, "--yes")

    kinds = "deployments,services,serviceaccounts,configmaps,secrets,pods"
    left = fleet.get(HERE, "-n", SYSTEM, kinds, "-l", "app.kubernetes.io/part-of=hanse")["items"]
    assert [one["metadata"]["name"] for one in left] == []
    cluster_wide = "clusterroles,clusterrolebindings,customresourcedefinitions"
    names = fleet.must(HERE, "get", cluster_wide, "-o", "name").split()
    assert [name for name in names if "hanse" in name or "multicluster" in name] == []
    fleet.await_answers(THERE, SPACE, f"http://there.{ZONE}", {THERE}, 4)


def _user(container: str) -> int:
    """The user of a container's first process."""
    return Path(f"/proc/{container_process(container)}").stat().st_uid


def _names(fleet: NodesFleet, cluster: str) -> set[str]:
    """The names of the pods of the agent and the name server that are not about to end."""
    found = [*_pods(fleet, cluster), *_pods(fleet, cluster, "hanse-dns")]
    return {pod["metadata"]["name"] for pod in found}


def _environments(fleet: NodesFleet, cluster: str) -> list[dict[str, str]]:
    """The environments of the agents' pods."""
    return [
        {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}
        for pod in _pods(fleet, cluster)
    ]


def _pods(fleet: NodesFleet, cluster: str, name: str = "hanse-agent") -> list[dict[str, Any]]:
    selector = f"app.kubernetes.io/name={name}"
    pods = fleet.get(cluster, "-n", SYSTEM, "pods", "-l", selector)["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
