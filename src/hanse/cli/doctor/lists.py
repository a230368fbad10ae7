"""The lists that doctor reads of each cluster beside those that views need."""

from collections.abc import Collection, Iterable, Iterator

from hanse.cli.fleet import ClusterRead
from hanse.cli.inventory import BESIDE_OBJECTS, CLAIMS
from hanse.features.gslb.names import SECRET
from hanse.model.broker_namespace import MEMBER
from hanse.model.facts import Role
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
)
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Node, Secret, ServiceAccount
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import SYSTEM, Federation
from hanse.model.kinds.gslb import NAMESPACE as GSLB_NAMESPACE
from hanse.model.kinds.gslb import AMKOCluster
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.snapshot import Watch

ACCEPTANCE = Watch(Role.LOCAL, AcceptancePolicy, optional=True)
DEPLOYMENTS = Watch(Role.LOCAL, Deployment, SYSTEM_NAMESPACE, optional=True)
WEBHOOKS = tuple(
    Watch(Role.LOCAL, kind, optional=True)
    for kind in (ValidatingWebhookConfiguration, MutatingWebhookConfiguration)
)
FIRST = (*BESIDE_OBJECTS, ACCEPTANCE, DEPLOYMENTS, *WEBHOOKS)
"""What is listed in every cluster."""

COREFILE = Watch(Role.LOCAL, ConfigMap, "kube-system", name="coredns", optional=True)
GUARDS = Watch(Role.LOCAL, ValidatingAdmissionPolicyBinding, optional=True)
RANGES = Watch(Role.LOCAL, ServiceCIDR, optional=True)
SECRETS = Watch(Role.LOCAL, Secret, SYSTEM, optional=True)
SITE_SECRET = Watch(Role.LOCAL, Secret, GSLB_NAMESPACE, name=SECRET, optional=True)
SLICES = Watch(Role.LOCAL, EndpointSlice, SYSTEM_NAMESPACE, optional=True)

DNS_SERVER = "hanse-dns"


def further_lists(reads: Collection[ClusterRead]) -> dict[str, set[Watch]]:
    """By context, what checks need by what was listed at first; nothing is read here."""
    has_broker = has_heartbeats(reads)
    return {one.context: {*_needed(one, has_broker=has_broker)} for one in reads if not one.failure}


def _needed(read: ClusterRead, *, has_broker: bool) -> Iterator[Watch]:
    """What checks need of one cluster; a broker has the ranges of all its members."""
    if read.objects(Federation):
        yield from (CLAIMS, SECRETS)
    if read.objects(AMKOCluster):
        yield SITE_SECRET
    if members_of(read):
        yield GUARDS
    if any(one.name == DNS_SERVER for one in read.listed(DEPLOYMENTS)):
        yield COREFILE
    if any(True for _ in our_webhooks(read)):
        yield SLICES
    if read.objects(Node) and not has_broker:
        yield RANGES


def has_heartbeats(reads: Iterable[ClusterRead]) -> bool:
    """Whether members show on one of the clusters that they are alive."""
    return any(MEMBER in one.metadata.labels for read in reads for one in read.objects(Lease))


def members_of(read: ClusterRead) -> list[ServiceAccount]:
    """The accounts of the members of a broker; none in other clusters."""
    return [one for one in read.objects(ServiceAccount) if MEMBER in one.metadata.labels]


def our_webhooks(
    read: ClusterRead,
) -> Iterator[tuple[ValidatingWebhookConfiguration | MutatingWebhookConfiguration, str, str]]:
    """Each configuration of webhooks with the name of each webhook whose Service is ours, and its.

    Services of ours have names that begin with `hanse`.
    """
    for watch in WEBHOOKS:
        for configuration in read.listed(watch):
            for webhook in configuration.webhooks:
                service = (webhook.get("clientConfig") or {}).get("service") or {}
                name = service.get("name", "")
                if name.startswith("hanse"):
                    yield configuration, str(webhook["name"]), name
