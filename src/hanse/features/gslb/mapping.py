"""Global names of local hosts: the same, or where the configuration says so, by HostRules."""

from collections.abc import Iterator

from hanse.features.gslb.backends import is_host_name
from hanse.features.gslb.configuration import ValidConfiguration, read_configuration
from hanse.model.kinds.ako import AkoHostRule
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Index, Snapshot


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _local_name(rule: AkoHostRule) -> Iterator[str]:
    host = rule.spec.virtualhost
    if host.gslb.fqdn and host.fqdn_type == "Exact" and rule.status.status != "Rejected":
        yield local_name(rule)


def _global_name(rule: AkoHostRule) -> Iterator[str]:
    for _ in _local_name(rule):
        if is_host_name(rule.spec.virtualhost.gslb.fqdn):
            yield _plain(rule.spec.virtualhost.gslb.fqdn)


BY_LOCAL_NAME = Index(AkoHostRule, "gslb-local-name", _local_name)
BY_GLOBAL_NAME = Index(AkoHostRule, "gslb-global-name", _global_name)


def uses_host_rules(snapshot: Snapshot) -> bool:
    """Whether HostRules give hosts their global names, and who has none is not balanced."""
    config = read_configuration(snapshot)
    return isinstance(config, ValidConfiguration) and config.object.spec.use_custom_global_fqdn


def local_names(host: str, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """The names under which a cluster itself serves a global host."""
    if not uses_host_rules(snapshot):
        yield host
        return
    rules = snapshot.by(where, BY_GLOBAL_NAME, host)
    for local in sorted({local_name(rule) for rule in rules}):
        if host in global_names(local, where, snapshot):
            yield local


def global_names(local: str, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """The global name of a cluster's host, if it has one; of several rules the oldest counts."""
    if not uses_host_rules(snapshot):
        yield local
        return
    first = find_mapping_rule(local, where, snapshot)
    if first is not None:
        yield from _global_name(first)


def local_name(rule: AkoHostRule) -> str:
    """The name of the cluster's own host that a HostRule is about."""
    return _plain(rule.spec.virtualhost.fqdn)


def mapped_names(rule: AkoHostRule, snapshot: Snapshot) -> Iterator[str]:
    """The global name that a HostRule gives, where that counts for anything."""
    if uses_host_rules(snapshot):
        yield from _global_name(rule)


def find_mapping_rule(local: str, where: ClusterId, snapshot: Snapshot) -> AkoHostRule | None:
    """The HostRule that has a say about a local name."""
    return min(snapshot.by(where, BY_LOCAL_NAME, local), key=_age, default=None)


def mapping_error(rule: AkoHostRule, where: ClusterId, snapshot: Snapshot) -> str:
    """What is wrong with a HostRule; empty where nothing is, or it maps nothing."""
    told = rule.spec.virtualhost.gslb.fqdn
    for local in _local_name(rule):
        if not is_host_name(told):
            return (
                f"spec.virtualhost.gslb.fqdn: {told[:100]!r} is no name of one host, so {local} is "
                "not balanced; write it as shop.example.org"
            )
        first = find_mapping_rule(local, where, snapshot)
        if first is not None and first.metadata.uid != rule.metadata.uid:
            other = f"{first.metadata.namespace}/{first.metadata.name}"
            return f"spec.virtualhost.fqdn: {local} has HostRule {other} already; delete one"
    return ""


def _age(rule: AkoHostRule) -> tuple[str, str, str]:
    meta = rule.metadata
    made = meta.creation_timestamp
    return (made.isoformat() if made else "", meta.namespace, meta.name)
