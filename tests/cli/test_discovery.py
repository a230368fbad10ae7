"""Who finds what across a federation, row by row, asked for by real packets in the sample."""

import json
import time
from collections.abc import Callable

import pytest

from tests.cli.programs import COMMAND_TIMEOUT, RunningFederation
from tests.cli.test_up_dns import addresses, views

SYSTEM = "antrea-plus-system"
CLUSTER = "cluster.federated.antreaplus.vmware-tanzu.com"
HOME_OF = {"web": "bergen", "db": "bergen", "queue": "hamburg"}
"""Where there is one of each: a Service of pods, of a machine, and a native service."""


def behind(
    fleet: RunningFederation, cluster: str, name: str, space: str = SYSTEM
) -> dict[str, set[str]]:
    """The endpoints of a Service as a cluster has them, by where they come from."""
    result = fleet.kubectl(
        *("--context", cluster, "-n", space, "get", "endpointslices", "-o", "json"),
        *("-l", f"kubernetes.io/service-name={name}"),
    )
    found: dict[str, set[str]] = {}
    for piece in json.loads(result.out)["items"]:
        source = piece["metadata"].get("annotations", {}).get(CLUSTER, cluster)
        addresses = {a for e in piece["endpoints"] or () for a in e["addresses"]}
        found.setdefault(source, set()).update(addresses)
    return found


def address_of(fleet: RunningFederation, cluster: str, name: str, space: str = SYSTEM) -> str:
    result = fleet.kubectl(
        *("--context", cluster, "-n", space, "get", "service", name),
        *("-o", "jsonpath={.spec.clusterIP}"),
    )
    return result.out


def eventually(check: Callable[[], None]) -> None:
    """Names follow what clusters hold; others may have cut some off just now."""
    until = time.monotonic() + COMMAND_TIMEOUT
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > until:
                raise
        time.sleep(0.5)


@pytest.mark.parametrize("asker", ["lubeck", "bergen"])
@pytest.mark.parametrize("thing", ["web", "db", "queue"])
def test_a_pod_finds_pods_machines_and_native_services_of_any_cluster(
    fleet: RunningFederation, asker: str, thing: str
) -> None:
    home = HOME_OF[thing]

    def found() -> None:
        code, answered = addresses(views(fleet)[asker], f"{thing}.{SYSTEM}.svc.cluster.local")
        assert code == "NOERROR"
        assert answered == [address_of(fleet, asker, thing)]
        theirs = behind(fleet, home, thing).get(home)
        assert theirs, f"{thing} is served in {home}"
        assert behind(fleet, asker, thing).get(home) == theirs

    eventually(found)


@pytest.mark.parametrize("thing", ["web", "db", "queue"])
def test_a_machine_finds_them_by_the_name_for_the_world(
    fleet: RunningFederation, thing: str
) -> None:
    home = HOME_OF[thing]
    server = json.loads(fleet.run_hanse("status", "--json").out)["dns"]

    def found() -> None:
        code, answered = addresses(server, f"{thing}.{SYSTEM}.hanse.example")
        assert code == "NOERROR"
        everywhere = behind(fleet, "lubeck", thing)
        assert set(answered) == {a for several in everywhere.values() for a in several}
        assert everywhere.get(home, set()) <= set(answered)
        assert home in everywhere

    eventually(found)


def test_in_its_own_cluster_a_machine_is_found_by_the_name_of_its_service(
    fleet: RunningFederation,
) -> None:
    def found() -> None:
        code, answered = addresses(views(fleet)["bergen"], "db.shop.svc.cluster.local")
        assert code == "NOERROR"
        assert answered == [address_of(fleet, "bergen", "db", "shop")]

    eventually(found)
    assert addresses(views(fleet)["lubeck"], "db.shop.svc.cluster.local") == ("NXDOMAIN", [])
