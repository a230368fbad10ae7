"""What clusters refuse to take from agents, by webhooks, policies, quotas and missing rights."""

import json
from collections.abc import Iterable, Iterator
from shlex import quote

from hanse.features.fleet.agents import restart_agent_remedy, rights_command
from hanse.features.fleet.links import rejoin_command
from hanse.model.broker_namespace import lost_broker_namespace
from hanse.model.facts import AgentLeaseRefused, ElectionFailure, HeartbeatState, WriteOutcome
from hanse.model.findings import (
    Finding,
    Ref,
    Remedy,
    Severity,
    cluster_ref,
    remedy,
    subject_of,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from hanse.model.objects import ClusterId
from hanse.model.refused_writes import ACCOUNT, WEBHOOK, RefusedWrites, refused_writes
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import Item


class RefusedWritesView:
    """The clusters that refuse what agents write."""

    name = "refused-writes"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The clusters that refuse a write of any agent, where the message says who refuses it."""
        return {one.refuser.cluster for _, one in _all_refusals(snapshot)}

    def keys_for(self, change: Change) -> Iterable[str]:
        """The cluster of a changed outcome of a write, of an election or of a Lease's renewal.

        None for other changes.
        """
        match change.fact if isinstance(change, FactChange) else None:
            case WriteOutcome(target):
                return (target.where.rpartition("/")[2],)
            case ElectionFailure(cluster) | AgentLeaseRefused(cluster) | HeartbeatState(cluster):
                return (cluster,)
            case _:
                return ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> Item | None:
        """The findings of a cluster; None if it refuses nothing."""
        found = tuple(
            _finding(agent, one, snapshot)
            for agent, one in _all_refusals(snapshot)
            if one.refuser.cluster == key
        )
        return Item(findings=found) if found else None


def _all_refusals(snapshot: MultiClusterSnapshot) -> Iterator[tuple[ClusterId, RefusedWrites]]:
    """What each refuser keeps each agent from writing, after the cluster of the agent."""
    for agent, own in snapshot.by_agent.items():
        for one in refused_writes(own):
            yield agent, one


def _finding(agent: ClusterId, refused: RefusedWrites, snapshot: MultiClusterSnapshot) -> Finding:
    """WebhookDown for a webhook that does not answer, else WriteRefused; about the refuser.

    It is caused by the webhook's configuration if that is known, and by the refusing cluster if it
    is a webhook of Hanse that is down, or its account lacks rights since the broker's namespace is
    lost.
    """
    refuser, where = refused.refuser, refused.refuser.cluster
    found = _webhook_place(refuser, snapshot)
    more = refused.count - 1
    of = f" of {found[0].kind} {found[0].name}" if found is not None else ""
    return Finding(
        code="WebhookDown" if refused.is_down else "WriteRefused",
        severity=Severity.DEGRADED,
        subject=refuser,
        summary=f"{where} refuses what the agent of {agent} writes, {refused.first}"
        f"{f' and {more} more' if more else ''}, by {refuser.kind} {refuser.name}{of}: "
        f"{refused.message}",
        remedy=_remedy(agent, refused, found, snapshot),
        since=refused.since,
        caused_by=(
            *((found[0],) if found is not None else ()),
            *((cluster_ref(where),) if refused.is_down and refused.is_by_agent else ()),
            *((cluster_ref(where),) if _lost_rights_with_namespace(refuser, snapshot) else ()),
        ),
    )


def _lost_rights_with_namespace(refuser: Ref, snapshot: MultiClusterSnapshot) -> bool:
    """Whether the refuser is an account, in a cluster where the broker's namespace is lost.

    The roles went with that.
    """
    return refuser.kind == ACCOUNT and bool(lost_broker_namespace(refuser.cluster, snapshot))


def _webhook_place(refuser: Ref, snapshot: MultiClusterSnapshot) -> tuple[Ref, int] | None:
    """The webhook configuration with a refusing webhook, and the webhook's index in it.

    None if the refuser is no webhook, or no such configuration was read.
    """
    if refuser.kind != WEBHOOK:
        return None
    found: list[ValidatingWebhookConfiguration | MutatingWebhookConfiguration] = [
        *snapshot.all(refuser.cluster, ValidatingWebhookConfiguration),
        *snapshot.all(refuser.cluster, MutatingWebhookConfiguration),
    ]
    for one in found:
        for number, webhook in enumerate(one.webhooks):
            if webhook.get("name") == refuser.name:
                return subject_of(one, refuser.cluster), number
    return None


def _remedy(
    agent: ClusterId,
    refused: RefusedWrites,
    webhook: tuple[Ref, int] | None,
    snapshot: MultiClusterSnapshot,
) -> Remedy:
    """What makes a cluster accept the writes: rights, or `failurePolicy: Ignore` of a webhook.

    The latter only if it does not answer, and is not ours: agents would take it back, so that the
    agent there is restarted. What is refused on purpose its administrator is asked to allow.
    """
    refuser, where = refused.refuser, refused.refuser.cluster
    if refuser.kind == ACCOUNT and where == agent:
        return remedy(rights_command(where, snapshot))
    if refuser.kind == ACCOUNT and (again := rejoin_command(agent, where, snapshot)):
        return remedy(again)
    if refused.is_down and refused.is_by_agent:
        return restart_agent_remedy(where, snapshot)
    if refused.is_down and webhook is not None:
        configuration, number = webhook
        path = f"/webhooks/{number}/failurePolicy"
        patch = quote(json.dumps([{"op": "add", "path": path, "value": "Ignore"}]))
        named = f"{configuration.kind.lower()} {configuration.name}"
        return remedy(
            snapshot.kubectl(where, f"patch {named} --type json -p {patch}"),
            advice="better start what serves the webhook: with this command nothing is checked by "
            "it while it does not answer",
        )
    listing = "validatingwebhookconfigurations,mutatingwebhookconfigurations -o wide"
    named = f"{quote(refuser.kind.lower())} {quote(refuser.name)} -o yaml"
    look = listing if refuser.kind == WEBHOOK else named
    shown = snapshot.kubectl(where, f"get {look}", refuser.namespace)
    return Remedy(
        f"let it allow what the message names; it is written again by itself: `{shown}`",
        ask=f"the administrator of {where}",
    )
