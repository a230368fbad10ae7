"""More names of a global host: the aliases that HostRules of AKO give it.

Without `useCustomGlobalFqdn` all aliases of a host's rules count, else those of rules that include
them. A name that is a host itself, or an alias of another host, is no alias.
"""

from collections.abc import Iterable, Iterator

from hanse.features.gslb.backends import is_host_name, list_objects_for
from hanse.features.gslb.known import is_withdrawn
from hanse.features.gslb.mapping import (
    global_names,
    local_name,
    local_names,
    normalize_host,
    uses_host_rules,
)
from hanse.model.kinds.ako import AkoHostRule
from hanse.model.kinds.globalservice import MAX_ALIASES, GlobalService
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Index, Snapshot


def rule_aliases(rule: AkoHostRule) -> list[str]:
    """The valid aliases of a HostRule, normalized.

    Empty if its fqdnType is not Exact, or if its status is Rejected.
    """
    host = rule.spec.virtualhost
    if host.fqdn_type != "Exact" or rule.status.status == "Rejected":
        return []
    return [normalize_host(name) for name in host.aliases if is_host_name(name)]


def _aliased_names(rule: AkoHostRule) -> Iterator[str]:
    """Index value: the local name of a HostRule that has valid aliases; else none."""
    if rule_aliases(rule):
        yield local_name(rule)


RULES_WITH_ALIASES = Index(AkoHostRule, "gslb-aliased", _aliased_names)
RULES_BY_ALIAS = Index(AkoHostRule, "gslb-alias", rule_aliases)


def list_aliases(
    host: str, owners: Iterable[str], clusters: Iterable[ClusterId], snapshot: Snapshot
) -> tuple[str, ...]:
    """The aliases that HostRules in the namespaces `owners` give a host: sorted, up to MAX_ALIASES.

    With useCustomGlobalFqdn only rules with includeAliases count. Names with an `alias_conflict`
    are left out: global hosts and aliases of other hosts.
    """
    owning, places = frozenset(owners), tuple(clusters)
    found: set[str] = set()
    for where in places:
        for local in local_names(host, where, snapshot):
            for rule in snapshot.by(where, RULES_WITH_ALIASES, local):
                if rule.metadata.namespace in owning and _includes_aliases(rule, snapshot):
                    found.update(rule_aliases(rule))
    return tuple(sorted(a for a in found if not alias_conflict(a, host, places, snapshot)))[
        :MAX_ALIASES
    ]


def alias_conflict(alias: str, host: str, clusters: Iterable[ClusterId], snapshot: Snapshot) -> str:
    """Why a name is no alias of a host: it is a host, or an alias of another; else empty.

    It is a host if it is `host` itself, has a GlobalService here that is not withdrawn, or is
    declared by an object in these clusters. Aliases of another host count if their HostRule's
    aliases do.
    """
    service = snapshot.get(snapshot.local, GlobalService, alias, NAMESPACE)
    if alias == host or (service is not None and not is_withdrawn(service)):
        return "it is a global host itself"
    for where in clusters:
        if any(True for _ in list_objects_for(alias, "", where, snapshot)):
            return "it is a host itself"
        for rule in snapshot.by(where, RULES_BY_ALIAS, alias):
            others = [h for h in aliased_hosts(rule, where, snapshot) if h != host]
            if others and _includes_aliases(rule, snapshot):
                return f"it is an alias of {others[0]}, too"
    return ""


def aliased_hosts(rule: AkoHostRule, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """The global hosts of a HostRule's local name in a cluster; none if it has no valid aliases.

    Without useCustomGlobalFqdn that is the local name itself.
    """
    if rule_aliases(rule):
        yield from global_names(local_name(rule), where, snapshot)


def _includes_aliases(rule: AkoHostRule, snapshot: Snapshot) -> bool:
    """Whether a rule's aliases count: by includeAliases, or always without useCustomGlobalFqdn."""
    return rule.spec.virtualhost.gslb.include_aliases or not uses_host_rules(snapshot)
