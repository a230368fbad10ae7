"""Exported services in `hanse status`."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from hanse.cli.exported_services import port_documents
from hanse.cli.findings import findings_document
from hanse.cli.tables import table
from hanse.features.services.exported import format_port
from hanse.features.services.view import ServiceExporter, ServiceItem

_UNKNOWN = "not known"


MOST_LISTED = 200
"""Of more services than people read, only those are listed with which something is wrong."""


def print_services(services: Sequence[ServiceItem], *, whole: bool) -> None:
    """Print exported services: all if they are at most `MOST_LISTED`, or with `whole`.

    Else only those with which something is wrong, and a table with the numbers of all and of ready
    ones in each namespace.
    """
    if whole or len(services) <= MOST_LISTED:
        print_table(services)
        return
    print_table([one for one in services if one.state != "good" or one.findings])
    counts: dict[str, Counter[str]] = {}
    for one in services:
        counts.setdefault(one.namespace, Counter())[one.state] += 1
    rows = [
        (namespace, str(states.total()), str(states["good"]))
        for namespace, states in sorted(counts.items())
    ]
    click.echo()
    click.echo(table(("NAMESPACE", "SERVICES", "READY"), rows))
    click.echo("  `-n NAMESPACE` lists those of a namespace, `-o wide` all of them")


def print_table(services: Sequence[ServiceItem]) -> None:
    """Print the table of exported services; nothing if there is none."""
    if not services:
        return
    rows = [
        (
            f"{one.namespace}/{one.name}",
            *_import_cells(one),
            ", ".join(f"{e.cluster} {_endpoints_cell(e)}" for e in one.exporters)
            or (_UNKNOWN if one.unknown else "-"),
        )
        for one in services
    ]
    click.echo()
    click.echo(table(("SERVICE", "TYPE", "PORTS", "EXPORTED BY", "ENDPOINTS READY"), rows))


def _import_cells(service: ServiceItem) -> tuple[str, str, str]:
    """Type, ports and exporters of a service; `-` where there are none.

    All three are `not known` if its imports could not be read. Lost exporters are left out.
    """
    if service.unknown:
        return (_UNKNOWN, _UNKNOWN, _UNKNOWN)
    return (
        service.type or "-",
        ", ".join(format_port(port) for port in service.ports) or "-",
        ", ".join(e.cluster for e in service.exporters if not e.lost) or "-",
    )


def _endpoints_cell(exporter: ServiceExporter) -> str:
    """`ready/all` endpoints; `not known` if they were not read, `lost` for a lost exporter."""
    if exporter.unknown:
        return _UNKNOWN
    return "lost" if exporter.lost else f"{exporter.ready}/{exporter.all}"


def json_document(service: ServiceItem) -> dict[str, Any]:
    """A service as it is in the JSON of `hanse status`.

    Where its imports could not be read, `unknown` has the reason, and type, ports, exporters and
    importers are null; so are endpoints of a cluster that were not read.
    """
    unknown = (
        {"unknown": service.unknown, **dict.fromkeys(("type", "ports", "exporters", "importers"))}
        if service.unknown
        else {}
    )
    return {
        "namespace": service.namespace,
        "name": service.name,
        "type": service.type,
        "state": service.state,
        "ports": port_documents(service.ports),
        "exporters": [one.cluster for one in service.exporters if not one.lost],
        "importers": list(service.importers),
        "endpoints": {
            one.cluster: None if one.unknown else {"ready": one.ready, "all": one.all}
            for one in service.exporters
        }
        or (None if service.unknown else {}),
        "problems": [
            {"cluster": p.cluster, "reason": p.reason, "message": p.message}
            for p in service.problems
        ],
        "findings": findings_document(service.findings),
        **unknown,
    }
