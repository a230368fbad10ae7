"""Services of the kep-1645 profile carry connections where only pods are routed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hanse.local.up.control import Cut, HealAll, Kill, Start, StartAgent, StopAgent
from tests.nodes.fleet import NodesFleet, leases_of, until
from tests.nodes.manifests import TCP, draining, export, never_ready, service, workload
from tests.nodes.steady_client import SteadyClient, steady_client, waited_for_cpu

HERE, THERE = "lubeck", "hamburg"
SPACE = "kep"
ZONE = f"{SPACE}.svc.clusterset.local"
OTHER_PORT = 9090
AWAY_SECONDS = 3
LEASE_SECONDS = 6
NOTICED_SECONDS = 2
"""For the slices to be written and for kube-proxy, which waits a second between two syncs."""
DRAIN_SECONDS = 8
OFTEN = ("-every", "100ms", "-timeout", "10s", "-n", "100000")


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
        deployment = draining(workload("Deployment", cluster, "near"), DRAIN_SECONDS)
        flat.apply(cluster, SPACE, deployment, service("near"), export("near"))
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


def test_connections_by_name_arrive_while_api_servers_are_away_and_agents_restart(
    fleet: NodesFleet,
) -> None:
    target = f"http://there.{ZONE}"
    fleet.await_answers(HERE, SPACE, target, {THERE}, 1)

    with fleet.running_netcheck(HERE, SPACE, "http", *OFTEN, target) as client:
        for cluster in (HERE, THERE, "broker"):
            fleet.inject(Kill(cluster))
            time.sleep(AWAY_SECONDS)
            fleet.inject(Start(cluster))
        for cluster in (HERE, THERE):
            fleet.inject(StopAgent(cluster), StartAgent(cluster))
        client.terminate()
        output = client.communicate()[0]

    outcomes = [line.split(" ", 2)[2] for line in output.splitlines()]
    assert len(outcomes) > 10 * AWAY_SECONDS
    assert [one for one in outcomes if not one.startswith(THERE)] == [], fleet.running.output


def test_a_cluster_that_dies_costs_its_share_of_requests_until_its_lease_ends(
    fleet: NodesFleet,
) -> None:
    with leases_of(fleet, LEASE_SECONDS), _steady_client(fleet) as client:
        died, waited = time.time(), waited_for_cpu()
        fleet.inject(Cut(HERE, THERE), Cut(THERE, "broker"))
        until(lambda: time.time() - died, lambda seconds: seconds > LEASE_SECONDS)
        until(client.losses_of_late, lambda lost: bool(lost) and not any(lost))
        waited = waited_for_cpu() - waited
        fleet.inject(HealAll())

    requests = client.punctual_requests()
    lost = [request.began - died for request in requests if request.failed]
    during = [r for r in requests if died < r.began < died + LEASE_SECONDS]
    assert min(lost) > -1  # one that began before may have been under way
    assert max(lost) < LEASE_SECONDS + NOTICED_SECONDS + waited
    assert sum(r.failed for r in during) < 0.65 * len(during)


def test_a_cluster_that_is_drained_costs_no_request(fleet: NodesFleet) -> None:
    """First its export is deleted, then its pods, which go on answering for a time."""
    phases = {}
    with _steady_client(fleet) as client:
        phases["unexported"] = time.time()
        fleet.must(THERE, "-n", SPACE, "delete", "serviceexport", "near")
        _await_clusters(client, {HERE})
        phases["exported"] = time.time()
        fleet.apply(THERE, SPACE, export("near"))
        _await_clusters(client, {HERE, THERE})
        phases["scaled down"] = time.time()
        fleet.must(THERE, "-n", SPACE, "scale", "deployment/near", "--replicas=0")
        pods = ("pods", "-l", "app=near", "--timeout=60s")
        fleet.must(THERE, "-n", SPACE, "wait", "--for=delete", *pods)
        phases["gone"] = time.time()
        _await_clusters(client, {HERE})
    fleet.must(THERE, "-n", SPACE, "scale", "deployment/near", "--replicas=1")

    requests = client.punctual_requests()
    assert len(requests) > len(client.requests) / 2, "the client was starved"
    failed = [f"{r.began:.2f}" for r in requests if r.failed]
    assert failed == [], f"{phases}\n{client.history()}"


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


@contextmanager
def _steady_client(fleet: NodesFleet) -> Iterator[SteadyClient]:
    """A client of the Service that both clusters answer, until the block ends."""
    for cluster in fleet.clusters:
        fleet.await_rollout(cluster, SPACE, "deployment/near")
    fleet.await_answers(HERE, SPACE, f"http://near.{ZONE}", {HERE, THERE}, 24)
    [address] = fleet.lookup(HERE, SPACE, f"near.{ZONE}")
    with steady_client(fleet.client_pid(HERE, SPACE), address, 81) as client:
        _await_clusters(client, {HERE, THERE})
        yield client


def _await_clusters(client: SteadyClient, expected: set[str]) -> None:
    """Wait until connections of a second are answered by exactly these clusters."""
    began = time.time()
    until(
        lambda: client.clusters_since(max(began, time.time() - 1)),
        lambda seen: seen == expected and time.time() > began + 1,
    )
