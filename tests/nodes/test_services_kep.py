"""Services of the kep-1645 profile carry connections where only pods are routed."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import TCP, export, never_ready, service, workload

HERE, THERE = "lubeck", "hamburg"
SPACE = "kep"
ZONE = f"{SPACE}.svc.clusterset.local"
OTHER_PORT = 9090


@pytest.fixture(scope="module")
def fleet(flat: NodesFleet) -> Iterator[NodesFleet]:
    """`web` is exported by both clusters, with its own target port in each; others by one."""
    flat.create_namespace(SPACE)
    flat.apply(HERE, SPACE, workload("Deployment", HERE), service(), export())
    there = workload("Deployment", THERE, http=OTHER_PORT), service(http=OTHER_PORT), export()
    flat.apply(THERE, SPACE, *there)
    for name, replicas, more in (
        ("there", 2, {}),
        ("sticky", 3, {"sessionAffinity": "ClientIP"}),
        ("local", 1, {"internalTrafficPolicy": "Local"}),
    ):
        deployment = workload("Deployment", THERE, name, replicas)
        flat.apply(THERE, SPACE, deployment, service(name, **more), export(name))
    for cluster in flat.clusters:
        near = workload("Deployment", cluster, "near"), service("near"), export("near")
        flat.apply(cluster, SPACE, *near)
    headless = (workload("StatefulSet", THERE, "db", 2), service("db", clusterIP="None"))
    flat.apply(THERE, SPACE, *headless, export("db"))
    yield flat
    flat.delete_namespace(SPACE)


@pytest.mark.parametrize("target", ["http://{}", "tcp:{}:81", "udp:{}:82"])
@pytest.mark.parametrize("cluster", [HERE, THERE])
def test_a_clusterset_ip_reaches_the_pods_of_all_exporting_clusters(
    fleet: NodesFleet, cluster: str, target: str
) -> None:
    fleet.await_answers(cluster, SPACE, target.format(f"web.{ZONE}"), {HERE, THERE}, 24)


def test_one_clusterset_ip_stands_for_all_pods(fleet: NodesFleet) -> None:
    [address] = until(
        lambda: fleet.lookup(HERE, SPACE, f"there.{ZONE}"), lambda seen: len(seen) == 1
    )

    seen = fleet.await_answers(HERE, SPACE, f"http://{address}", {THERE}, 24)

    assert len(seen.pods) == 2


def test_pods_see_the_address_of_the_client(fleet: NodesFleet) -> None:
    own = fleet.get(HERE, "-n", SPACE, "pod", "client")["status"]["podIP"]

    seen = fleet.await_answers(HERE, SPACE, f"http://there.{ZONE}", {THERE}, 4)

    assert {answer.client for answer in seen.answers} == {own}


def test_the_pods_of_a_headless_service_are_reached_by_their_own_names(fleet: NodesFleet) -> None:
    for pod in ("db-0", "db-1"):
        target = f"tcp:{pod}.{THERE}.db.{ZONE}:{TCP}"
        seen = fleet.await_answers(HERE, SPACE, target, {THERE}, 2)

        assert seen.pods == {pod}


def test_session_affinity_holds_over_clusters(fleet: NodesFleet) -> None:
    fleet.await_rollout(THERE, SPACE, "deployment/sticky")

    seen = fleet.await_answers(HERE, SPACE, f"http://sticky.{ZONE}", {THERE}, 12)

    assert len(seen.pods) == 1


def test_a_local_service_is_reached_on_its_own_node_only(fleet: NodesFleet) -> None:
    """The nodes of both clusters have the same name: that must not count as the same node."""
    fleet.await_answers(THERE, SPACE, f"http://local.{ZONE}", {THERE})
    [address] = until(
        lambda: fleet.lookup(HERE, SPACE, f"local.{ZONE}"), lambda seen: len(seen) == 1
    )

    seen = fleet.dial(HERE, SPACE, f"http://{address}", 2)

    assert seen.error
    assert not seen.answers


def test_the_other_cluster_answers_while_the_own_one_cannot(fleet: NodesFleet) -> None:
    fleet.must(HERE, "-n", SPACE, "scale", "deployment/web", "--replicas=0")
    fleet.await_answers(HERE, SPACE, f"http://web.{ZONE}", {THERE}, 16)
    fleet.must(HERE, "-n", SPACE, "scale", "deployment/web", "--replicas=1")

    fleet.await_answers(HERE, SPACE, f"http://web.{ZONE}", {HERE, THERE}, 24)


def test_the_own_cluster_answers_alone_while_enough_of_its_pods_are_ready(
    fleet: NodesFleet,
) -> None:
    for cluster in fleet.clusters:
        setting = ("serviceexport/near", "services.hanse.dev/affinity=local:50")
        fleet.must(cluster, "-n", SPACE, "annotate", "--overwrite", *setting)
    target = f"http://near.{ZONE}"
    for cluster in fleet.clusters:
        fleet.await_answers(cluster, SPACE, target, {cluster}, 24)

    fleet.apply(HERE, SPACE, never_ready(HERE, "near", 2))  # one of three is ready
    fleet.await_answers(HERE, SPACE, target, {HERE, THERE}, 24)
    fleet.must(HERE, "-n", SPACE, "scale", "deployment/near-never-ready", "--replicas=1")

    fleet.await_answers(HERE, SPACE, target, {HERE}, 24)


@pytest.mark.parametrize("dead", [HERE, THERE, "broker"])
def test_connections_arrive_while_an_api_server_is_away(fleet: NodesFleet, dead: str) -> None:
    with _dialling(fleet, 50):
        killed = fleet.running.run_hanse("local", "kill", dead)
    started = fleet.running.run_hanse("local", "start", dead)

    assert (killed.status, started.status) == (0, 0)


def test_connections_by_name_arrive_while_agents_restart(fleet: NodesFleet) -> None:
    with _dialling(fleet, 100):
        for cluster in (HERE, THERE):
            for command in ("stop", "start"):
                result = fleet.running.run_hanse("local", command, "agent", cluster)
                assert result.status == 0, result.err + fleet.running.output


@contextmanager
def _dialling(fleet: NodesFleet, count: int) -> Iterator[None]:
    """Dial by name ten times a second, also during the block; every connection has to arrive."""
    fleet.await_answers(HERE, SPACE, f"http://there.{ZONE}", {THERE}, 1)
    inside = ("-every", "100ms", "-n", str(count), f"http://there.{ZONE}")
    with fleet.running_netcheck(HERE, SPACE, "http", *inside) as client:
        yield
        output = client.communicate()[0]

    outcomes = [line.split(" ", 2)[2] for line in output.splitlines()]
    assert len(outcomes) == count
    failed = {n: one for n, one in enumerate(outcomes) if not one.startswith(THERE)}
    assert not failed, fleet.running.output
