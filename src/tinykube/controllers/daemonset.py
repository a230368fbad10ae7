"""The DaemonSet controller: one pod of a template on every node that fits."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil

from tinykube.controllers.conditions import status_patch
from tinykube.controllers.controller import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DONE,
    NODES,
    PODS,
    Create,
    Delete,
    Key,
    Lister,
    Result,
    Write,
)
from tinykube.controllers.deployment_rollout import resolve_int_or_percent
from tinykube.controllers.objects import (
    creation_timestamp,
    generation_of,
    is_active,
    is_available,
    is_deleting,
    is_ready,
    labels_of,
    min_ready_seconds,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    time_until_next_available,
)
from tinykube.controllers.owner_references import claim_pods_and_revisions, owner_keys
from tinykube.controllers.pod_template import REVISION_LABEL, pod_from_template
from tinykube.controllers.revisions import find_revisions, revisions_to_delete
from tinykube.controllers.scheduler import node_fits
from tinykube.resources import Object
from tinykube.storage import Change

_DEFAULT_TOLERATIONS = tuple(
    {"key": f"node.kubernetes.io/{condition}", "operator": "Exists", "effect": effect}
    for condition, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)


class DaemonSetController:
    """Enqueues a DaemonSet, the owner of a pod or revision, and all DaemonSets for a node."""

    name = "daemonset"
    watches = frozenset((DAEMON_SETS, PODS, NODES, CONTROLLER_REVISIONS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The DaemonSet itself, the owner of a pod or revision, or those that may adopt a pod.

        For a node, all DaemonSets.
        """
        if change.store == DAEMON_SETS:
            yield Key(DAEMON_SETS, namespace_of(change.object), name_of(change.object))
        elif change.store == NODES:
            for one in lister.objects(DAEMON_SETS):
                yield Key(DAEMON_SETS, namespace_of(one), name_of(one))
        else:
            yield from owner_keys(change, "DaemonSet", DAEMON_SETS, lister)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that adopt or release, if any; otherwise those that sync pods and status.

        The latter also record the template's revision and delete those above the history limit. No
        writes for an absent DaemonSet.
        """
        daemon_set = lister.get(DAEMON_SETS, key.namespace, key.name)
        if daemon_set is None:
            return DONE
        claims = claim_pods_and_revisions(daemon_set, lister)
        if claims.writes:
            return Result(claims.writes)
        history = find_revisions(daemon_set, claims.revisions, lister)
        nodes = tuple(lister.objects(NODES))
        result = sync_daemon_set(daemon_set, history.update, claims.pods, nodes, lister.now)
        used = (name_of(history.update),)
        old = revisions_to_delete(daemon_set, claims.revisions, used, claims.pods)
        return Result((*history.writes, *result.writes, *old), result.requeue_after)


def sync_daemon_set(
    daemon_set: Object,
    revision: Object,
    pods: Sequence[Object],
    nodes: Sequence[Object],
    now: datetime,
) -> Result:
    """The writes that create missing pods, delete surplus, finished and outdated ones, set status.

    Surplus are pods on nodes that do not fit, and of several on a node all but the oldest. A node
    with a terminating or finished pod gets no new one. A terminating DaemonSet only gets its
    status. Requeues for the next pod to become available.
    """
    fitting = {
        name_of(node) for node in nodes if node_fits(node, _daemon_pod(daemon_set, revision, node))
    }
    active = sorted((pod for pod in pods if is_active(pod)), key=creation_timestamp)
    on_node: dict[str, Object] = {}
    writes: list[Write] = []
    for pod in active:
        node = spec_of(pod).get("nodeName", "")
        if node in fitting and node not in on_node:
            on_node[node] = pod
        else:
            writes.append(Delete(PODS, pod))
    writes += [
        Delete(PODS, pod)
        for pod in pods
        if status_of(pod).get("phase") in ("Failed", "Succeeded") and not is_deleting(pod)
    ]
    terminating = {spec_of(pod).get("nodeName") for pod in pods if pod not in active}
    writes += [
        Create(PODS, _daemon_pod(daemon_set, revision, node))
        for node in nodes
        if name_of(node) in fitting - terminating and name_of(node) not in on_node
    ]
    writes += _rolling_update_deletions(daemon_set, name_of(revision), on_node, len(fitting), now)
    status = _daemon_set_status(daemon_set, name_of(revision), on_node, fitting, active, now)
    if is_deleting(daemon_set):
        writes = []
    return Result(
        (*writes, *status_patch(DAEMON_SETS, daemon_set, status)),
        time_until_next_available(active, min_ready_seconds(daemon_set), now),
    )


def _daemon_pod(daemon_set: Object, revision: Object, node: Object) -> Object:
    """The pod of a node by the template, assigned to it and with the default tolerations."""
    template = spec_of(daemon_set)["template"]
    tolerations = (template.get("spec") or {}).get("tolerations") or []
    spec = {"nodeName": name_of(node), "tolerations": [*tolerations, *_DEFAULT_TOLERATIONS]}
    labels = {REVISION_LABEL: name_of(revision)}
    metadata = {"generateName": f"{name_of(daemon_set)}-", "labels": labels}
    return pod_from_template(template, daemon_set, metadata, spec)


def _rolling_update_deletions(
    daemon_set: Object, revision: str, on_node: dict[str, Object], desired: int, now: datetime
) -> list[Write]:
    """The deletions of outdated pods: all unavailable ones, others as maxUnavailable allows.

    A pod is outdated by its revision label; none is deleted with the OnDelete strategy. `desired`
    is the number of nodes that should have a pod; nodes without an available one count as
    unavailable. maxUnavailable is 1 at least, maxSurge is ignored.
    """
    strategy = spec_of(daemon_set).get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    rolling = strategy.get("rollingUpdate") or {}
    max_unavailable = max(
        1, ceil(resolve_int_or_percent(rolling.get("maxUnavailable") or 1, desired))
    )
    min_ready = min_ready_seconds(daemon_set)
    available = sum(is_available(pod, min_ready, now) for pod in on_node.values())
    budget = max(0, max_unavailable - (desired - available))
    writes: list[Write] = []
    for pod in on_node.values():
        if labels_of(pod).get(REVISION_LABEL) == revision:
            continue
        if not is_available(pod, min_ready, now):
            writes.append(Delete(PODS, pod))
        elif budget:
            writes.append(Delete(PODS, pod))
            budget -= 1
    return writes


def _daemon_set_status(
    daemon_set: Object,
    revision: str,
    on_node: dict[str, Object],
    fitting: set[str],
    active: Sequence[Object],
    now: datetime,
) -> Object:
    """The status by counts of nodes and pods.

    Zero is omitted of updatedNumberScheduled, numberAvailable and numberUnavailable alone.
    `on_node` has the pod of each node, `fitting` the nodes that should have one; `active` are all
    active pods: those that are not in `on_node` are misscheduled.
    """
    available = sum(
        is_available(pod, min_ready_seconds(daemon_set), now) for pod in on_node.values()
    )
    updated = sum(labels_of(pod).get(REVISION_LABEL) == revision for pod in on_node.values())
    optional = {
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": len(fitting) - available,
    }
    return {
        "observedGeneration": generation_of(daemon_set),
        "desiredNumberScheduled": len(fitting),
        "currentNumberScheduled": len(on_node),
        "numberMisscheduled": len(active) - len(on_node),
        "numberReady": sum(map(is_ready, on_node.values())),
        **{name: count for name, count in optional.items() if count},
    }
