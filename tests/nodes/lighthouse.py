"""Packet tests of services of the lighthouse profile, for agents of any kind of installation."""

import pytest

from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import TCP, export, service, workload

HERE, THERE = "lubeck", "hamburg"
SPACE = "lighthouse"
ZONE = f"{SPACE}.svc.clusterset.local"


def create_services(fleet: NodesFleet) -> None:
    """`web` is exported by both clusters; `there`, `sticky` and headless `db` by one of them."""
    fleet.create_namespace(SPACE)
    for cluster in fleet.clusters:
        fleet.apply(cluster, SPACE, workload("Deployment", cluster), service(), export())
    for name, replicas, more in (
        ("there", 2, {}),
        ("sticky", 3, {"sessionAffinity": "ClientIP"}),
    ):
        deployment = workload("Deployment", THERE, name, replicas)
        fleet.apply(THERE, SPACE, deployment, service(name, **more), export(name))
    headless = (workload("StatefulSet", THERE, "db", 2), service("db", clusterIP="None"))
    fleet.apply(THERE, SPACE, *headless, export("db"))


class LighthouseServices:
    """Tests of a fixture `lighthouse`: a fleet that routes Services and has those made above."""

    @pytest.mark.parametrize("target", ["http://{}", "tcp:{}:81", "udp:{}:82"])
    def test_a_pod_reaches_a_service_of_the_other_cluster_by_its_name(
        self, lighthouse: NodesFleet, target: str
    ) -> None:
        seen = lighthouse.await_answers(HERE, SPACE, target.format(f"there.{ZONE}"), {THERE})

        assert all(answer.pod.startswith("there-") for answer in seen.answers)

    def test_both_replicas_of_the_other_cluster_answer(self, lighthouse: NodesFleet) -> None:
        until(
            lambda: lighthouse.dial(HERE, SPACE, f"http://there.{ZONE}", 16),
            lambda seen: len(seen.pods) == 2,
        )

    @pytest.mark.parametrize("cluster", [HERE, THERE])
    def test_the_name_of_a_cluster_selects_its_endpoints(
        self, lighthouse: NodesFleet, cluster: str
    ) -> None:
        lighthouse.await_answers(HERE, SPACE, f"http://{cluster}.web.{ZONE}", {cluster})

    def test_the_pods_of_a_headless_service_are_reached_by_their_own_names(
        self, lighthouse: NodesFleet
    ) -> None:
        for pod in ("db-0", "db-1"):
            target = f"tcp:{pod}.{THERE}.db.{ZONE}:{TCP}"
            seen = lighthouse.await_answers(HERE, SPACE, target, {THERE}, 2)

            assert seen.pods == {pod}

    def test_the_name_of_a_headless_service_has_the_addresses_of_its_pods(
        self, lighthouse: NodesFleet
    ) -> None:
        lighthouse.await_rollout(THERE, SPACE, "statefulset/db")
        pods = lighthouse.get(THERE, "-n", SPACE, "pods", "-l", "app=db")["items"]

        addresses = until(
            lambda: lighthouse.lookup(HERE, SPACE, f"db.{ZONE}"), lambda seen: len(seen) == 2
        )

        assert addresses == sorted(pod["status"]["podIP"] for pod in pods)

    def test_the_ports_of_a_service_are_found_by_their_names(self, lighthouse: NodesFleet) -> None:
        name = f"_tcp._tcp.there.{ZONE}"

        found = until(lambda: lighthouse.netcheck(HERE, SPACE, "srv", name).out, bool)

        assert found.split() == ["81", f"there.{ZONE}."]

    def test_session_affinity_holds_over_clusters(self, lighthouse: NodesFleet) -> None:
        lighthouse.await_rollout(THERE, SPACE, "deployment/sticky")

        seen = lighthouse.await_answers(HERE, SPACE, f"http://sticky.{ZONE}", {THERE}, 12)

        assert len(seen.pods) == 1

    def test_the_other_cluster_answers_while_the_own_one_cannot(
        self, lighthouse: NodesFleet
    ) -> None:
        lighthouse.await_answers(HERE, SPACE, f"http://web.{ZONE}", {HERE})

        lighthouse.must(HERE, "-n", SPACE, "scale", "deployment/web", "--replicas=0")
        lighthouse.await_answers(HERE, SPACE, f"http://web.{ZONE}", {THERE})
        lighthouse.must(HERE, "-n", SPACE, "scale", "deployment/web", "--replicas=1")

        lighthouse.await_answers(HERE, SPACE, f"http://web.{ZONE}", {HERE})
