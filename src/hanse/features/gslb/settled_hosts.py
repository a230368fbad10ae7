"""The set of hosts of a leader that has decided about all of them, as its Lease names it.

By it a name server knows that a host has ended, although it missed the mark of that: the service
is neither here nor in the set.
"""

from collections.abc import Collection
from hashlib import sha256

from hanse.features.gslb.configuration import InvalidConfiguration, read_deployment_policy
from hanse.features.gslb.known import is_withdrawn
from hanse.features.gslb.options import GslbOptions
from hanse.model.facts import ClusterState, Role, WriteOutcome
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.snapshot import Snapshot


def settled_hosts(options: GslbOptions, snapshot: Snapshot) -> str:
    """The digest of the leader's hosts; empty while one may be missing that it is to serve.

    That is while its policy is missing or invalid, its own cluster is not synced, this cluster or a
    site was restored just now, or the last write of a service here failed.
    """
    policy = read_deployment_policy(snapshot, named_monitors=options.probes)
    if policy is None or isinstance(policy, InvalidConfiguration):
        return ""
    if not snapshot.synced(snapshot.local, GlobalService) or _is_recovering(snapshot):
        return ""
    if any(_is_of_host_here(outcome, snapshot) for outcome in snapshot.facts(WriteOutcome)):
        return ""
    return digest_hosts(live_hosts(snapshot))


def live_hosts(snapshot: Snapshot) -> set[str]:
    """The hosts that have a service here which is not withdrawn."""
    services = snapshot.in_namespace(snapshot.local, GlobalService, NAMESPACE)
    return {service.metadata.name for service in services if not is_withdrawn(service)}


def digest_hosts(hosts: Collection[str]) -> str:
    """`<number>-<digest>` of a set of hosts."""
    digest = sha256("\n".join(sorted(hosts)).encode()).hexdigest()
    return f"{len(hosts)}-{digest[:32]}"


def _is_recovering(snapshot: Snapshot) -> bool:
    """Whether this cluster or a site was restored a moment ago."""
    clusters = (snapshot.local, *snapshot.clusters(Role.SITE))
    states = (snapshot.fact(ClusterState, where) for where in clusters)
    return any(state is not None and state.recovering for state in states)


def _is_of_host_here(outcome: WriteOutcome, snapshot: Snapshot) -> bool:
    """Whether a write outcome is of a GlobalService in this cluster."""
    target = outcome.target
    return target.where == snapshot.local and target.ref.kind == GlobalService.kind
