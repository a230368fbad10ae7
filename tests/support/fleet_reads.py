"""Clusters as a person reads them, so that views can be asked what is wrong."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hanse.app.views import examine, reads
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.kube.watch_events import Listed
from hanse.model.facts import Role
from hanse.model.findings import Finding
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec, ManagedFieldsEntry
from hanse.model.objects import Object
from hanse.model.snapshot import Watch

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def lease(
    name: str, namespace: str, holder: str, age: float = 1, *, written: float | None = None
) -> Lease:
    """A Lease that was renewed so many seconds ago; `written` if the API server says when, too."""
    at = (NOW - timedelta(seconds=age)).isoformat()
    began = (NOW - timedelta(hours=1)).isoformat()
    spec = LeaseSpec(
        holder_identity=holder, lease_duration_seconds=15, renew_time=at, acquire_time=began
    )
    entry = ManagedFieldsEntry(time=NOW - timedelta(seconds=written or 0))
    fields = (entry,) if written is not None else ()
    meta = LeaseMeta(name=name, namespace=namespace, managed_fields=fields)
    return Lease(metadata=meta, spec=spec)


def read(name: str, *objects: Object, agent: float | None = 1, **fields: Any) -> ClusterRead:
    """A cluster whose agent renewed its Lease so many seconds ago; None if it has none."""
    if agent is not None:
        objects = (*objects, lease("hanse-agent", "hanse-system", f"{name}_0", agent))
    watches = (*reads(), Watch(Role.LOCAL, Lease))
    lists = {w: Listed(tuple(o for o in objects if type(o) is w.kind), "1") for w in watches}
    return ClusterRead(name, lists, **fields)


def findings(*reads: ClusterRead, local: bool = True) -> tuple[Finding, ...]:
    return examine(build_fleet(reads, NOW, local=local)).findings
