"""Exported services in `hanse status`."""

from collections.abc import Sequence
from typing import Any

import click

from hanse.cli.exported_services import port_documents
from hanse.cli.findings import findings_document
from hanse.cli.tables import table
from hanse.features.services.exported import format_port
from hanse.features.services.view import ServiceItem


def print_table(services: Sequence[ServiceItem]) -> None:
    """Print the table of exported services; nothing if there is none."""
    if not services:
        return
    rows = [
        (
            f"{one.namespace}/{one.name}",
            one.type or "-",
            ", ".join(format_port(port) for port in one.ports) or "-",
            ", ".join(e.cluster for e in one.exporters if not e.lost) or "-",
            ", ".join(
                f"{e.cluster} {'lost' if e.lost else f'{e.ready}/{e.all}'}" for e in one.exporters
            )
            or "-",
        )
        for one in services
    ]
    click.echo()
    click.echo(table(("SERVICE", "TYPE", "PORTS", "EXPORTED BY", "ENDPOINTS READY"), rows))


def json_document(service: ServiceItem) -> dict[str, Any]:
    """A service as it is in the JSON of `hanse status`."""
    return {
        "namespace": service.namespace,
        "name": service.name,
        "type": service.type,
        "state": service.state,
        "ports": port_documents(service.ports),
        "exporters": [one.cluster for one in service.exporters if not one.lost],
        "importers": list(service.importers),
        "endpoints": {
            one.cluster: {"ready": one.ready, "all": one.all} for one in service.exporters
        },
        "problems": [
            {"cluster": p.cluster, "reason": p.reason, "message": p.message}
            for p in service.problems
        ],
        "findings": findings_document(service.findings),
    }
