"""What the doctor and the console check beside views, with credentials for every cluster."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from hanse.cli.doctor.clusters import CheckContext, check_clusters
from hanse.cli.doctor.clusters import Finding as Check
from hanse.cli.doctor.objects import check_objects
from hanse.cli.fleet import ClusterRead
from hanse.cli.inventory import InventoryResult
from hanse.model.broker_namespace import lost_broker_namespace
from hanse.model.crds import crds
from hanse.model.facts import Role
from hanse.model.findings import Finding, Ref, Remedy, Severity, cluster_ref
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.objects import ClusterId
from hanse.model.refused_writes import lease_refusers
from hanse.model.snapshot import Change, Watch
from hanse.model.view import Item

_DEGRADED = ("CrdMissing", "GuardMissing", "LeaderMissing", "LeaseMissing", "WebhookDown")
_OUTAGE = ("DnsDown",)
_KEY = "fleet"


class CheckedFleet(Struct, frozen=True):
    """What checks need: the inventories and readings of clusters at one time."""

    inventories: Sequence[InventoryResult]
    reads: Collection[ClusterRead]
    now: datetime


class ChecksView:
    """The findings of all checks, as a view among those of features."""

    name = "checks"
    reads: tuple[Watch, ...] = ()

    def __init__(self, take: Callable[[], CheckedFleet], *, local: bool) -> None:
        """Nothing is checked until `render`, which calls `take`; `local` for a local federation."""
        self._take = take
        self._local = local
        self._definitions = crds()
        self._compared: dict[tuple[str, bytes], bool] = {}

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:  # noqa: ARG002 - as every view
        """One key: some checks compare clusters."""
        return (_KEY,)

    def keys_for(self, change: Change) -> Iterable[str]:  # noqa: ARG002 - as every view
        """No keys: clusters are read again and again, and all is judged after that."""
        return ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> Item:  # noqa: ARG002 - there is one
        """One item with the findings of all checks over what `take` returns; `key` is not used.

        The objects of readings that failed are not checked. The snapshot only tells causes of
        findings, and the ids of clusters.
        """
        fleet = self._take()
        context = CheckContext(fleet.now, self._definitions, self._local, self._compared)
        found = (
            *check_clusters(fleet.inventories, context),
            *check_objects([one for one in fleet.reads if not one.failure], fleet.now),
        )
        brokers = snapshot.clusters_with_role(Role.BROKER)
        lost = {cluster_ref(one) for one in brokers if lost_broker_namespace(one, snapshot)}
        ids = {snapshot.context(one): one for one in snapshot.by_agent}
        findings = (as_finding(one, lost, ids) for one in found)
        return Item(findings=tuple(_with_refusers(one, snapshot) for one in findings))


def _severity(code: str) -> Severity:
    """OUTAGE for codes in `_OUTAGE`, DEGRADED for those in `_DEGRADED`, RISK for all others."""
    if code in _OUTAGE:
        return Severity.OUTAGE
    return Severity.DEGRADED if code in _DEGRADED else Severity.RISK


def _with_refusers(one: Finding, snapshot: MultiClusterSnapshot) -> Finding:
    """A LeaderMissing with whoever refuses writes in its cluster as causes; others unchanged."""
    if one.code != "LeaderMissing":
        return one
    return replace(one, caused_by=(*one.caused_by, *lease_refusers(one.subject.cluster, snapshot)))


def as_finding(check: Check, lost: Collection[Ref], ids: Mapping[str, ClusterId]) -> Finding:
    """A check's finding as a `Finding` of the model; its remedy is a command only if `pasteable`.

    Its cluster is the cause if it is `of_agent`, or `of_namespace` and in `lost`, the brokers
    without their namespace. `ids` are those of clusters by context: checks name contexts.
    """
    cluster = ids.get(check.cluster, check.cluster)
    explained = check.of_agent or (check.of_namespace and cluster_ref(cluster) in lost)
    return Finding(
        code=check.code,
        severity=_severity(check.code),
        subject=replace(
            check.subject or Ref("APIServer", check.cluster),
            cluster=cluster,
        ),
        summary=f"{cluster}: {check.problem}",
        remedy=Remedy(check.advice, (check.remedy,)) if check.pasteable else Remedy(check.remedy),
        caused_by=(cluster_ref(cluster),) if explained else (),
    )
