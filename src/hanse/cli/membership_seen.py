"""What a cluster tells about its federation: members, leaders, and what is wrong."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

from hanse.features.federation.claims import SUPERVISOR_MARK
from hanse.kube.requests import resource_path
from hanse.model.kinds.federation import ClusterClaim, Federation, spelled_value

PATHS = (
    resource_path(Federation.kind),
    resource_path(ClusterClaim.kind),
)


class MemberState(Struct, frozen=True):
    """How a member stands, as a supervisor tells it."""

    cluster: str
    reachable: bool
    leader: str
    since: str


class MembershipState(Struct, frozen=True):
    """A cluster's part in its federation."""

    name: str
    supervises: bool
    leaders: tuple[str, ...]
    members: tuple[MemberState, ...]
    troubles: tuple[str, ...]


def parse_membership(
    federations: dict[str, Any] | None,
    claims: dict[str, Any] | None,
) -> MembershipState | None:
    """What two lists tell; None where there is no federation."""
    found = (federations or {}).get("items") or []
    if not found:
        return None
    oldest = min(found, key=lambda one: str(one["metadata"].get("creationTimestamp")))
    status = oldest.get("status") or {}
    said = {
        str(one.get("name") or one["metadata"]["name"]).lower(): str(one.get("value"))
        for one in (claims or {}).get("items") or ()
    }
    supervises = spelled_value(said, SUPERVISOR_MARK) not in (None, "false")
    return MembershipState(
        name=oldest["metadata"]["name"],
        supervises=supervises,
        leaders=tuple(status.get("leaders") or ()),
        members=tuple(
            MemberState(m["clusterID"], bool(m.get("reachable")), m.get("leader", ""), m["since"])
            for m in status.get("members") or ()
        ),
        troubles=tuple(
            f"{one['reason']}: {one.get('message', '')}"
            for one in status.get("conditions") or ()
            if one.get("status") == "False"
        ),
    )


def document(seen: MembershipState | None) -> dict[str, Any] | None:
    """The same for programs."""
    if seen is None:
        return None
    return {
        "name": seen.name,
        "supervises": seen.supervises,
        "leaders": list(seen.leaders),
        "members": [msgspec.to_builtins(member) for member in seen.members],
        "troubles": list(seen.troubles),
    }


def show(seen: Sequence[tuple[str, MembershipState]]) -> None:
    """Who leads whom, and who reaches whom, as the supervisors tell it."""
    from hanse.cli.tables import table

    told = [(cluster, one) for cluster, one in seen if one.supervises]
    names = sorted({m.cluster for _, one in told for m in one.members})
    rows = []
    for name in names:
        known = {c: m for c, one in told for m in one.members if m.cluster == name}
        leaders = sorted({m.leader for m in known.values() if m.leader})
        away = [c for c, m in known.items() if not m.reachable]
        near = [c for c, m in known.items() if m.reachable]
        reached = ", ".join(near) or "-"
        if away:
            reached += click.style(f" (not from {', '.join(away)})", fg="yellow")
        rows.append((name, ", ".join(leaders) or click.style("nobody", fg="red"), reached))
    if rows:
        click.echo()
        click.echo(table(("MEMBER", "LED BY", "REACHED FROM"), rows))
    for cluster, one in seen:
        for trouble in one.troubles:
            reason, _, message = trouble.partition(": ")
            what = click.style(reason, fg="yellow")
            click.echo(f"! federation {one.name} in {cluster}: {what}: {message}")
