"""What can be wrong with a cluster, and the command that mends it; pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, assert_never

from msgspec import Struct

from hanse.cli.inventory import ClusterInventory, InventoryResult, Permission, UnreadCluster
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import Wire

OLDEST_MINOR, NEWEST_MINOR = 30, 35
SOON = timedelta(days=7)
SKEW = timedelta(seconds=2)

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
"""What whoever sets up or serves a cluster must be allowed to do."""

_VERSION = re.compile(r"v?1\.(\d+)")


class Finding(Struct, frozen=True):
    """Something wrong, where, and what to do about it."""

    cluster: str
    problem: str
    remedy: str


class Report(Struct, frozen=True):
    """The clusters that were looked at, and all that is wrong in them."""

    clusters: tuple[str, ...]
    findings: tuple[Finding, ...]


class CheckContext(Struct, frozen=True):
    """What a look is judged by."""

    now: datetime
    definitions: Sequence[Wire]
    local: bool = False
    """Whether the clusters are those of a local federation, which `hanse local` can mend."""


def findings(seen: Iterable[InventoryResult], known: CheckContext) -> list[Finding]:
    """Everything that is wrong, cluster by cluster."""
    found: list[Finding] = []
    found_in = list(seen)
    for one in found_in:
        match one:
            case UnreadCluster():
                found.append(_unanswered(one, known))
            case ClusterInventory():
                found += [finding for check in _CHECKS for finding in check(one, known)]
            case _:
                assert_never(one)
    looks = [one for one in found_in if isinstance(one, ClusterInventory)]
    return [*found, *_exports(looks), *_foreign_imports(looks)]


def _exports(looks: Sequence[ClusterInventory]) -> Iterator[Finding]:
    """Exports in trouble; what several clusters tell of one in the same words is told once."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for look in looks:
        for export in look.services.exports if look.services is not None else ():
            if export.trouble:
                said = (export.namespace, export.name, export.trouble)
                told.setdefault(said, []).append(look.name)
    for (namespace, name, trouble), (first, *others) in told.items():
        also = f" (also in {', '.join(others)})" if others else ""
        yield Finding(
            first,
            f"the export of {namespace}/{name}{also}: {trouble}",
            f"kubectl --context {first} -n {namespace} describe serviceexport {name}",
        )


def _foreign_imports(looks: Sequence[ClusterInventory]) -> Iterator[Finding]:
    """Imports that somebody else made under the name of a service that the fleet exports."""
    served = [(look, look.services) for look in looks if look.services is not None]
    exported = {(e.namespace, e.name) for _, services in served for e in services.exports}
    for look, services in served:
        for namespace, name in services.foreign if not look.is_broker else ():
            if (namespace, name) in exported:
                yield Finding(
                    look.name,
                    f"{namespace}/{name} is not imported: a ServiceImport of that name was not "
                    "made by Hanse",
                    f"kubectl --context {look.name} -n {namespace} delete serviceimport {name}",
                )


def _unanswered(seen: UnreadCluster, known: CheckContext) -> Finding:
    match seen.fault:
        case "credentials":
            remedy = (
                f"see what context {seen.name} says: kubectl config view --minify --context "
                f"{seen.name}; then log in anew, or mend its cluster, user or files"
            )
        case "silence" if known.local:
            remedy = f"hanse local start {seen.name}"
        case _:
            remedy = f"kubectl --context {seen.name} cluster-info"
    return Finding(seen.name, seen.why, remedy)


def _old_credentials(look: ClusterInventory, known: CheckContext) -> Iterator[Finding]:
    if look.expires is not None and look.expires - known.now < SOON:
        days = max((look.expires - known.now).days, 0)
        when = f"{look.expires:%Y-%m-%d %H:%M} UTC"
        yield Finding(
            look.name,
            f"the credentials end in {days} days, on {when}",
            f"log in anew as your cluster's provider says, or: kubectl config set-credentials "
            f"of the user of context {look.name}",
        )


def _version(look: ClusterInventory, known: CheckContext) -> Iterator[Finding]:  # noqa: ARG001 - every check's signature
    said = _VERSION.match(look.version)
    if said is None or not OLDEST_MINOR <= int(said[1]) <= NEWEST_MINOR:
        span = f"1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
        yield Finding(
            look.name,
            f"Kubernetes {look.version or 'of unknown version'} is not one of {span}",
            f"see what can be done: kubectl --context {look.name} version; `kubeadm upgrade plan`, "
            "or your provider's upgrade",
        )


def _skew(look: ClusterInventory, known: CheckContext) -> Iterator[Finding]:  # noqa: ARG001 - every check's signature
    if abs(look.skew) > SKEW:
        way = "ahead of" if look.skew > timedelta(0) else "behind"
        yield Finding(
            look.name,
            f"its clock is {abs(look.skew).total_seconds():.0f} s {way} this machine's",
            "synchronise both clocks, e.g. `timedatectl set-ntp true`",
        )


def _definitions(look: ClusterInventory, known: CheckContext) -> Iterator[Finding]:
    if look.definitions is None:
        return  # the rights say why
    remedy = f"hanse crds | kubectl --context {look.name} apply -f -"
    missing, old = [], []
    for wanted in known.definitions:
        name = wanted["metadata"]["name"]
        standing = look.definitions.get(name)
        if standing is None:
            missing.append(name)
        elif not contains(standing["spec"], wanted["spec"]):
            old.append(name)
    if missing:
        yield Finding(look.name, f"definitions are missing: {_few(missing)}", remedy)
    if old:
        yield Finding(look.name, f"definitions are not of this version: {_few(old)}", remedy)


def _agent(look: ClusterInventory, known: CheckContext) -> Iterator[Finding]:  # noqa: ARG001 - every check's signature
    if look.is_broker and look.agent is None:
        return
    if look.agent is None:
        yield Finding(
            look.name,
            f"no agent has ever run here: there is no Lease {SYSTEM_NAMESPACE}/{AGENT}",
            f"hanse agent --context {look.name} --cluster-id {look.name}",
        )
    elif not look.agent.alive:
        silent = look.agent.silent
        since = f"silent for {silent.total_seconds():.0f} s" if silent.days < 365 else "not running"
        yield Finding(
            look.name,
            f"its agent is {since}",
            f"kubectl --context {look.name} -n {SYSTEM_NAMESPACE} get pods,leases",
        )


def _nodes(look: ClusterInventory, known: CheckContext) -> Iterator[Finding]:  # noqa: ARG001 - every check's signature
    if look.nodes is not None and look.nodes.ready < look.nodes.all:
        lost = look.nodes.all - look.nodes.ready
        yield Finding(
            look.name,
            f"{lost} of {look.nodes.all} nodes are not ready",
            f"kubectl --context {look.name} describe nodes",
        )


def _rights(look: ClusterInventory, known: CheckContext) -> Iterator[Finding]:  # noqa: ARG001 - every check's signature
    if look.denied:
        listed = _few([f"{right.verb} {right.resource}" for right in look.denied])
        yield Finding(
            look.name,
            f"these credentials may not {listed}",
            f"kubectl --context {look.name} auth can-i --list",
        )


_CHECKS: tuple[Callable[[ClusterInventory, CheckContext], Iterator[Finding]], ...] = (
    _old_credentials,
    _version,
    _skew,
    _definitions,
    _agent,
    _nodes,
    _rights,
)


def contains(standing: Any, wanted: Any) -> bool:
    """Whether all of `wanted` stands there; what a server adds to it does not count."""
    if isinstance(wanted, Mapping):
        return isinstance(standing, Mapping) and all(
            key in standing and contains(standing[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(standing, list)
            and len(standing) == len(wanted)
            and all(contains(one, other) for one, other in zip(standing, wanted, strict=True))
        )
    return bool(standing == wanted)


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
