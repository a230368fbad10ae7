"""Findings from cluster inventories, each with a remedy; pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Raw, Struct

from hanse import app
from hanse.cli.apply import is_applied
from hanse.cli.inventory import ClusterInventory, InventoryResult
from hanse.cli.permissions import Permission
from hanse.model.crds import OWN_KINDS
from hanse.model.findings import Ref
from hanse.model.json_input import decode_json
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Wire
from hanse.model.summaries import first_of

OLDEST_MINOR, NEWEST_MINOR = 30, 35
EXPIRY_WARNING = timedelta(days=7)
MAX_SKEW = timedelta(seconds=2)

REQUIRED_PERMISSIONS = (
    Permission("list", "namespaces"),
    Permission("watch", "services"),
    Permission("create", "services"),
    Permission("watch", "endpointslices", "discovery.k8s.io"),
    Permission("create", "endpointslices", "discovery.k8s.io"),
    Permission("watch", "serviceexports", "multicluster.x-k8s.io"),
    Permission("update", "leases", "coordination.k8s.io", SYSTEM_NAMESPACE),
    Permission("list", "customresourcedefinitions", "apiextensions.k8s.io"),
)
"""What the credentials of an installer or of an agent must allow."""

_VERSION = re.compile(r"v?1\.(\d+)")


class Finding(Struct, frozen=True):
    """A problem in a cluster, and its remedy."""

    cluster: str
    problem: str
    remedy: str
    code: str = "Check"
    subject: Ref | None = None
    """What is wrong, without its cluster; the cluster's API server if it is no object."""
    pasteable: bool = False
    """Whether the remedy is a command as it stands."""
    advice: str = ""
    """What else can be done than the command."""
    of_agent: bool = False
    """Whether what is wrong with the cluster or its agent explains it."""
    of_namespace: bool = False
    """Whether the loss of the broker's namespace explains it."""


class CheckContext(Struct, frozen=True):
    """What inventories are checked against."""

    now: datetime
    definitions: Sequence[Wire]
    local: bool = False
    """Whether the clusters are those of a local federation, which `hanse local` can mend."""
    compared: dict[tuple[str, bytes], bool] = {}
    """Whether a definition is of this version, by name and spec: most clusters have the same."""

    def is_current(self, wanted: Wire, existing: Raw) -> bool:
        """Whether the spec of an existing definition has all that ours has (`is_applied`).

        The result is kept in `compared`, by name and existing spec.
        """
        key = (wanted["metadata"]["name"], bytes(existing))
        if key not in self.compared:
            self.compared[key] = is_applied(
                {"spec": decode_json(existing)}, {"spec": wanted["spec"]}
            )
        return self.compared[key]


def check_clusters(inventories: Iterable[InventoryResult], context: CheckContext) -> list[Finding]:
    """The findings of each cluster's inventory alone; clusters that were not read have none.

    Nodes that are not ready are no finding here.
    """
    read = (one for one in inventories if isinstance(one, ClusterInventory))
    return [finding for one in read for check in _CHECKS for finding in check(one, context)]


def _old_credentials(cluster: ClusterInventory, context: CheckContext) -> Iterator[Finding]:
    """TokenExpiring: our own credentials expire within `EXPIRY_WARNING`, or have expired."""
    if cluster.expires is not None and cluster.expires - context.now < EXPIRY_WARNING:
        days = max((cluster.expires - context.now).days, 0)
        when = f"{cluster.expires:%Y-%m-%d %H:%M} UTC"
        yield Finding(
            cluster.name,
            f"the credentials end in {days} days, on {when}",
            f"log in anew as your cluster's provider says, or: kubectl config set-credentials "
            f"of the user of context {cluster.name}",
            "TokenExpiring",
            Ref("Credentials", cluster.name),
        )


def _ending_certificate(cluster: ClusterInventory, context: CheckContext) -> Iterator[Finding]:
    """CertificateExpiring: the API server's certificate ends within `EXPIRY_WARNING`, or has ended.

    For one that lives for less than four times as long: within a quarter of its lifetime, as such
    are renewed by programs. Nothing if the certificate is not known.
    """
    found = cluster.certificate
    if found is None:
        return
    remaining = found.not_after - context.now
    if remaining < min(EXPIRY_WARNING, (found.not_after - found.not_before) / 4):
        days = max(remaining.days, 0)
        yield Finding(
            cluster.name,
            f"the certificate of its API server ends in {days} days, on "
            f"{found.not_after:%Y-%m-%d %H:%M} UTC: nobody reaches it after that",
            "renew it, or ask your provider; of kubeadm's: `kubeadm certs renew all` on each "
            "control plane node, after which kube-apiserver is started anew there",
            "CertificateExpiring",
        )


def unsupported_version(cluster: ClusterInventory, context: CheckContext) -> Iterator[Finding]:  # noqa: ARG001 - every check's signature
    """VersionUnsupported: Kubernetes is not 1.`OLDEST_MINOR` to 1.`NEWEST_MINOR`, or not known."""
    matched = _VERSION.match(cluster.version)
    if matched is None or not OLDEST_MINOR <= int(matched[1]) <= NEWEST_MINOR:
        span = f"1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
        yield Finding(
            cluster.name,
            f"Kubernetes {cluster.version or 'of unknown version'} is not one of {span}",
            f"see what can be done: kubectl --context {cluster.name} version; "
            "`kubeadm upgrade plan`, or your provider's upgrade",
            "VersionUnsupported",
        )


def wrong_clock(cluster: ClusterInventory, context: CheckContext) -> Iterator[Finding]:  # noqa: ARG001 - every check's signature
    """ClockSkew: the API server's clock differs from this machine's by more than `MAX_SKEW`."""
    if abs(cluster.skew) > MAX_SKEW:
        direction = "ahead of" if cluster.skew > timedelta(0) else "behind"
        yield Finding(
            cluster.name,
            f"its clock is {abs(cluster.skew).total_seconds():.0f} s {direction} this machine's",
            "synchronise both clocks, e.g. `timedatectl set-ntp true`",
            "ClockSkew",
        )


def _definitions(cluster: ClusterInventory, context: CheckContext) -> Iterator[Finding]:
    """CrdMissing for definitions that the features need, CrdOld for those that differ from ours.

    At most one of each. Definitions of a newer release serve this one, too. Nothing where they
    could not be listed.
    """
    if cluster.definitions is None:
        return  # the check of permissions says why
    remedy = f"hanse crds | kubectl --context {cluster.name} apply -f -"
    needed = _needed_definitions(cluster)
    missing, old = [], []
    for wanted in context.definitions:
        name = wanted["metadata"]["name"]
        existing = cluster.definitions.get(name)
        if existing is None:
            missing += [name] if name in needed else []
        elif name not in cluster.newer_definitions and not context.is_current(wanted, existing):
            old.append(name)
    if missing:
        yield Finding(
            cluster.name,
            f"definitions are missing: {first_of(missing)}",
            remedy,
            "CrdMissing",
            Ref("CustomResourceDefinition", missing[0]),
            pasteable=True,
        )
    if old:
        yield Finding(
            cluster.name,
            f"definitions are not of this version: {first_of(old)}",
            remedy,
            "CrdOld",
            Ref("CustomResourceDefinition", old[0]),
            pasteable=True,
        )


def _needed_definitions(cluster: ClusterInventory) -> frozenset[str]:
    """The names of the CustomResourceDefinitions that the features need; a broker needs all."""
    kinds = (
        OWN_KINDS if cluster.is_broker else app.own_kinds(app.Options(features=cluster.features))
    )
    return frozenset(kind.kind.definition for kind in kinds)


def unready_nodes(cluster: ClusterInventory, context: CheckContext) -> Iterator[Finding]:  # noqa: ARG001 - every check's signature
    """A finding if some nodes are not Ready; none where nodes could not be listed."""
    if cluster.nodes is not None and cluster.nodes.ready < cluster.nodes.all:
        lost = cluster.nodes.all - cluster.nodes.ready
        yield Finding(
            cluster.name,
            f"{lost} of {cluster.nodes.all} nodes are not ready",
            f"kubectl --context {cluster.name} describe nodes",
        )


def denied_permissions(cluster: ClusterInventory, context: CheckContext) -> Iterator[Finding]:  # noqa: ARG001 - every check's signature
    """RightMissing: what the credentials that we used may not do, by access reviews."""
    if cluster.denied:
        listed = first_of([f"{right.verb} {right.resource}" for right in cluster.denied])
        yield Finding(
            cluster.name,
            f"these credentials may not {listed}",
            f"kubectl --context {cluster.name} auth can-i --list",
            "RightMissing",
            Ref("Credentials", cluster.name),
        )


_CHECKS: tuple[Callable[[ClusterInventory, CheckContext], Iterator[Finding]], ...] = (
    _old_credentials,
    _ending_certificate,
    unsupported_version,
    wrong_clock,
    _definitions,
    denied_permissions,
)
