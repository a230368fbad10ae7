"""Federated Services and VM Services in `hanse status`."""

from typing import Any

import click

from hanse.cli.federated_services import FederatedView
from hanse.cli.tables import table


def json_document(view: FederatedView) -> dict[str, Any]:
    """The view as part of the JSON of `hanse status`."""
    return {
        "federatedServices": [
            {
                "namespace": one.namespace,
                "name": one.name,
                "ports": list(one.ports),
                "standsIn": list(one.stands_in),
                "ready": one.ready,
                "affinity": one.affinity,
            }
            for one in view.services
        ],
        "machineServices": [
            {
                "cluster": one.cluster,
                "namespace": one.namespace,
                "name": one.name,
                "machines": one.machines,
            }
            for one in view.machines
        ],
        "federationTroubles": [
            {
                "cluster": one.cluster,
                "object": one.object,
                "reason": one.reason,
                "message": one.message,
            }
            for one in view.troubles
        ],
    }


def print_tables(view: FederatedView) -> None:
    """Print a table for each kind of Service that exists, and the failed conditions."""
    if view.services:
        rows = [
            (
                f"{one.namespace}/{one.name}",
                ", ".join(one.ports) or "-",
                ", ".join(f"{cluster} {number}" for cluster, number in one.ready.items()) or "-",
                ", ".join(one.stands_in),
                one.affinity,
            )
            for one in view.services
        ]
        click.echo()
        heads = ("FEDERATED SERVICE", "PORTS", "ENDPOINTS READY", "STANDS IN", "AFFINITY")
        click.echo(table(heads, rows))
    if view.machines:
        machine_rows = [
            (f"{one.namespace}/{one.name}", one.cluster, str(one.machines)) for one in view.machines
        ]
        click.echo()
        click.echo(table(("VM SERVICE", "CLUSTER", "MACHINES"), machine_rows))
    for failed in view.troubles:
        reason = click.style(failed.reason, fg="yellow")
        click.echo(f"! {failed.object} in {failed.cluster}: {reason}: {failed.message}")
