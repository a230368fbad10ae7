"""Drain a site: move its traffic to the others in the leader's policy, and back."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, open_client
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.gslb.view import GslbView, read_gslb
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.model.json_input import decode_json
from hanse.model.kinds.gslb import (
    NAMESPACE,
    GlobalDeploymentPolicy,
    GlobalDeploymentPolicySpec,
    GSLBHostRule,
    TrafficSplit,
)
from hanse.model.objects import Wire

DRAINED = "gslb.hanse.dev/drained"
"""Annotation of a policy: the priorities of drained sites before, as JSON."""
LOWEST = 0

Echo = Callable[[str], None]


class DrainRequest(Struct, frozen=True):
    """The site to drain, or to bring back."""

    site: str
    back: bool = False
    dry_run: bool = False


class DrainPlan(Struct, frozen=True):
    """The patch of the policy, and what it does; no patch if nothing is to change."""

    change: Wire | None
    effect: str
    notes: tuple[str, ...] = ()

    def lines(self, *, dry_run: bool) -> list[str]:
        """What the user is told; in a dry run a change is one that would be made."""
        would = "would " if dry_run and self.change is not None else ""
        return [f"{would}{self.effect}", *self.notes]


async def drain_or_restore_site(
    request: DrainRequest, clusters: Sequence[ClusterAccess], echo: Echo
) -> None:
    """Echo what `plan_drain` plans and patch the leader's policy; a dry run only echoes.

    Raises `InputError` without a single leader and policy, or as `plan_drain` does, and
    `CommandFailed` if the leader's cluster fails. Other clusters that cannot be read are only
    noted.
    """
    view = await read_gslb(clusters)
    leader = _only_leader(view)
    access = next(one for one in clusters if one.name == leader)
    try:
        async with open_client(access.credentials) as client:
            policy = await _only_policy(client, leader)
            rules = (await client.list(GSLBHostRule, namespace=NAMESPACE)).objects
            plan = plan_drain(request, policy, rules)
            for line in plan.lines(dry_run=request.dry_run):
                echo(line)
            if plan.change is not None and not request.dry_run:
                name = policy.metadata.name
                await client.patch(GlobalDeploymentPolicy, name, NAMESPACE, plan.change)
    except KubeError as error:
        raise CommandFailed(f"{leader}: {error}") from None
    for site in view.sites:
        if site.unreachable:
            echo(f"note: {site.name} cannot be reached: {site.unreachable}")


def plan_drain(
    request: DrainRequest, policy: GlobalDeploymentPolicy, rules: Sequence[GSLBHostRule]
) -> DrainPlan:
    """The patch that gives a site priority 0, or with `back` the one recorded before; no request.

    No patch if it is in that state already. Raises `InputError` for a site that the policy does not
    match, or if all others are drained.
    """
    spec, site = policy.spec, request.site
    matched = [match.cluster for match in spec.match_clusters]
    if site not in matched:
        raise InputError(
            f"the policy matches no cluster {site!r}; it matches: {', '.join(matched)}"
        )
    before = _recorded_priorities(policy)
    if request.back:
        if site not in before:
            return DrainPlan(None, f"{site} is not drained; nothing to do")
        priority = before.pop(site)
        text = f"give {site} its priority {priority} again"
        return DrainPlan(_priority_patch(spec, site, priority, before), text)
    if site in before:
        return DrainPlan(None, f"{site} is drained already; nothing to do")
    if not [name for name in matched if name != site and name not in before]:
        raise InputError(f"no other cluster would serve; bring one back before {site} is drained")
    before[site] = next((s.priority for s in spec.traffic_split if s.cluster == site), 10)
    text = (
        f"give {site} the lowest priority: it serves only while all others are down; "
        f"`hanse gslb drain {site} --back` undoes it"
    )
    return DrainPlan(
        _priority_patch(spec, site, LOWEST, before), text, _override_notes(site, rules)
    )


def _override_notes(site: str, rules: Sequence[GSLBHostRule]) -> tuple[str, ...]:
    """Notes on rules that give a site a priority of their own."""
    return tuple(
        f"note: GSLBHostRule {rule.metadata.name} sets the priority of {site} itself, so "
        f"{rule.spec.fqdn} is not drained; change it there"
        for rule in rules
        if any(s.cluster == site and s.priority is not None for s in rule.spec.traffic_split)
    )


def _priority_patch(
    spec: GlobalDeploymentPolicySpec, site: str, priority: int, before: dict[str, int]
) -> Wire:
    """The merge patch that gives a site this priority in trafficSplit, added if it is not there.

    Also of the annotation with the priorities `before` a drain, which is removed if there are none.
    """
    weights = {s.cluster: s for s in spec.traffic_split}
    weights.setdefault(site, TrafficSplit(cluster=site))
    split = [
        {
            "cluster": s.cluster,
            "weight": s.weight,
            "priority": priority if s.cluster == site else s.priority,
        }
        for s in weights.values()
    ]
    record = msgspec.json.encode(before).decode() if before else None
    return {"metadata": {"annotations": {DRAINED: record}}, "spec": {"trafficSplit": split}}


def _recorded_priorities(policy: GlobalDeploymentPolicy) -> dict[str, int]:
    """The former priorities of drained sites, from an annotation; empty if it cannot be read."""
    text = policy.metadata.annotations.get(DRAINED, "")
    try:
        return decode_json(text, type=dict[str, int]) if text else {}
    except msgspec.DecodeError:
        return {}


def _only_leader(view: GslbView) -> str:
    """The name of the only cluster that leads; raises `InputError` for none or several."""
    match [site.name for site in view.leaders]:
        case [leader]:
            return leader
        case []:
            raise InputError("no cluster of the kubeconfig leads; run `hanse gslb promote CLUSTER`")
        case several:
            raise InputError(f"{' and '.join(several)} lead both; demote one of them first")


async def _only_policy(client: Client, leader: str) -> GlobalDeploymentPolicy:
    """Read the leader's only GlobalDeploymentPolicy; raises `InputError` for none or several."""
    policies = (await client.list(GlobalDeploymentPolicy, namespace=NAMESPACE)).objects
    if len(policies) != 1:
        raise InputError(
            f"{leader} has {len(policies)} GlobalDeploymentPolicies in {NAMESPACE}; leave one there"
        )
    return policies[0]
