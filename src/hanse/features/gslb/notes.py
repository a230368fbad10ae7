"""What of a valid configuration is not used, or not as one may think, in one sentence each."""

from collections.abc import Iterator

from hanse.features.gslb.leadership import CONNECTION_SOURCE, Leading, unreached_reason
from hanse.features.gslb.names import site_of
from hanse.features.gslb.options import GslbOptions
from hanse.model.facts import ClusterState, InvalidConnection
from hanse.model.kinds.gslb import (
    GlobalDeploymentPolicySpec,
    GSLBHostRuleSpec,
    PoolAlgorithm,
)
from hanse.model.snapshot import Snapshot

_NEAR = ("GSLB_ALGORITHM_GEO", "GSLB_ALGORITHM_TOPOLOGY")


def policy_notes(
    policy: GlobalDeploymentPolicySpec, leading: Leading, options: GslbOptions, snapshot: Snapshot
) -> Iterator[str]:
    """Notes about matched sites that are not reached, fields without effect, no geoFallback."""
    for match in policy.match_clusters:
        if match.cluster != leading.context:
            yield from _cluster_notes(match.cluster, snapshot)
    yield from _algorithm_notes(policy.pool_algorithm_settings)
    if policy.site_persistence_ref and "avi" not in options.providers:
        yield f"spec.sitePersistenceRef: {_NO_PERSISTENCE}"
    if policy.pki_profile_ref and "avi" not in options.providers:
        yield "spec.pkiProfileRef is for provider avi alone: probes by HTTPS verify nothing"


def rule_notes(rule: GSLBHostRuleSpec, options: GslbOptions) -> Iterator[str]:
    """What of a valid host rule is not used, no geoFallback, and if its host is in no zone."""
    yield from _algorithm_notes(rule.pool_algorithm_settings)
    persistence = rule.site_persistence
    if persistence is not None and persistence.enabled and "avi" not in options.providers:
        yield f"spec.sitePersistence: {_NO_PERSISTENCE}"
    if options.zones and not is_in_zones(rule.fqdn.lower().removesuffix("."), options.zones):
        yield f"spec.fqdn: {outside_message(rule.fqdn, options.zones)}"


def is_in_zones(host: str, zones: tuple[str, ...]) -> bool:
    """Whether a host is the name of a zone, or below one."""
    return any(host == zone or host.endswith(f".{zone}") for zone in zones)


OUTSIDE = "is in none of the zones that name servers answer"


def outside_message(host: str, zones: tuple[str, ...]) -> str:
    """The message that a host is in none of the zones, with the remedy."""
    return (
        f"{host} {OUTSIDE} ({', '.join(zones)}); start them with --global-zone for it, or rename it"
    )


_NO_PERSISTENCE = (
    "it is used by provider avi alone; with the own DNS server GSLB_ALGORITHM_CONSISTENT_HASH "
    "keeps a client at a site"
)


def _cluster_notes(context: str, snapshot: Snapshot) -> Iterator[str]:
    """A note if the connection to a matched site is invalid, or it cannot be reached now."""
    site = site_of(context)
    bad = snapshot.fact(InvalidConnection, (CONNECTION_SOURCE, site))
    state = snapshot.fact(ClusterState, site)
    if bad is not None:
        yield f"cluster {context} brings no members: {bad.message}"
    elif state is not None and state.reason and not snapshot.synced(site):
        why = unreached_reason(state)
        yield f"cluster {context} cannot be reached, and keeps its last known members: {why}"


def _algorithm_notes(settings: PoolAlgorithm | None) -> Iterator[str]:
    """A note if members are chosen by proximity and no geoFallback is set."""
    if settings is not None and settings.lb_algorithm in _NEAR and settings.geo_fallback is None:
        yield (
            "spec.poolAlgorithmSettings.geoFallback is not set: clients of unknown location are "
            "answered by round robin"
        )
