"""Findings about the Leases by which members of a broker show that they are alive; pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.guards import broker_namespace
from hanse.cli.doctor.lists import ClusterLists
from hanse.model.findings import Ref


def check_heartbeats(lists: ClusterLists) -> Iterator[Finding]:
    """LeaseMissing: members with a ServiceAccount on a broker, and no Lease of their name there.

    How old a Lease is does not matter here.
    """
    leases = {
        (lease["metadata"]["namespace"], lease["metadata"]["name"]) for lease in lists["heartbeats"]
    }
    for account in lists["accounts"]:
        member, namespace = account["metadata"]["name"], broker_namespace(account)
        if (namespace, member) not in leases:
            yield Finding(
                lists.name,
                f"{member} has joined, and its Lease is gone from {namespace}: the other clusters "
                "take nothing new from it",
                f"hanse join --broker {lists.name} --broker-namespace {namespace} "
                f"--cluster-id {member} --context {member}",
                "LeaseMissing",
                Ref("Lease", member, namespace),
                pasteable=True,
                of_namespace=True,
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
