"""`hanse verify` on real nodes: it finds what a fabric carries, and leaves nothing behind."""

import json
import signal
import subprocess
from typing import Any

from hanse.local.real.nodes.image import NETCHECK_IMAGE
from tests.cli.programs import HANSE, environment
from tests.nodes.fleet import NodesFleet, until

IMAGE = ("--image", NETCHECK_IMAGE)
HERE, THERE = "lubeck", "hamburg"


def results(fleet: NodesFleet, *arguments: str, status: int) -> list[dict[str, Any]]:
    """The results of a run that ends with this status, and leaves nothing behind."""
    ended = fleet.running.run_hanse("verify", *IMAGE, *arguments, "--json")
    assert ended.status == status, ended.out + ended.err
    assert leftovers(fleet) == []
    found: list[dict[str, Any]] = json.loads(ended.out)["results"]
    return found


def leftovers(fleet: NodesFleet) -> list[str]:
    """The namespaces of runs that still exist."""
    label = "app.kubernetes.io/managed-by=hanse-verify"
    listed = [fleet.get(cluster, "namespaces", "-l", label) for cluster in fleet.clusters]
    return [one["metadata"]["name"] for several in listed for one in several["items"]]


def test_all_arrives_where_pods_and_services_are_routed(routed: NodesFleet) -> None:
    found = results(routed, status=0)

    assert {r["status"] for r in found if r["topic"] != "policies"} == {"ok"}
    assert {(r["source"], r["topic"]) for r in found} >= {
        (cluster, topic) for cluster in (HERE, THERE) for topic in ("routes", "names", "services")
    }


def test_clusterset_ips_need_no_routed_service_ranges(flat: NodesFleet) -> None:
    found = results(flat, "--only", "routes,services", "--timeout", "10", status=0)

    assert {r["status"] for r in found if r["subject"] == "clusterset IP"} == {"ok"}
    assert {
        (r["source"], r["target"], r["status"]) for r in found if r["subject"] == "Service address"
    } == {(a, b, "ok" if a == b else "warning") for a in (HERE, THERE) for b in (HERE, THERE)}


def test_missing_routes_are_told_as_the_cause(isolated: NodesFleet) -> None:
    found = results(isolated, "--only", "routes,services", "--timeout", "10", status=1)

    causes = {(r["source"], r["message"]) for r in found if r["status"] == "failed"}
    assert (HERE, f"no route from {HERE} to the pod range of {THERE}") in causes
    assert all(r["remedy"] for r in found if r["status"] == "failed")


def test_an_image_that_cannot_be_pulled_ends_it_at_once(routed: NodesFleet) -> None:
    ended = routed.running.run_hanse("verify", "--image", "nowhere.invalid/none:1")

    assert ended.status == 1
    assert "image nowhere.invalid/none:1 cannot be pulled" in ended.err
    assert leftovers(routed) == []


def test_a_run_that_is_ended_removes_what_it_created(routed: NodesFleet) -> None:
    folder = routed.running.folder.parent
    for by in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(
            # In the background of a script, SIGINT would be ignored.
            ["env", "--default-signal=INT", *HANSE, "verify", *IMAGE],
            cwd=folder,
            env=environment(folder, None),
        )
        until(lambda: leftovers(routed), lambda names: len(names) == 2)

        process.send_signal(by)

        assert process.wait(60) != 0
        assert leftovers(routed) == []
