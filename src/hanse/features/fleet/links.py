"""What is wrong with the connections of agents to other clusters."""

from collections.abc import Iterator

from msgspec.structs import replace

from hanse.model.agent_report import refused_resources
from hanse.model.facts import ClusterState, HeartbeatState, Phase, Role
from hanse.model.findings import Finding, Remedy, Severity, cluster_ref, link_ref, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.federation import Federation
from hanse.model.objects import ClusterId
from hanse.model.refused_writes import lease_refusers
from hanse.model.remedies import join_broker_command, join_federation_command
from hanse.model.snapshot import Snapshot
from hanse.model.summaries import first_of


def link_findings(target: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """LinkCut for each other agent that does not reach a cluster, TokenRevoked if that refuses it.

    An agent that may not renew its Lease there is refused, too; an untrusted certificate is a
    LinkCut. Nothing if the cluster as a whole is ClusterUnreachable.
    """
    fault = snapshot.fault_of(target)
    if fault is not None and fault.code == "ClusterUnreachable":
        return
    for source, agent in snapshot.by_agent.items():
        state = link_state(agent, target)
        if source == target or state is None or state.phase is not Phase.UNREACHABLE:
            continue
        refused = state.rejected or bool(state.forbidden)
        yield Finding(
            code="TokenRevoked" if refused else "LinkCut",
            severity=Severity.DEGRADED,
            subject=link_ref(source, target),
            summary=refusal(f"the agent of {source}", target, state)
            if refused
            else f"the agent of {source} does not reach {target}: {state.reason}",
            remedy=link_remedy(source, target, state, snapshot),
            since=state.since,
            caused_by=(
                *lease_refusers(target.rpartition("/")[2], snapshot),
                cluster_ref(target.rpartition("/")[2]),
                cluster_ref(source),
            ),
        )


def link_state(agent: Snapshot, target: ClusterId) -> ClusterState | None:
    """How an agent sees a cluster: unreachable also while it may not renew its Lease there.

    None if the agent does not know it.
    """
    state, renewal = agent.fact(ClusterState, target), agent.fact(HeartbeatState, target)
    denied = refused_resources(state, renewal)
    if state is None or renewal is None or state.phase is Phase.UNREACHABLE or not denied:
        return state
    return replace(state, phase=Phase.UNREACHABLE, since=renewal.since, forbidden=denied)


def refusal(agent: str, target: ClusterId, state: ClusterState) -> str:
    """The message for an agent that a cluster rejects, by its credentials or for missing rights.

    Also for a cluster whose certificate the agent does not trust.
    """
    if state.untrusted:
        return f"{agent} does not trust {target}: {state.reason}"
    if state.rejected:
        return f"{target} refuses the credentials of {agent}"
    return f"{target} refuses {agent}: its account may not use {first_of(state.forbidden)}"


def needs_join(state: ClusterState) -> bool:
    """Whether an agent needs other credentials for a cluster, or another authority to trust."""
    return state.rejected or bool(state.forbidden) or state.untrusted


def link_remedy(
    source: ClusterId, target: ClusterId, state: ClusterState, snapshot: MultiClusterSnapshot
) -> Remedy:
    """`hanse join` if credentials, rights or a certificate are refused, else mending the network.

    The latter names a `hanse join`, too, for a member of a Federation, as its address may be wrong.
    Advice only where no join is known (`rejoin_command`).
    """
    again = rejoin_command(source, target, snapshot)
    if needs_join(state):
        return remedy(again) if again else remedy(advice="give its agent new credentials")
    address = again if Role.MEMBER in state.roles else ""  # which its Federation may have wrong
    advice = f"mend the network from {source} to {target}"
    if snapshot.local:
        heal = f"hanse local heal {source} {target.rpartition('/')[2]}"
        return remedy(heal, *((address,) if address else ()), advice=advice)
    return remedy(advice=f"{advice}, or its address: `{address}`" if address else advice)


def rejoin_command(source: ClusterId, target: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The `hanse join` command that gives an agent address, token and rights for a cluster anew.

    Empty if that is no broker, and the agent's own cluster has no Federation.
    """
    if Role.BROKER in snapshot.roles(target):
        return join_broker_command(target, source, snapshot)
    federation = next((one.name for one in snapshot.all(source, Federation)), "")
    return join_federation_command(federation, target, source, snapshot) if federation else ""
