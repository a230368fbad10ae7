"""The lists that doctor reads of each cluster beside those that views need."""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from hanse import app
from hanse.cli.fleet import ClusterRead, SelectedList
from hanse.cli.inventory import BESIDE_OBJECTS
from hanse.features.federation.manifests import SUPERVISOR_LABEL
from hanse.features.gslb.names import SECRET
from hanse.model.broker_namespace import MEMBER
from hanse.model.facts import Role
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
)
from hanse.model.kinds.apps import DaemonSet, Deployment
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Event, Node, Secret, ServiceAccount
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import SYSTEM, Federation
from hanse.model.kinds.gslb import NAMESPACE as GSLB_NAMESPACE
from hanse.model.kinds.gslb import AMKOCluster
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.kinds.networks import Network
from hanse.model.naming import DNS, GUARDS_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.refused_writes import reported_refusals
from hanse.model.snapshot import Watch

ACCEPTANCE = Watch(Role.LOCAL, AcceptancePolicy, optional=True)
DEPLOYMENTS = Watch(Role.LOCAL, Deployment, SYSTEM_NAMESPACE, optional=True)
WEBHOOKS = tuple(
    Watch(Role.LOCAL, kind, optional=True)
    for kind in (ValidatingWebhookConfiguration, MutatingWebhookConfiguration)
)
FIRST = (*BESIDE_OBJECTS, ACCEPTANCE, DEPLOYMENTS)
"""What is listed in every cluster."""
CONSOLE_FIRST = (*FIRST, *WEBHOOKS)
"""What a console lists in every cluster, now and then."""

COREFILE = Watch(Role.LOCAL, ConfigMap, "kube-system", name="coredns", optional=True)
GUARDS = Watch(Role.LOCAL, ValidatingAdmissionPolicyBinding, optional=True)
POLICIES = Watch(Role.LOCAL, ValidatingAdmissionPolicy, optional=True)
SUPERVISORS = Watch(Role.LOCAL, ServiceAccount, SYSTEM, labels=SUPERVISOR_LABEL, optional=True)
NODE_GUARDS = Watch(Role.LOCAL, DaemonSet, SYSTEM_NAMESPACE, optional=True)
GUARD_LEASES = Watch(Role.LOCAL, Lease, GUARDS_NAMESPACE, optional=True)
RANGES = Watch(Role.LOCAL, ServiceCIDR, optional=True)
SECRETS = Watch(Role.LOCAL, Secret, SYSTEM, optional=True)
SITE_SECRET = Watch(Role.LOCAL, Secret, GSLB_NAMESPACE, name=SECRET, optional=True)
SLICES = Watch(Role.LOCAL, EndpointSlice, SYSTEM_NAMESPACE, optional=True)
UNATTACHED = SelectedList(Role.LOCAL, Event, optional=True, fields="reason=FailedCreatePodSandBox")
"""What kubelets say of pods that their network plugin does not attach."""

CONSOLE_LISTS = (
    *CONSOLE_FIRST,
    COREFILE,
    GUARDS,
    GUARD_LEASES,
    NODE_GUARDS,
    POLICIES,
    RANGES,
    SLICES,
    SUPERVISORS,
)
"""What a console reads for checks, if its credentials allow that: no Secrets."""


def further_lists(reads: Collection[ClusterRead]) -> dict[str, set[Watch]]:
    """By context, the lists that checks need, judged by what was listed; nothing is read here.

    They may include lists that were read; clusters that could not be read are left out. Webhook
    configurations are among them where ours may exist, and everywhere if an agent reports refused
    writes.
    """
    has_broker = has_member_leases(reads)
    found = {
        one.context: {*_needed(one, has_broker=has_broker)} for one in reads if not one.failure
    }
    now = datetime.now(UTC)
    refused = any(True for one in reads for _ in reported_refusals(one.agent_lease))
    for one in reads:
        if not one.failure and (refused or _may_have_webhooks(one, now)):
            found[one.context].update(WEBHOOKS)
    return found


def _may_have_webhooks(read: ClusterRead, now: datetime) -> bool:
    """Whether a cluster may have webhooks of ours.

    False only if its agent is alive and has no features with webhooks: it deletes those of former
    agents.
    """
    return not read.has_live_agent(now) or bool(app.hooks(app.Options(features=read.features)))


def _needed(read: ClusterRead, *, has_broker: bool) -> Iterator[Watch]:
    """What checks need of one cluster, by what it has: members, sites, webhooks, nodes, networks.

    With `has_broker` no ServiceCIDRs: a broker has the ranges of all its members.
    """
    if read.objects(Federation):
        yield from (GUARDS, POLICIES, SECRETS, SUPERVISORS)
    if read.objects(AMKOCluster):
        yield SITE_SECRET
    if members_of(read):
        yield POLICIES
    if members_of(read) or read.objects(Network):
        yield GUARDS
    if any(one.name == DNS for one in read.listed(DEPLOYMENTS)):
        yield COREFILE
    if any(True for _ in our_webhooks(read)):
        yield SLICES
    if read.objects(Node) and not has_broker:
        yield RANGES
    if read.objects(Node):
        yield UNATTACHED
    if read.objects(Network) or read.listed(UNATTACHED):
        yield from (NODE_GUARDS, GUARD_LEASES)


def has_member_leases(reads: Iterable[ClusterRead]) -> bool:
    """Whether one of the clusters has a member's Lease, renewed or not: then it is a broker."""
    return any(MEMBER in one.metadata.labels for read in reads for one in read.objects(Lease))


def members_of(read: ClusterRead) -> list[ServiceAccount]:
    """The accounts of the members of a broker; none in other clusters."""
    return [one for one in read.objects(ServiceAccount) if MEMBER in one.metadata.labels]


def our_webhooks(
    read: ClusterRead,
) -> Iterator[tuple[ValidatingWebhookConfiguration | MutatingWebhookConfiguration, str, str]]:
    """Each webhook whose Service is ours: its configuration, its name, and the Service's name.

    Services of ours are in hanse-system, and have names that begin with `hanse`. Only among the
    configurations that were listed.
    """
    for watch in WEBHOOKS:
        for configuration in read.listed(watch):
            for webhook in configuration.webhooks:
                service = (webhook.get("clientConfig") or {}).get("service") or {}
                name = service.get("name", "")
                if name.startswith("hanse") and service.get("namespace") == SYSTEM_NAMESPACE:
                    yield configuration, str(webhook["name"]), name
