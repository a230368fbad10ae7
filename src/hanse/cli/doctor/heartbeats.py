"""Findings about the Leases by which members of a broker show that they are alive; pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import members_of
from hanse.cli.fleet import ClusterRead
from hanse.model.broker_namespace import shared_namespace
from hanse.model.findings import Ref
from hanse.model.kinds.coordination import Lease


def check_heartbeats(read: ClusterRead) -> Iterator[Finding]:
    """LeaseMissing: members with a ServiceAccount on a broker, and no Lease of their name there.

    How old a Lease is does not matter here. None if Leases were not listed.
    """
    if not any(watch.kind is Lease for watch in read.lists):
        return
    leases = {(lease.namespace, lease.name) for lease in read.objects(Lease)}
    for account in members_of(read):
        member, namespace = account.name, shared_namespace(account.namespace)
        if (namespace, member) not in leases:
            yield Finding(
                read.context,
                f"{member} has joined, and its Lease is gone from {namespace}: the other clusters "
                "take nothing new from it",
                f"hanse join --broker {read.context} --broker-namespace {namespace} "
                f"--cluster-id {member} --context {member}",
                "LeaseMissing",
                Ref("Lease", member, namespace),
                pasteable=True,
                of_namespace=True,
            )


def lease_silence(lease: Lease, now: datetime, grace: timedelta) -> timedelta | None:
    """How long ago a Lease was renewed, if that is longer than its duration and the grace.

    None for one that is renewed in time, or that nobody holds.
    """
    if not lease.spec.holder_identity or lease.renewed is None:
        return None
    lasts = timedelta(seconds=lease.spec.lease_duration_seconds)
    silence = now - lease.renewed
    return silence if silence > lasts + grace else None
