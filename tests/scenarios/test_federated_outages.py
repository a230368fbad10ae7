"""Federated Services while clusters, leaders and links between them fail."""

import socket
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Self

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.health import SILENT_AFTER
from hanse.features.federated.names import DOMAIN, EXTERNAL_DNS, SHARES
from hanse.features.federated.settings import AFFINITY, HEALTH, PUBLISH_FROM
from hanse.features.federated.status import REACHABLE_CONDITION
from hanse.features.federation.feature import Membership
from hanse.features.machines.feature import Machines
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import SYSTEM
from hanse.model.probes import ProbeTarget
from hanse.providers.probe_sockets import SocketProbe
from tests.scenarios.federated import FederatedScenario, address, two_exporters
from tests.support.scenario import Check, Features, Scenario, all_of

A_WHILE = timedelta(seconds=10)
LONG = SILENT_AFTER + timedelta(seconds=40)
L1, L2 = address("lubeck", 1), address("lubeck", 2)
H1 = address("hamburg", 1)
B1, B2 = address("bergen", 1), address("bergen", 2)


@pytest.fixture
def features() -> Features:
    return lambda: (Membership(), FederatedServices(), Machines())


@pytest.fixture
async def federated(scenario: Scenario) -> AsyncIterator[FederatedScenario]:
    """A federated Service with a member in each of two clusters."""
    async with two_exporters(scenario) as federated:
        yield federated


async def test_another_supervisor_takes_over_from_a_dead_leader(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    leader = await federated.membership.is_led("bergen")()
    [other] = [s for s in federated.membership.supervisors if s != leader]

    await scenario.kill_agent(leader)
    await federated.pods("bergen", 1, 2)

    await scenario.eventually(federated.membership.is_led("bergen", other))
    await scenario.eventually(federated.everywhere(lubeck=[L1], bergen=[B1, B2]))


async def test_an_unreachable_member_keeps_its_endpoints_and_catches_up(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    for supervisor in federated.membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await federated.pods("lubeck", 1, 2)
    for cluster in ("lubeck", "hamburg"):
        await scenario.eventually(federated.has(cluster, lubeck=[L1, L2], bergen=[B1]))
    await scenario.always(federated.has("bergen", lubeck=[L1], bergen=[B1]), A_WHILE)
    await federated.pods("bergen", 1, 2)

    scenario.network.heal_all()

    await scenario.eventually(federated.everywhere(lubeck=[L1, L2], bergen=[B1, B2]))


async def test_a_member_that_answers_nothing_is_drained_until_it_is_back(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    for supervisor in federated.membership.supervisors:
        scenario.network.cut(supervisor, "bergen")

    for cluster in ("lubeck", "hamburg"):
        await scenario.eventually(federated.has_ready(cluster, L1), LONG)
        await federated.has(cluster, lubeck=[L1], bergen=[B1])()
    [leader] = {await federated.membership.is_led("hamburg")()}
    await scenario.kill_agent(leader)
    await scenario.always(federated.has_ready("hamburg", L1), LONG)
    await scenario.start_agent(leader)
    scenario.network.heal_all()

    for cluster in ("lubeck", "hamburg", "bergen"):
        await scenario.eventually(federated.has_ready(cluster, L1, B1), LONG)


async def test_members_get_traffic_by_priority_and_external_names_by_weight(
    federated: FederatedScenario,
) -> None:
    """Endpoints of a lower priority wait; of equal ones all are used, and the weights are told."""
    scenario = federated.scenario
    hostname = f"{EXTERNAL_DNS[1]}/hostname"

    async def annotate(cluster: str, **marks: str | None) -> None:
        own = {f"{DOMAIN}/{name}": value for name, value in marks.items()}
        annotations = {"metadata": {"annotations": {hostname: "web.example.org", **own}}}
        await federated.edit(cluster, Service, "web", annotations)

    def publishes(*shares: list[object]) -> Check[None]:
        async def check() -> None:
            made = await federated.admin("hamburg").read(Service, federated.web, SYSTEM)
            found = msgspec.json.decode(made.metadata.annotations.get(SHARES, "[]"))
            assert sorted(found) == sorted(shares), found

        return check

    await annotate("bergen", priority="20")
    for cluster in ("lubeck", "hamburg", "bergen"):
        await scenario.eventually(federated.has_ready(cluster, B1))
    await federated.pods("bergen")
    await scenario.eventually(federated.has_ready("hamburg", L1))
    await federated.pods("bergen", 1)
    await annotate("bergen", priority=None, weight="3")

    await scenario.eventually(federated.has_ready("hamburg", L1, B1))
    await scenario.eventually(publishes(["bergen", 3, [B1]], ["lubeck", 1, [L1]]))
    await annotate("bergen", weight="0")
    await scenario.eventually(all_of(publishes(), federated.has_ready("hamburg", L1)))


async def test_the_next_chosen_cluster_publishes_when_the_first_answers_nothing(
    federated: FederatedScenario,
) -> None:
    """One at a time, but for the moment of a hand-over, in which the name never vanishes."""
    scenario = federated.scenario
    hostname = f"{EXTERNAL_DNS[1]}/hostname"
    marks = {hostname: "web.example.org", PUBLISH_FROM.annotation: "bergen,hamburg"}

    async def publishers() -> set[str]:
        found = set()
        for cluster in ("lubeck", "hamburg", "bergen"):
            made = await federated.admin(cluster).read(Service, federated.web, SYSTEM)
            named = [made.metadata.annotations.get(f"{p}/hostname") for p in EXTERNAL_DNS]
            assert len(set(named)) == 1, "ExternalDNS of any version reads the same"
            found |= {cluster} if named[0] == "web.example.org" else set()
        return found

    def publish(*clusters: str) -> Check[None]:
        async def check() -> None:
            assert await publishers() == {*clusters}

        return check

    await federated.edit("lubeck", Service, "web", {"metadata": {"annotations": marks}})
    await scenario.eventually(publish("bergen"))
    for supervisor in federated.membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
    await scenario.eventually(publish("bergen", "hamburg"), LONG)
    scenario.network.heal_all()

    await scenario.eventually(publish("bergen"), LONG)


async def test_each_cluster_uses_its_own_endpoints_while_it_has_some(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    local = {"metadata": {"annotations": {AFFINITY.annotation: "local"}}}
    await federated.edit("lubeck", Service, "web", local)

    for cluster, ready in (("lubeck", [L1]), ("bergen", [B1]), ("hamburg", [L1, B1])):
        await scenario.eventually(federated.has_ready(cluster, *ready))
    await federated.pods("lubeck")

    for cluster in ("lubeck", "bergen", "hamburg"):
        await scenario.eventually(federated.has_ready(cluster, B1))


async def test_zones_of_endpoints_are_hints_where_a_member_prefers_what_is_close(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    await federated.pods("lubeck", 1, 2)
    zoned = [{"addresses": [L1], "zone": "west"}, {"addresses": [L2]}]
    await federated.edit("lubeck", EndpointSlice, "web-pods", {"endpoints": zoned})

    def hints(distribution: str, expected: dict[str, list[str]]) -> Check[None]:
        async def check() -> None:
            for cluster in federated.membership.members:
                await federated.has(cluster, lubeck=[L1, L2], bergen=[B1])()
                made = await federated.admin(cluster).read(Service, federated.web, SYSTEM)
                assert made.spec.traffic_distribution == distribution, cluster
                endpoints = [e for s in await federated.slices(cluster) for e in s.endpoints or ()]
                hinted = {e.addresses[0]: e.hints.for_zones for e in endpoints if e.hints}
                found = {address: [z.name for z in zones] for address, zones in hinted.items()}
                assert found == expected, f"{cluster} has {found}"

        return check

    await scenario.eventually(hints("", {}))
    for distribution, expected in (("PreferClose", {L1: ["west"]}), (None, {})):
        change = {"spec": {"trafficDistribution": distribution}}
        await federated.edit("lubeck", Service, "web", change)
        await scenario.eventually(hints(distribution or "", expected))


async def test_an_address_that_fails_probes_is_drained_until_it_answers_again(
    federated: FederatedScenario,
) -> None:
    """Probes are real connections; each address leads to a listener of this process."""
    scenario = federated.scenario
    asking = {"metadata": {"annotations": {HEALTH.annotation: "probe"}}}
    told = ("lubeck", Service, federated.web, REACHABLE_CONDITION)
    with _Listener() as lubeck, _Listener() as bergen:
        sockets, listeners = SocketProbe(), {L1: lubeck, B1: bergen}

        def probe(target: ProbeTarget, timeout: float, done: Callable[[str], None]) -> None:
            port = listeners[target.address].port
            sockets(replace(target, address="127.0.0.1", port=port), timeout, done)

        for supervisor in federated.membership.supervisors:
            await scenario.kill_agent(supervisor)
        scenario.attempt = probe
        await scenario.start_agents()
        await federated.edit("lubeck", Service, "web", asking)

        bergen.stop()
        await scenario.eventually(federated.has_ready("lubeck", L1))
        await scenario.eventually(federated.has_conditions(*told, "ProbeFailed", SYSTEM))
        await scenario.eventually(federated.has_ready("bergen", L1, B1))

        bergen.start()
        await scenario.eventually(federated.has_ready("lubeck", L1, B1))
        await scenario.eventually(federated.has_conditions(*told, "Reachable", SYSTEM))


class _Listener:
    """A port of loopback that accepts connections, except while it is stopped."""

    def __init__(self) -> None:
        self.port = 0

    def __enter__(self) -> Self:
        self._bind()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def start(self) -> None:
        """Accept connections."""
        self._socket.listen(1000)

    def stop(self) -> None:
        """Refuse connections; the port stays ours."""
        self._socket.close()
        self._bind()

    def _bind(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", self.port))
        self.port = self._socket.getsockname()[1]


async def test_leaders_that_restart_while_a_member_is_out_of_reach_keep_what_came_from_it(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    for supervisor in federated.membership.supervisors:
        scenario.network.cut(supervisor, "bergen")
        await scenario.kill_agent(supervisor)
    for supervisor in federated.membership.supervisors:
        await scenario.start_agent(supervisor)

    for cluster in ("lubeck", "hamburg"):
        await scenario.eventually(federated.membership.is_led(cluster))
    unchanged = [
        federated.has(cluster, lubeck=[L1], bergen=[B1]) for cluster in ("lubeck", "hamburg")
    ]
    await scenario.always(all_of(*unchanged), A_WHILE)
    await federated.join("hamburg", 1)
    for cluster in ("lubeck", "hamburg"):
        await scenario.eventually(federated.has(cluster, lubeck=[L1], bergen=[B1], hamburg=[H1]))


async def test_both_sides_of_a_partition_work_on_and_agree_when_it_heals(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    sides = {"lubeck": "hamburg", "hamburg": "lubeck"}
    for one, other in sides.items():
        scenario.network.cut(one, other)
    scenario.network.cut("lubeck", "bergen")
    await federated.join("hamburg", 1)
    await federated.pods("bergen", 1, 2)
    for cluster in ("hamburg", "bergen"):
        await scenario.eventually(
            federated.has(cluster, lubeck=[L1], bergen=[B1, B2], hamburg=[H1])
        )
    await federated.pods("lubeck", 1, 2)
    await scenario.eventually(federated.has("lubeck", lubeck=[L1, L2], bergen=[B1]))

    scenario.network.heal_all()

    await scenario.eventually(federated.everywhere(lubeck=[L1, L2], bergen=[B1, B2], hamburg=[H1]))


async def test_a_member_that_leaves_takes_its_endpoints_along_and_is_left_clean(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    for supervisor in federated.membership.supervisors:
        await federated.membership.name_members(supervisor, "lubeck", "hamburg")

    for cluster in ("lubeck", "hamburg"):
        await scenario.eventually(federated.has(cluster, lubeck=[L1]))
    await scenario.eventually(federated.has("bergen"))
    assert await federated.find("bergen", Service, "web", federated.namespace) is not None


async def test_what_somebody_deletes_or_edits_is_put_back(federated: FederatedScenario) -> None:
    scenario = federated.scenario
    await federated.admin("bergen").delete(Service, federated.web, "antrea-plus-system")
    await scenario.eventually(federated.has("bergen", lubeck=[L1], bergen=[B1]))

    change = {"spec": {"sessionAffinity": "ClientIP"}}
    await federated.edit("hamburg", Service, federated.web, change, space="antrea-plus-system")

    async def put_back() -> None:
        found = await federated.find("hamburg", Service, federated.web)
        assert found is not None
        assert found.spec.session_affinity == "None"

    await scenario.eventually(put_back)


async def test_a_member_restored_from_a_backup_keeps_its_endpoints(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    backup = await scenario.testbed.back_up("bergen")
    await federated.pods("bergen", 1, 2)
    await scenario.eventually(federated.everywhere(lubeck=[L1], bergen=[B1, B2]))

    await scenario.testbed.restore("bergen", backup)

    await scenario.eventually(federated.everywhere(lubeck=[L1], bergen=[B1]))
