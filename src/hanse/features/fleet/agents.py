"""What is wrong with the agents of clusters: they do not run, or do not show that they do."""

from collections.abc import Iterator

from hanse.features.fleet.links import link_remedy, link_state, needs_join, refusal
from hanse.model.facts import AgentFeatures, AgentLeaseRefused, AgentRun, ClusterState, Role
from hanse.model.findings import Finding, Remedy, Severity, cluster_ref, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.refused_writes import admission_refusal, lease_refusers


def agent_faults(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """AgentSilent if the agent's Lease in its own cluster has expired, AgentMissing without holder.

    Nothing if the Lease is renewed or unknown, or for a broker whose Lease has no holder.
    """
    own = snapshot.by_agent.get(cluster)
    run = own.fact(AgentRun, cluster) if own is not None else None
    if run is None or run.alive or (Role.BROKER in snapshot.roles(cluster) and not run.holder):
        return
    yield Finding(
        code="AgentSilent" if run.holder else "AgentMissing",
        severity=Severity.DEGRADED,
        subject=cluster_ref(cluster),
        summary=f"the agent of {cluster} does not run: it does not renew its Lease"
        if run.holder
        else f"no agent works in {cluster}: {_missing_part(cluster, snapshot)}",
        remedy=_start_agent_remedy(cluster, snapshot, has_run=bool(run.holder)),
        since=run.renewed,
        caused_by=lease_refusers(cluster, snapshot),
    )


def refused_agent(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Finding:
    """A finding AgentMissing for an agent whose own cluster rejects its token; that is not checked.

    The remedy restores account and rights and restarts the agent.
    """
    return Finding(
        code="AgentMissing",
        severity=Severity.DEGRADED,
        subject=cluster_ref(cluster),
        summary=f"no agent works in {cluster}, which refuses the credentials of its agent: their "
        f"ServiceAccount {SYSTEM_NAMESPACE}/{AGENT} is gone, or was made anew",
        remedy=_start_agent_remedy(cluster, snapshot, has_run=False)
        if snapshot.local
        else remedy(rights_command(cluster, snapshot), _restart_command(cluster, snapshot)),
    )


def rights_command(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The command that gives an agent its account and the rights of the features that it runs.

    It pipes `hanse manifests --rights` into `kubectl apply`; without features if these are not
    known.
    """
    return (
        f"hanse manifests --cluster-id {cluster}{_features_option(cluster, snapshot)} --rights | "
        f"{snapshot.kubectl(cluster, 'apply -f -')}"
    )


def _features_option(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The option of `hanse manifests` for the features of an agent; empty if they are not known."""
    own = snapshot.by_agent[cluster].fact(AgentFeatures, cluster)
    return f" --features {','.join(own.features)}" if own is not None else ""


def denied_to_agent(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> tuple[str, ...]:
    """What a cluster's agent may not watch there; else `leases`, if it may not renew its Lease.

    Empty if nothing is denied; a renewal that only admission refuses is not.
    """
    own = snapshot.by_agent[cluster]
    state, lease = own.fact(ClusterState, cluster), own.fact(AgentLeaseRefused, cluster)
    if state is not None and state.forbidden:
        return state.forbidden
    denied = lease is not None and not admission_refusal(lease.message)
    return (Lease.kind.plural,) if denied else ()


def _missing_part(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """Why nobody holds the Lease of an agent: its namespace is gone, or else there is no Lease.

    The latter also if the namespaces of the cluster are not known.
    """
    own = snapshot.by_agent[cluster]
    if own.synced(cluster, Namespace) and own.get(cluster, Namespace, SYSTEM_NAMESPACE) is None:
        return f"there is no namespace {SYSTEM_NAMESPACE}, where it has its Lease and its account"
    return f"there is no Lease {SYSTEM_NAMESPACE}/{AGENT}"


def _start_agent_remedy(
    cluster: ClusterId, snapshot: MultiClusterSnapshot, *, has_run: bool
) -> Remedy:
    """What starts an agent; under `hanse up` `hanse local start`, after a stop unless it has run.

    Else a restart of its Deployment if that exists, or if it has run and Deployments were not read;
    else the command that installs it, which is only advice where Deployments were not read: it
    might replace one.
    """
    if snapshot.local:  # one without Lease may run with the token of an account that is gone
        stop = () if has_run else (f"hanse local stop agent {cluster}",)
        return remedy(*stop, f"hanse local start agent {cluster}")
    listed = snapshot.listed(cluster, Deployment)
    installed = snapshot.get(cluster, Deployment, AGENT, SYSTEM_NAMESPACE) is not None
    if installed or (has_run and not listed):
        return restart_agent_remedy(cluster, snapshot)
    features = _features_option(cluster, snapshot) if has_run else ""
    apply = snapshot.kubectl(cluster, "apply -f -")
    install = f"hanse manifests --cluster-id {cluster}{features} | {apply}"
    if listed:
        return remedy(install, advice="with your values (-f, --set), if you have some")
    return remedy(advice=f"if there is no Deployment {SYSTEM_NAMESPACE}/{AGENT}: `{install}`")


def restart_agent_remedy(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Remedy:
    """What makes an installed agent run anew: its Deployment scaled up from 0, or new pods of it.

    In a fleet that `hanse up` runs: `hanse local stop` and `start`. Commands only: nothing is run.
    """
    if snapshot.local:
        return remedy(f"hanse local stop agent {cluster}", f"hanse local start agent {cluster}")
    known = snapshot.get(cluster, Deployment, AGENT, SYSTEM_NAMESPACE)
    if known is not None and known.spec.replicas == 0:
        scale = f"scale deployment/{AGENT} --replicas=1"
        return remedy(snapshot.kubectl(cluster, scale, SYSTEM_NAMESPACE))
    return remedy(
        _restart_command(cluster, snapshot),
        advice=f"if it does not start, its log says why: `{_agent_log(cluster, snapshot)}`",
    )


def _restart_command(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The kubectl command that replaces the pods of an agent."""
    return snapshot.kubectl(cluster, f"rollout restart deployment/{AGENT}", SYSTEM_NAMESPACE)


def silent_finding(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Finding:
    """A finding ClusterSilent; that the cluster's Lease on the broker has expired is not checked.

    AgentSilent if no agent runs, which is known only in a fleet that `hanse up` runs. The remedy
    starts the agent, joins again where the broker refuses it, or else mends the network.
    """
    silence = snapshot.silence_of(cluster)
    broker = silence.where if silence is not None else "the broker"
    own = snapshot.by_agent.get(cluster)
    state = link_state(own, broker) if own is not None else None
    stopped = own is None and snapshot.local  # the page of `hanse up` has every agent that runs
    commands: tuple[str, ...] = ()
    why = f"the agent of {cluster} does not reach {broker}"
    if stopped:
        commands = (f"hanse local start agent {cluster}",)
        why = f"the agent of {cluster} does not run"
    elif state is not None and needs_join(state):
        commands = link_remedy(cluster, broker, state, snapshot).commands
        why = refusal("its agent", broker, state)
    elif snapshot.local:
        commands = (f"hanse local heal {cluster} {broker}",)
    return Finding(
        code="AgentSilent" if stopped else "ClusterSilent",
        severity=Severity.DEGRADED,
        subject=cluster_ref(cluster),
        summary=f"{cluster} is silent: {why}, so that the other clusters leave out what it has",
        remedy=remedy(*commands)
        if commands
        else remedy(
            advice=f"mend the network between {cluster} and {broker}, or the credentials of its "
            f"agent, which its log names: `{_agent_log(cluster, snapshot)}`"
        ),
        since=silence.since if silence is not None else None,
        caused_by=(*lease_refusers(cluster, snapshot), *lease_refusers(broker, snapshot)),
    )


def _agent_log(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The kubectl command that shows the last lines of an agent's log."""
    return snapshot.kubectl(cluster, f"logs deployment/{AGENT} --tail=20", SYSTEM_NAMESPACE)
