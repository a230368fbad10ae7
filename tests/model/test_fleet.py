"""What agents together know of a cluster: whether it is lost, or only silent, or refuses one."""

from hanse.model.facts import (
    ClusterState,
    Fact,
    Facts,
    HolderState,
    LeaseLiveness,
    Phase,
    Role,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot
from tests.support.fleet_reads import NOW

SILENT = LeaseLiveness("broker", "hanse-broker", "bergen", "bergen", HolderState.SILENT, NOW)


def state(
    cluster: ClusterId, role: Role, phase: Phase = Phase.SYNCED, *, rejected: bool = False
) -> ClusterState:
    return ClusterState(cluster, frozenset({role}), phase, NOW, "why", rejected=rejected)


def fleet(**agents: tuple[Fact, ...]) -> MultiClusterSnapshot:
    """What agents have, each with the facts of its own."""
    snapshots = {}
    for name, facts in agents.items():
        own = Facts()
        for one in (state(name, Role.LOCAL), *facts):
            own.put(one)
        snapshots[name] = Snapshot({}, own, NOW, name)
    return MultiClusterSnapshot(snapshots)


def test_a_cluster_that_is_silent_on_the_broker_and_reached_by_another_is_not_lost() -> None:
    broker = state("broker", Role.BROKER)
    reached = fleet(lubeck=(broker, SILENT, state("bergen", Role.MEMBER)), bergen=())
    away = state("bergen", Role.MEMBER, Phase.UNREACHABLE)
    cut_off = fleet(lubeck=(broker, SILENT, away), bergen=())
    by_nobody = fleet(lubeck=(broker, SILENT), bergen=())

    for one in (reached, cut_off, by_nobody):
        fault = one.fault_of("bergen")
        assert fault is not None
        assert fault.code == "ClusterSilent"
    assert not reached.is_lost("bergen")
    assert cut_off.is_lost("bergen")
    assert by_nobody.is_lost("bergen")


def test_a_broker_that_rejects_an_agent_answers_it_and_is_not_unreachable() -> None:
    rejects = state("broker", Role.BROKER, Phase.UNREACHABLE, rejected=True)
    away = state("broker", Role.BROKER, Phase.UNREACHABLE)

    assert fleet(bergen=(rejects,)).fault_of("broker") is None
    lost = fleet(bergen=(away,)).fault_of("broker")
    assert lost is not None
    assert lost.code == "ClusterUnreachable"
