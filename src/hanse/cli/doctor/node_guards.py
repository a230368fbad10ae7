"""Findings about the guards of nodes, on which the networks of tenants rely; pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import DEPLOYMENTS, GUARD_LEASES, NODE_GUARDS, UNATTACHED
from hanse.cli.fleet import ClusterRead
from hanse.cli.manifests.guard import GUARD
from hanse.features.networks.cni import CONFIG_FILE
from hanse.features.networks.cni_script import GUARD_SILENT
from hanse.features.networks.guarded_nodes import unguarded_nodes
from hanse.features.networks.lookups import GUARDED, GUARDS_MISSING, ISOLATED
from hanse.model.conditions import find_condition
from hanse.model.findings import Ref
from hanse.model.kinds.apps import DaemonSet, Deployment
from hanse.model.kinds.core import Event, Node
from hanse.model.kinds.networks import Network
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.summaries import first_of

RECENT = timedelta(minutes=15)
"""How long an Event counts: kubelets repeat it while a pod does not start."""
_VARIABLE = "HANSE_NETWORK_GUARD"


def check_node_guards(read: ClusterRead, now: datetime) -> Iterator[Finding]:
    """GuardMissing: nodes without a guard, whose networks or whose network plugin rely on one.

    Of networks one finding for all nodes, and none where guards or Leases could not be listed.
    """
    guards = [one for one in read.listed(NODE_GUARDS) if one.name == GUARD]
    yield from _left_plugins(read, guards, now)
    if not {NODE_GUARDS, GUARD_LEASES} <= {*read.lists} or not _is_relied_on(read):
        return
    missing = unguarded_nodes(
        read.objects(Node), read.listed(GUARD_LEASES), (read.asked_at or now) + read.skew
    )
    if not missing:
        return
    where = f"kubectl --context {read.context} -n {SYSTEM_NAMESPACE}"
    if guards:
        remedy, advice = f"{where} rollout restart daemonset/{GUARD}", ""
    else:
        remedy = f"{where} set env deployment/{AGENT} {_VARIABLE}=false"
        advice = "do without guards, or install them (networks.guard)"
    yield Finding(
        read.context,
        f"{len(missing)} of its nodes have no guard that is ready ({first_of(missing)}), so that "
        "NetworkPolicies keep its networks apart, and those of tenants do not narrow",
        remedy,
        "GuardMissing",
        Ref(DaemonSet.kind.name, GUARD, SYSTEM_NAMESPACE),
        pasteable=True,
        advice=advice,
    )


def _left_plugins(read: ClusterRead, guards: list[DaemonSet], now: datetime) -> Iterator[Finding]:
    """GuardMissing for each node whose recent kubelet Events say that its plugin waits for one."""
    nodes = {_event_node(one) for one in read.listed(UNATTACHED) if _says_guard_silent(one, now)}
    for node in sorted(nodes - {""}):
        file = f"/host/etc/cni/net.d/{CONFIG_FILE}"
        restart = f"kubectl --context {read.context} -n {SYSTEM_NAMESPACE} rollout restart"
        remove = f"kubectl --context {read.context} debug node/{node} -q --image=busybox"
        yield Finding(
            read.context,
            f"no pod starts on node {node}: its network plugin waits for a guard, which does not "
            "answer",
            f"{restart} daemonset/{GUARD}" if guards else f"{remove} -- rm -f {file}",
            "GuardMissing",
            Ref("Node", node),
            pasteable=True,
            advice=""
            if guards
            else "or run `hanse guard --remove` on the node: its guard went without its plugin",
        )


def _says_guard_silent(event: Event, now: datetime) -> bool:
    """Whether an Event of the last `RECENT` says that a guard does not answer.

    False for an Event without any time.
    """
    seen = event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp
    return GUARD_SILENT in event.message and seen is not None and now - seen < RECENT


def _event_node(event: Event) -> str:
    """The node that an Event comes from, by its source or reporting instance; "" without either."""
    return event.source.host or event.reporting_instance


def _is_relied_on(read: ClusterRead) -> bool:
    """Whether Networks rely on guards, by their condition Isolated or the agent's environment."""
    networks = read.objects(Network)
    told = (find_condition(one.status.conditions, ISOLATED) for one in networks)
    if any(one is not None and one.reason in (GUARDED, GUARDS_MISSING) for one in told):
        return True
    agents = (one for one in read.listed(DEPLOYMENTS) if one.name == AGENT)
    variable = {"name": _VARIABLE, "value": "true"}
    return bool(networks) and any(variable in _environment(one) for one in agents)


def _environment(deployment: Deployment) -> list[object]:
    """The environment variables of all containers, as in the manifest; not of init containers."""
    pod = deployment.spec.template.get("spec") or {}
    return [v for c in pod.get("containers") or () for v in c.get("env") or ()]
