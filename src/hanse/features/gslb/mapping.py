"""Global names of local hosts: the same name, or if configured, the one that a HostRule gives."""

from collections.abc import Iterator

from hanse.features.gslb.backends import is_host_name
from hanse.features.gslb.configuration import ValidConfiguration, read_configuration
from hanse.model.kinds.ako import AkoHostRule
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Index, Snapshot


def normalize_host(name: str) -> str:
    """A host name stripped, in lower case and without a final dot."""
    return name.strip().lower().removesuffix(".")


def _mapped_local_names(rule: AkoHostRule) -> Iterator[str]:
    """The local name of a HostRule with a gslb.fqdn, valid or not, that is Exact and not Rejected.

    Else nothing.
    """
    host = rule.spec.virtualhost
    if host.gslb.fqdn and host.fqdn_type == "Exact" and rule.status.status != "Rejected":
        yield local_name(rule)


def _mapped_global_names(rule: AkoHostRule) -> Iterator[str]:
    """The valid global name of a HostRule that is Exact and not Rejected; else nothing."""
    for _ in _mapped_local_names(rule):
        if is_host_name(rule.spec.virtualhost.gslb.fqdn):
            yield normalize_host(rule.spec.virtualhost.gslb.fqdn)


RULES_BY_LOCAL_NAME = Index(AkoHostRule, "gslb-local-name", _mapped_local_names)
RULES_BY_GLOBAL_NAME = Index(AkoHostRule, "gslb-global-name", _mapped_global_names)


def uses_host_rules(snapshot: Snapshot) -> bool:
    """Whether the GSLBConfig has useCustomGlobalFqdn, so that only HostRules give global names.

    False without a valid GSLBConfig.
    """
    config = read_configuration(snapshot)
    return isinstance(config, ValidConfiguration) and config.object.spec.use_custom_global_fqdn


def local_names(host: str, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """The names that sources of a host have in a cluster: those that HostRules there map to it.

    Sorted; only the oldest HostRule of each local name counts. The host itself if HostRules are not
    used.
    """
    if not uses_host_rules(snapshot):
        yield host
        return
    rules = snapshot.by(where, RULES_BY_GLOBAL_NAME, host)
    for local in sorted({local_name(rule) for rule in rules}):
        if host in global_names(local, where, snapshot):
            yield local


def global_names(local: str, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """The global name of a local one, by its oldest HostRule in the cluster.

    None without a rule, or if that rule's global name is invalid; the local name itself if
    HostRules are not used.
    """
    if not uses_host_rules(snapshot):
        yield local
        return
    first = find_mapping_rule(local, where, snapshot)
    if first is not None:
        yield from _mapped_global_names(first)


def local_name(rule: AkoHostRule) -> str:
    """The local name that a HostRule is about: its fqdn, normalized."""
    return normalize_host(rule.spec.virtualhost.fqdn)


def declared_global_names(rule: AkoHostRule, snapshot: Snapshot) -> Iterator[str]:
    """The valid global name of a HostRule that is Exact and not Rejected, whatever older rules say.

    Nothing if HostRules are not used.
    """
    if uses_host_rules(snapshot):
        yield from _mapped_global_names(rule)


def find_mapping_rule(local: str, where: ClusterId, snapshot: Snapshot) -> AkoHostRule | None:
    """The oldest HostRule that maps a local name, which is the effective one; None without any."""
    return min(snapshot.by(where, RULES_BY_LOCAL_NAME, local), key=_creation_order, default=None)


def mapping_error(rule: AkoHostRule, where: ClusterId, snapshot: Snapshot) -> str:
    """The error of a HostRule's mapping: an invalid global name, or an older rule; else empty.

    Also empty for a rule without a gslb.fqdn, or that is not Exact or is Rejected.
    """
    name = rule.spec.virtualhost.gslb.fqdn
    for local in _mapped_local_names(rule):
        if not is_host_name(name):
            return (
                f"spec.virtualhost.gslb.fqdn: {name[:100]!r} is no name of one host, so {local} is "
                "not balanced; write it as shop.example.org"
            )
        first = find_mapping_rule(local, where, snapshot)
        if first is not None and first.metadata.uid != rule.metadata.uid:
            other = f"{first.metadata.namespace}/{first.metadata.name}"
            return f"spec.virtualhost.fqdn: {local} has HostRule {other} already; delete one"
    return ""


def _creation_order(rule: AkoHostRule) -> tuple[str, str, str]:
    """The sort key of HostRules: the oldest first, then by namespace and name."""
    meta = rule.metadata
    created = meta.creation_timestamp
    return (created.isoformat() if created else "", meta.namespace, meta.name)
