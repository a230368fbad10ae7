"""Findings about the Leases by which members of a broker show that they are alive; pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.guards import broker_namespace
from hanse.cli.doctor.lists import ClusterLists
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE

GRACE = timedelta(seconds=15)
"""How much longer than its Lease a member may be silent before it is reported."""


def check_heartbeats(lists: ClusterLists, now: datetime, *, local: bool) -> Iterator[Finding]:
    """LeaseMissing and ClusterSilent: members of a broker that the others leave out.

    A member whose agent has never renewed its Lease is not reported here. With `local` the remedy
    is that of a federation that `hanse up` runs.
    """
    leases = {
        (lease["metadata"]["namespace"], lease["metadata"]["name"]): lease
        for lease in lists["heartbeats"]
    }
    for account in lists["accounts"]:
        member, namespace = account["metadata"]["name"], broker_namespace(account)
        lease = leases.get((namespace, member))
        if lease is None:
            yield Finding(
                lists.name,
                f"LeaseMissing: {member} has joined, and its Lease is gone from {namespace}: the "
                "other clusters take nothing new from it",
                f"hanse join --broker {lists.name} --broker-namespace {namespace} "
                f"--cluster-id {member} --context {member}",
            )
        elif (silence := lease_silence(lease, now, GRACE)) is not None:
            logs = f"kubectl --context {member} -n {SYSTEM_NAMESPACE} logs deployment/{AGENT}"
            yield Finding(
                lists.name,
                f"ClusterSilent: {member} has not renewed its Lease for "
                f"{int(silence.total_seconds())} s: the other clusters leave out what it exports",
                "hanse local heal --all" if local else logs,
            )


def lease_silence(lease: dict[str, Any], now: datetime, grace: timedelta) -> timedelta | None:
    """How long ago a Lease was renewed, if that is longer than its duration and the grace.

    None for one that is renewed in time, or that nobody holds.
    """
    spec = lease.get("spec") or {}
    renewed, lasts = spec.get("renewTime"), timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    if not spec.get("holderIdentity") or not renewed:
        return None
    silence = now - datetime.fromisoformat(renewed)
    return silence if silence > lasts + grace else None
