"""Federated StatefulSets in `hanse status`."""

from collections.abc import Sequence
from typing import Any

import click

from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import CommandFailed
from hanse.cli.statefulsets.replicas import SetView, read_sets
from hanse.cli.tables import table
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.kube.errors import KubeError


async def read_sets_of_broker(clusters: Sequence[ClusterAccess]) -> list[SetView]:
    """The sets at the broker; none where no broker answers, which other tables show."""
    try:
        return await read_sets(clusters, "", StatefulSetOptions())
    except (CommandFailed, KubeError):
        return []


def json_document(sets: Sequence[SetView]) -> list[dict[str, Any]]:
    """The sets as part of the JSON of `hanse status`."""
    return [
        {
            "namespace": one.namespace,
            "name": one.name,
            "replicas": _count_by_cluster(one),
            "ready": one.ready,
            "problems": list(one.trouble),
        }
        for one in sets
    ]


def print_table(sets: Sequence[SetView]) -> None:
    """Print the sets, and what hinders them, such as clusters that refuse one."""
    if not sets:
        return
    rows = [
        (
            f"{one.namespace}/{one.name}",
            f"{one.ready}/{len(one.replicas)}",
            ", ".join(f"{c} {n}" for c, n in _count_by_cluster(one).items()) or "-",
        )
        for one in sets
    ]
    click.echo()
    click.echo(table(("STATEFULSET", "READY", "REPLICAS"), rows))
    for one in sets:
        for problem in one.trouble:
            click.echo(f"{click.style('✗', fg='red')} {one.namespace}/{one.name}: {problem}")


def _count_by_cluster(view: SetView) -> dict[str, int]:
    counts: dict[str, int] = {}
    for replica in view.replicas:
        counts[replica.cluster] = counts.get(replica.cluster, 0) + 1
    return counts
