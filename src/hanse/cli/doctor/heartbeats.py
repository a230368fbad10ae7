"""Findings about the Leases by which members of a broker show that they are alive; pure."""

from collections.abc import Iterator, Mapping

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import members_of
from hanse.cli.fleet import ClusterRead
from hanse.model.broker_namespace import shared_namespace
from hanse.model.findings import Ref
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.objects import ClusterId
from hanse.model.remedies import broker_namespace_option


def check_heartbeats(read: ClusterRead, contexts: Mapping[ClusterId, str]) -> Iterator[Finding]:
    """LeaseMissing: members with a ServiceAccount on a broker, and no Lease of their name there.

    A Lease counts also if it has expired; members that leave or have left are skipped. No findings
    if Leases were not listed.
    """
    if not any(watch.kind is Lease for watch in read.lists):
        return
    leases = {(lease.namespace, lease.name) for lease in read.objects(Lease)}
    gone = {
        (one.namespace, one.name)
        for one in read.objects(ClusterMember)
        if one.has_left or one.status.phase == "Leaving"
    }
    for account in members_of(read):
        member, namespace = account.name, shared_namespace(account.namespace)
        if (namespace, member) not in leases | gone:
            place = broker_namespace_option(namespace)
            yield Finding(
                read.context,
                f"{member} has joined, and its Lease is gone from {namespace}: the other clusters "
                "take nothing new from it",
                f"hanse join --broker {read.context}{place} --cluster-id {member} "
                f"--context {contexts.get(member, member)}",
                "LeaseMissing",
                Ref("Lease", member, namespace),
                pasteable=True,
                of_namespace=True,
            )
