"""Members of Federations in `hanse status`."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from hanse.cli.inventory import MembershipState
from hanse.cli.tables import table


def json_document(membership: MembershipState | None) -> dict[str, Any] | None:
    """The membership as it is in the JSON of `hanse status`."""
    if membership is None:
        return None
    return {
        "name": membership.name,
        "supervises": membership.supervises,
        "leaders": list(membership.leaders),
        "members": [msgspec.to_builtins(member) for member in membership.members],
        "troubles": list(membership.troubles),
    }


def print_table(clusters: Sequence[tuple[str, MembershipState]]) -> None:
    """Print who leads each member and which supervisors reach it, and failed conditions."""
    supervisors = [(cluster, one) for cluster, one in clusters if one.supervises]
    names = sorted({m.cluster for _, one in supervisors for m in one.members})
    rows = []
    for name in names:
        known = {c: m for c, one in supervisors for m in one.members if m.cluster == name}
        leaders = sorted({m.leader for m in known.values() if m.leader})
        unreached = [c for c, m in known.items() if not m.reachable]
        reached_from = [c for c, m in known.items() if m.reachable]
        cell = ", ".join(reached_from) or "-"
        if unreached:
            cell += click.style(f" (not from {', '.join(unreached)})", fg="yellow")
        rows.append((name, ", ".join(leaders) or click.style("nobody", fg="red"), cell))
    if rows:
        click.echo()
        click.echo(table(("MEMBER", "LED BY", "REACHED FROM"), rows))
    for cluster, one in clusters:
        for trouble in one.troubles:
            reason, _, message = trouble.partition(": ")
            label = click.style(reason, fg="yellow")
            click.echo(f"! federation {one.name} in {cluster}: {label}: {message}")
