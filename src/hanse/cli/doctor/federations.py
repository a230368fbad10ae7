"""Findings about Federations: conditions that are not as they should be, and abandoned clusters."""

from collections.abc import Iterator

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import ClusterLists
from hanse.features.federation.members import ABANDONED
from hanse.features.federation.status import DIFFER
from hanse.model.objects import Wire


def check_federations(lists: ClusterLists) -> Iterator[Finding]:
    """What the Federations of one cluster report as wrong."""
    for federation in lists["federations"]:
        status = federation.get("status") or {}
        for one in status.get("conditions") or ():
            bad = "True" if one.get("type") == DIFFER else "False"
            if one.get("status") == bad:
                yield _condition_finding(lists, federation, one)
        for abandoned in status.get("abandoned") or ():
            yield _abandoned_finding(lists, federation, abandoned)


def _condition_finding(lists: ClusterLists, federation: Wire, one: Wire) -> Finding:
    name = federation["metadata"]["name"]
    return Finding(
        lists.name,
        f"Federation {name}: {one.get('reason')}: {one.get('message', '')}",
        f"as it says; kubectl --context {lists.name} describe federation {name}",
    )


def _abandoned_finding(lists: ClusterLists, federation: Wire, abandoned: Wire) -> Finding:
    name, cluster = federation["metadata"]["name"], abandoned.get("clusterID", "")
    return Finding(
        lists.name,
        f"Federation {name}: {cluster} was given up; {abandoned.get('objects', 0)} objects of ours "
        "that were known here may stand there",
        f"delete them there, if it still exists (hanse uninstall --context {cluster}); then "
        f"kubectl --context {lists.name} annotate federation {name} {ABANDONED}-",
    )
