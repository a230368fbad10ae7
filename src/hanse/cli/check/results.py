"""The results of all checks before an installation, each with its remedy; pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from ipaddress import ip_address, ip_network
from itertools import combinations
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Raw, Struct

from hanse.cli.check.preview import ClusterPreview, IpRange
from hanse.cli.doctor.clusters import (
    MAX_SKEW,
    CheckContext,
    Finding,
    denied_permissions,
    unready_nodes,
    unsupported_version,
    wrong_clock,
)
from hanse.cli.inventory import ClusterInventory
from hanse.model.addresses import is_loopback_host
from hanse.model.json_input import decode_json
from hanse.model.kinds.hanse import ClusterSetSpec
from hanse.model.naming import ZONE
from hanse.model.summaries import first_of

Status = Literal["ok", "warning", "failed", "unknown"]
GLOBALNET = "globalingressips.submariner.io"
SERVICE_EXPORTS = "serviceexports.multicluster.x-k8s.io"


class CheckResult(Struct, frozen=True):
    """The result of one check, of a cluster or between clusters."""

    cluster: str
    check: str
    status: Status
    message: str
    remedy: str = ""


class Intended(Struct, frozen=True):
    """The installation that clusters are checked for."""

    context: CheckContext
    rules: ClusterSetSpec = ClusterSetSpec()
    broker: str = ""
    """The context of the broker; empty if it was not named."""


def check_previews(
    previews: Sequence[ClusterPreview], intended: Intended
) -> tuple[CheckResult, ...]:
    """All results: cluster by cluster, then between clusters."""
    return (
        *(result for preview in previews for result in _check_cluster(preview, intended)),
        *_check_between(previews, intended),
    )


def _check_cluster(preview: ClusterPreview, intended: Intended) -> Iterator[CheckResult]:
    """The results of one cluster; only a failed `API server` if it could not be read.

    API server, version, clock, rights, nodes and admission policies; only if it runs pods also
    ranges, DNS and other controllers.
    """
    name, found = preview.name, preview.inventory
    if not isinstance(found, ClusterInventory):
        remedy = f"kubectl --context {name} cluster-info"
        yield CheckResult(name, "API server", "failed", found.why, remedy)
        return
    yield CheckResult(name, "API server", "ok", f"{found.server} answers")
    for check, passed, findings in (
        ("version", f"Kubernetes {found.version}", unsupported_version),
        ("clock", f"within {MAX_SKEW.total_seconds():.0f} s of this machine's", wrong_clock),
        ("rights", "these credentials may install Hanse", denied_permissions),
        ("nodes", "all are ready", unready_nodes),
    ):
        yield _from_findings(name, check, passed, findings(found, intended.context))
    yield from _policies(preview, intended)
    if _runs_pods(preview):
        yield from _ranges(preview)
        yield from _dns(preview)
        yield from _other_controllers(preview)


def _runs_pods(preview: ClusterPreview) -> bool:
    """Whether a cluster has nodes, or its nodes could not be listed; False if it was not read."""
    found = preview.inventory
    return isinstance(found, ClusterInventory) and (found.nodes is None or found.nodes.all > 0)


def _from_findings(
    cluster: str, check: str, passed: str, findings: Iterable[Finding]
) -> CheckResult:
    """The first finding as a failed result; else that the check passed."""
    for finding in findings:
        return CheckResult(cluster, check, "failed", finding.problem, finding.remedy)
    return CheckResult(cluster, check, "ok", passed)


def _policies(preview: ClusterPreview, intended: Intended) -> Iterator[CheckResult]:
    """Whether ValidatingAdmissionPolicies are served, which separate members on the broker.

    If not: failed for the broker, or if none was named; else a warning. Unknown if not read.
    """
    check = "admission policies"
    if preview.policies_served is None:
        yield CheckResult(
            preview.name,
            check,
            "unknown",
            "it could not be read whether ValidatingAdmissionPolicy v1 is served",
            f"kubectl --context {preview.name} get validatingadmissionpolicies",
        )
        return
    if preview.policies_served:
        yield CheckResult(preview.name, check, "ok", "ValidatingAdmissionPolicy v1 is served")
        return
    needed = not intended.broker or preview.name == intended.broker
    yield CheckResult(
        preview.name,
        check,
        "failed" if needed else "warning",
        "ValidatingAdmissionPolicy v1 is not served: members could write each other's objects",
        "use Kubernetes 1.30 or newer for the broker, and do not switch the API off "
        "(--runtime-config)",
    )


def _ranges(preview: ClusterPreview) -> Iterator[CheckResult]:
    """One result each for service and pod ranges: ok, naming up to 4; unknown if none is known."""
    for kind, ranges in (("service", preview.service_ranges), ("pod", preview.pod_ranges)):
        check = f"{kind} ranges"
        if ranges:
            yield CheckResult(preview.name, check, "ok", first_of([str(one) for one in ranges], 4))
        else:
            yield CheckResult(
                preview.name,
                check,
                "unknown",
                f"the cluster does not say which {kind} ranges it has",
                f"make sure that no other cluster has the same {kind} range",
            )


def _dns(preview: ClusterPreview) -> Iterator[CheckResult]:
    """The result for the cluster's DNS, by the Corefiles of kube-system; no query is sent.

    Ok if there is one, with a remedy if none names our zone; a warning if there is none; unknown if
    the ConfigMaps could not be read.
    """
    if preview.corefiles is None:
        yield CheckResult(
            preview.name,
            "DNS stub",
            "unknown",
            "the ConfigMaps of kube-system could not be read",
            f"kubectl --context {preview.name} -n kube-system get configmaps",
        )
        return
    if not preview.corefiles:
        yield CheckResult(
            preview.name,
            "DNS stub",
            "warning",
            "no Corefile in kube-system: this is another DNS than CoreDNS, or managed elsewhere",
            f"let it forward {ZONE} to the Service hanse-system/hanse-dns once that is installed",
        )
        return
    name = next((n for n, text in preview.corefiles.items() if ZONE in text), "")
    first = name or min(preview.corefiles)
    said = f"forwards {ZONE}" if name else "can be extended"
    remedy = "" if name else "after the installation add what `hanse dns corefile ADDRESS` prints"
    yield CheckResult(preview.name, "DNS stub", "ok", f"ConfigMap {first} {said}", remedy)


def _other_controllers(preview: ClusterPreview) -> Iterator[CheckResult]:
    """A warning if ServiceExports are defined and not by us, by the definition's category.

    Unknown if the definitions could not be listed, else ok.
    """
    definitions = _definition_specs(preview)
    check = "other controllers"
    if definitions is None:
        yield CheckResult(
            preview.name,
            check,
            "unknown",
            "the CustomResourceDefinitions could not be listed",
            _list_definitions_command(preview.name),
        )
        return
    existing = definitions.get(SERVICE_EXPORTS)
    spec = decode_json(existing) if existing is not None else {}
    categories = spec.get("names", {}).get("categories") or ()
    if existing is None or "hanse" in categories:
        yield CheckResult(preview.name, check, "ok", "no other multi-cluster services")
        return
    yield CheckResult(
        preview.name,
        check,
        "warning",
        "ServiceExports are defined already: another controller may write ServiceImports",
        "stop it first, or keep to one; `hanse join` updates the definitions",
    )


def _check_between(previews: Sequence[ClusterPreview], intended: Intended) -> Iterator[CheckResult]:
    """Results between clusters that were read: ranges of those that run pods, clocks.

    Also whether the broker's URL is a loopback address, to which no connection is tried, and with
    two or more that run pods `routes`, always unknown: only `hanse verify` tries them.
    """
    read = [p for p in previews if isinstance(p.inventory, ClusterInventory)]
    members = [p for p in read if _runs_pods(p)]
    overlaps = [r for one, other in combinations(members, 2) for r in _overlaps(one, other)]
    yield from (_judge_overlap(o, members, intended) for o in overlaps)
    if len(members) > 1 and not overlaps:
        yield _no_overlap(members)
    yield from _clocks(read)
    yield from _broker_address(read, intended)
    if len(members) > 1:
        names = ", ".join(p.name for p in members)
        remedy = f"hanse verify --only routes --clusters {','.join(p.name for p in members)}"
        message = "packets between clusters need pods to try them"
        yield CheckResult(names, "routes", "unknown", message, remedy)


def _no_overlap(members: Sequence[ClusterPreview]) -> CheckResult:
    """Ok; unknown if a member does not say its service ranges, or anything of its pods'."""
    names = ", ".join(p.name for p in members)
    unsaid = [p.name for p in members if not all(ranges for _, ranges in _by_kind(p))]
    if not unsaid:
        return CheckResult(names, "overlaps", "ok", "no range of one is in another")
    message = f"no known range of one is in another; {first_of(unsaid)} does not say all of its own"
    remedy = "make sure that no two clusters have the same ranges"
    return CheckResult(names, "overlaps", "unknown", message, remedy)


class Overlap(Struct, frozen=True):
    """A range of one cluster that overlaps one of another."""

    one: str
    kind: str
    range: str
    other: str
    other_kind: str
    other_range: str


def _overlaps(one: ClusterPreview, other: ClusterPreview) -> Iterator[Overlap]:
    """The first overlap for each pair of kinds (service, pod) of two clusters."""
    for kind, ranges in _by_kind(one):
        for other_kind, others in _by_kind(other):
            shared = next(
                (
                    (a, b)
                    for a in ranges
                    for b in others
                    if a.version == b.version and a.overlaps(b)
                ),
                None,
            )
            if shared is not None:
                a, b = map(str, shared)
                yield Overlap(one.name, kind, a, other.name, other_kind, b)


def _by_kind(preview: ClusterPreview) -> Iterator[tuple[str, tuple[IpRange, ...]]]:
    """The ranges by kind; addresses of pods, if the pod ranges are not known."""
    yield "service", preview.service_ranges
    yield "pod", preview.pod_ranges or _as_ranges(preview.pod_addresses)


def _as_ranges(addresses: Iterable[str]) -> tuple[IpRange, ...]:
    """Ranges of one address each, for clusters that do not say their pod ranges."""
    return tuple(ip_network(ip_address(text)) for text in addresses)


def _judge_overlap(
    overlap: Overlap, members: Sequence[ClusterPreview], intended: Intended
) -> CheckResult:
    """Failed; ok if both have Globalnet, or both are service ranges and pods are published.

    Unknown if neither is known to lack Globalnet, as definitions could not be listed.
    """
    names = f"{overlap.one}, {overlap.other}"
    message = (
        f"{overlap.kind} range {overlap.range} of {overlap.one} overlaps "
        f"{overlap.other_kind} range {overlap.other_range} of {overlap.other}"
    )
    definitions = {
        p.name: _definition_specs(p) for p in members if p.name in (overlap.one, overlap.other)
    }
    unlisted = [name for name, found in definitions.items() if found is None]
    without = [
        n for n, found in definitions.items() if found is not None and GLOBALNET not in found
    ]
    if not (without or unlisted):
        return CheckResult(names, "overlaps", "ok", f"{message}; both use Globalnet")
    only_services = overlap.kind == overlap.other_kind == "service"
    if only_services and intended.rules.endpoint_source == "pods":
        return CheckResult(names, "overlaps", "ok", f"{message}; no Service's address is published")
    remedy = "give one of them another range, or use Globalnet"
    if only_services:
        remedy += "; or publish pods: --profile kep-1645"
    if not without:
        message += f"; whether {first_of(unlisted)} has Globalnet is not known"
        return CheckResult(
            names, "overlaps", "unknown", message, _list_definitions_command(unlisted[0])
        )
    return CheckResult(names, "overlaps", "failed", message, remedy)


def _definition_specs(preview: ClusterPreview) -> dict[str, Raw] | None:
    """The specs of a cluster's CustomResourceDefinitions, as JSON, by name.

    None if they could not be listed, or the cluster could not be read.
    """
    found = preview.inventory
    return found.definitions if isinstance(found, ClusterInventory) else None


def _list_definitions_command(cluster: str) -> str:
    """The `kubectl` command, as a remedy, that lists the CustomResourceDefinitions of a cluster."""
    return f"kubectl --context {cluster} get customresourcedefinitions"


def _clocks(read: Sequence[ClusterPreview]) -> Iterator[CheckResult]:
    """Failed if two clusters' clocks are more than `MAX_SKEW` apart, else ok.

    No result for a single cluster.
    """
    skews = {p.name: p.inventory.skew for p in read if isinstance(p.inventory, ClusterInventory)}
    if len(skews) < 2:
        return
    first, last = min(skews, key=skews.__getitem__), max(skews, key=skews.__getitem__)
    apart: timedelta = skews[last] - skews[first]
    if apart > MAX_SKEW:
        message = f"{last} is {apart.total_seconds():.0f} s ahead of {first}"
        remedy = "synchronise the clocks of their nodes, e.g. `timedatectl set-ntp true`"
        yield CheckResult(f"{first}, {last}", "clocks", "failed", message, remedy)
    else:
        yield CheckResult(", ".join(skews), "clocks", "ok", "they agree")


def _broker_address(read: Sequence[ClusterPreview], intended: Intended) -> Iterator[CheckResult]:
    """Failed if the broker's server is a loopback address and that of another is not, else ok.

    Unknown if no broker was named; no result if the broker could not be read. No connection is
    tried.
    """
    servers = {
        p.name: p.inventory.server for p in read if isinstance(p.inventory, ClusterInventory)
    }
    check = "broker address"
    if not intended.broker:
        remedy = "name the broker's context with --broker"
        yield CheckResult("broker", check, "unknown", "no broker was named", remedy)
        return
    server = servers.get(intended.broker)
    if server is None:
        return  # it was not read, which is a result of its own
    others = [url for name, url in servers.items() if name != intended.broker]
    if _is_loopback(server) and not all(map(_is_loopback, others)):
        message = f"{server} is this machine's own address: pods of other clusters cannot use it"
        remedy = "use a context with an address that all clusters reach, port included"
        yield CheckResult(intended.broker, check, "failed", message, remedy)
        return
    yield CheckResult(intended.broker, check, "ok", f"{server}; all pods of agents must reach it")


def _is_loopback(server: str) -> bool:
    """Whether a URL's host is a loopback address, or localhost."""
    return is_loopback_host(urlsplit(server).hostname or "")
