"""What is wrong with members of a broker that leave, have left, or move to another one."""

from collections.abc import Iterator
from datetime import timedelta

from hanse.features.fleet.agents import restart_agent_remedy
from hanse.model.broker_namespace import (
    GIVEN_UP,
    MEMBER,
    accounts_namespace,
    lost_broker_namespace,
)
from hanse.model.clusterset import CLUSTER_UID
from hanse.model.facts import AgentRun
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
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, ServiceAccount
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.naming import IDENTITY_NAMESPACE, holder_cluster
from hanse.model.objects import ClusterId
from hanse.model.remedies import LEAVING_AFTER, broker_namespace_option, join_broker_command

LEFT_AFTER = timedelta(seconds=15)
"""How long the account of a member that has left may remain: `hanse leave` ends it at once."""


def member_findings(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """What is wrong with the members of a broker, by their ClusterMembers and Leases there.

    The codes are MemberAbandoned, MembersMoving, MemberLeaving, AccountRemains,
    MemberRecordMissing.
    """
    yield from _abandoned_members(cluster, snapshot)
    yield from _moving_members(cluster, snapshot)
    yield from _unfinished_leaves(cluster, snapshot)
    yield from _lost_records(cluster, snapshot)


def mistaken_identity(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """MemberMismatch for each record of a cluster on a broker that has another cluster's uid.

    If another cluster renews that record's Lease, the remedy is that its agent gets an id of its
    own; else that the record gets the right uid, and the agent restarts. One finding alone if the
    agent's own Lease shows that it runs under another id. None while the cluster's uid is not
    known, nor for records that have left.
    """
    own = snapshot.by_agent.get(cluster)
    run = own.fact(AgentRun, cluster) if own is not None else None
    borrowed = holder_cluster(run.holder) if run is not None and "_" in run.holder else cluster
    if borrowed != cluster:
        yield _borrowed_id(cluster, borrowed, f"the agent of {cluster}", snapshot)
        return
    system = own.get(cluster, Namespace, IDENTITY_NAMESPACE) if own is not None else None
    uid = system.metadata.uid if system is not None else ""
    for broker, record in snapshot.membership_records(cluster) if uid else ():
        if record.spec.uid != uid and not record.has_left:
            if _is_of_another(broker, record, uid, snapshot):
                agent = f"the agent of context {snapshot.context(cluster)}"
                yield _borrowed_id(cluster, cluster, agent, snapshot)
                continue
            again = join_broker_command(broker, cluster, snapshot, record.namespace)
            patch = f'{{"spec":{{"uid":"{uid}"}}}}'
            change = f"patch clustermember {record.name} --type merge -p '{patch}'"
            yield Finding(
                code="MemberMismatch",
                severity=Severity.DEGRADED,
                subject=cluster_ref(cluster),
                summary=f"the record of {cluster} on {broker} is that of another cluster: it names "
                f"{record.spec.uid} as the uid of namespace kube-system, which has {uid}; the "
                "agent publishes nothing under that record",
                remedy=remedy(
                    snapshot.kubectl(broker, change, record.namespace),
                    *restart_agent_remedy(cluster, snapshot).commands,
                    advice=f"if {cluster} was built anew, with empty volumes, rather "
                    f"`{again} --replace`",
                ),
            )


def _is_of_another(
    broker: ClusterId, record: ClusterMember, uid: str, snapshot: MultiClusterSnapshot
) -> bool:
    """Whether another cluster renews the Lease of a record than the one with this uid.

    That is: it is renewed, and its annotation, written when a cluster joins, does not name the uid.
    If it names the uid, the record alone was edited.
    """
    lease = snapshot.get(broker, Lease, record.name, record.namespace)
    joined = lease.metadata.annotations.get(CLUSTER_UID) if lease is not None else None
    return joined != uid and snapshot.has_heartbeat(record.name)


def _borrowed_id(
    cluster: ClusterId, borrowed: ClusterId, agent: str, snapshot: MultiClusterSnapshot
) -> Finding:
    """A finding MemberMismatch about an agent that runs under the id of another cluster.

    It is not checked; the remedy is advice only: to start the agent under its own id.
    """
    own = cluster if cluster != borrowed else "ID"
    apply = snapshot.kubectl(cluster, "apply -f -")
    return Finding(
        code="MemberMismatch",
        severity=Severity.DEGRADED,
        subject=cluster_ref(cluster),
        summary=f"{agent} runs under the id {borrowed}, which is that of another cluster with an "
        "agent of its own: it publishes nothing",
        remedy=remedy(
            advice=f"end that agent, and start it under its own id (--cluster-id); one that is "
            f"installed: `hanse manifests --cluster-id {own} | {apply}`, with your values"
        ),
    )


def _lost_records(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """MemberRecordMissing for each held Lease of a member on a broker that has no ClusterMember.

    Nothing until records are synced, or if the broker's namespace is gone.
    """
    own = snapshot.for_cluster(cluster)
    if own is None or not own.synced(cluster, ClusterMember):
        return
    if lost_broker_namespace(cluster, snapshot):
        return
    records = {(one.namespace, one.name) for one in snapshot.all(cluster, ClusterMember)}
    for lease in snapshot.all(cluster, Lease):
        held = MEMBER in lease.metadata.labels and lease.spec.holder_identity
        if held and (lease.namespace, lease.name) not in records:
            yield Finding(
                code="MemberRecordMissing",
                severity=Severity.RISK,
                subject=Ref("ClusterMember", lease.name, lease.namespace, cluster),
                summary=f"the record of {lease.name} is gone from {cluster}: its Lease alone says "
                "that it is a member, and its features and address ranges are not known there",
                remedy=remedy(join_broker_command(cluster, lease.name, snapshot, lease.namespace)),
            )


def _unfinished_leaves(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """MemberLeaving for members that leave for over 2 minutes, AccountRemains for those that left.

    The latter only if the account is still there after 15 seconds; nothing where accounts could not
    be read.
    """
    for record in snapshot.all(cluster, ClusterMember):
        since = record.status.since
        if _is_stuck(record, snapshot):
            yield Finding(
                code="MemberLeaving",
                severity=Severity.RISK,
                subject=subject_of(record, cluster),
                summary=f"{record.name} is leaving {cluster}, and has not finished: its agent has "
                "not withdrawn everything, and its account there has all its rights",
                remedy=remedy(
                    _leave_command(record, cluster, snapshot),
                    advice="its agent has to run and to reach the broker; if the cluster is dead, "
                    "add --force",
                ),
                since=since,
                caused_by=(cluster_ref(record.name),),
            )
        if (
            record.status.phase == "Left"
            and _age(record, snapshot) > LEFT_AFTER
            and _has_account(record, cluster, snapshot)
        ):
            yield Finding(
                code="AccountRemains",
                severity=Severity.RISK,
                subject=subject_of(record, cluster),
                summary=f"{record.name} has left {cluster}, its account and rights there "
                "remain: `hanse leave` was interrupted",
                remedy=remedy(_leave_command(record, cluster, snapshot)),
                since=since,
            )


def leave_commands(member: ClusterId, snapshot: MultiClusterSnapshot) -> tuple[str, ...]:
    """A `hanse leave` command for each broker that a member has been leaving for over 2 minutes."""
    return tuple(
        _leave_command(record, broker, snapshot)
        for broker, record in snapshot.membership_records(member)
        if _is_stuck(record, snapshot)
    )


def _is_stuck(record: ClusterMember, snapshot: MultiClusterSnapshot) -> bool:
    """Whether a member has been in phase Leaving for longer than LEAVING_AFTER (2 minutes)."""
    return record.status.phase == "Leaving" and _age(record, snapshot) > LEAVING_AFTER


def _age(record: ClusterMember, snapshot: MultiClusterSnapshot) -> timedelta:
    """How long a member has been in its phase; zero where its record has no `since`."""
    since = record.status.since
    return snapshot.now - since if since is not None else timedelta()


def _has_account(record: ClusterMember, broker: ClusterId, snapshot: MultiClusterSnapshot) -> bool:
    """Whether a broker still has a member's ServiceAccount that is not marked as given up.

    The record's namespace and the namespace of accounts that belongs to it count.
    """
    spaces = (record.namespace, accounts_namespace(record.namespace))
    return any(
        one.metadata.labels.get(MEMBER) == record.name
        and one.namespace in spaces
        and one.metadata.annotations.get(GIVEN_UP) != "true"
        for one in snapshot.all(broker, ServiceAccount)
    )


def _leave_command(record: ClusterMember, broker: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The `hanse leave` command that goes on with a leave: with `--force` if it was begun so.

    Else with the cluster's `--context`.
    """
    place = broker_namespace_option(record.namespace)
    asked = (
        "--force"
        if record.status.abandoned
        else f"--context {snapshot.context_argument(record.name)}"
    )
    joined = f"--broker {snapshot.context_argument(broker)}{place} --cluster-id {record.name}"
    return f"hanse leave {joined} {asked}"


def _abandoned_members(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """MemberAbandoned for each member that was made to leave without its agent cleaning up."""
    for record in snapshot.all(cluster, ClusterMember):
        if record.has_left and record.status.abandoned:
            yield Finding(
                code="MemberAbandoned",
                severity=Severity.NOTE,
                subject=subject_of(record, cluster),
                summary=f"{record.name} was made to leave {cluster} without being asked: what "
                "Hanse wrote in it stands until its agent runs again",
                remedy=_abandoned_remedy(cluster, record, snapshot),
                since=record.status.since,
            )


def _abandoned_remedy(
    cluster: ClusterId, record: ClusterMember, snapshot: MultiClusterSnapshot
) -> Remedy:
    """What removes what Hanse wrote in a cluster that was given up: a `hanse uninstall` command.

    Only advice while its agent runs, which removes that by itself: to uninstall deletes what people
    made of our kinds, too, and takes the cluster out of its Federation.
    """
    context = snapshot.context_argument(record.name)
    uninstall = f"hanse uninstall --context {context} --yes --force"
    own = snapshot.by_agent.get(record.name)
    run = own.fact(AgentRun, record.name) if own is not None else None
    if run is not None and run.alive and snapshot.fault_of(record.name) is None:
        again = join_broker_command(cluster, record.name, snapshot, record.namespace)
        return Remedy(
            "its agent runs again, and withdraws that as soon as it has read that it has left; if "
            f"it cannot, as its token has ended: `{again}` takes the cluster in again, or "
            f"`{uninstall}`",
            ask=f"the administrator of {record.name}",
        )
    return remedy(
        uninstall,
        advice="or start its agent, if the cluster is there; once it is gone for good: "
        + snapshot.kubectl(
            cluster,
            f"patch clustermember {record.name} --subresource status --type merge "
            '-p \'{"status":{"abandoned":false}}\'',
            record.namespace,
        ),
    )


def _moving_members(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> Iterator[Finding]:
    """MembersMoving: one finding for all records whose status says `moving`; none without any.

    Its subject is the first record, and it names three members.
    """
    moving = [one for one in snapshot.all(cluster, ClusterMember) if one.status.moving]
    if moving:
        names = ", ".join(sorted(one.name for one in moving)[:3])
        yield Finding(
            code="MembersMoving",
            severity=Severity.RISK,
            subject=subject_of(moving[0], cluster),
            summary=f"the fleet moves between {cluster} and another broker: until that ends, "
            f"nobody takes {names}{' and others' * (len(moving) > 3)} for dead",
            remedy=remedy(
                advice="once all members are there, end the old one: `hanse broker retire` with "
                "the old broker as --context and the new one as --successor"
            ),
        )
