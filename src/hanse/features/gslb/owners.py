"""Who owns a host: the namespaces whose objects may serve it, in every cluster.

A host belongs to the first namespace that claimed it, for as long as that exists anywhere and
anybody claims the host, or to those that its GSLBHostRule names. Objects of other namespaces are
refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from hanse.model.kinds.core import Namespace
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import GSLBHostRule
from hanse.model.objects import ClusterId, Object, object_ref
from hanse.model.snapshot import Snapshot

MAX_REFUSED = 50
"""Refused objects that a status names."""

ClusterClaims = tuple[tuple[str, Object], ...]
"""The objects of a cluster that claim a host, each with the name that it has it by."""


def decide_owners(
    rule: GSLBHostRule | None,
    current: GlobalService | None,
    claims: Mapping[str, ClusterClaims | None],
    is_gone: Callable[[str], bool],
) -> tuple[str, ...]:
    """The namespaces that own a host: those of the rule, else those recorded in the service.

    Else those of its members, else that of the oldest claiming object; none if nothing claims it.
    Unless the rule names it, a namespace that is gone in every cluster owns nothing while another
    one claims the host.
    """
    if rule is not None and rule.spec.owners:
        return tuple(rule.spec.owners)
    recorded = current.spec.owners or _serving_namespaces(current) if current is not None else ()
    if kept := tuple(namespace for namespace in recorded if not is_gone(namespace)):
        return kept
    objects = [obj for several in claims.values() for _, obj in several or ()]
    gone = {name for name in {obj.metadata.namespace for obj in objects} if is_gone(name)}
    living = [obj for obj in objects if obj.metadata.namespace not in gone]
    first = min(living or objects, key=_claim_order, default=None)
    return (first.metadata.namespace,) if first is not None else ()


def is_gone_everywhere(
    namespace: str, clusters: Iterable[ClusterId | None], snapshot: Snapshot
) -> bool:
    """Whether no cluster has a namespace, or all are deleting it.

    False while a cluster is unobserved (None) or has not listed its Namespaces.
    """
    for where in clusters:
        if where is None or not snapshot.listed(where, Namespace):
            return False
        found = snapshot.get(where, Namespace, namespace)
        if found is not None and not found.terminating:
            return False
    return True


def list_refused(
    claims: Mapping[str, ClusterClaims | None], owners: tuple[str, ...]
) -> Iterator[str]:
    """`<cluster>: <Kind> <namespace>/<name>` of each object in a namespace that is no owner."""
    for cluster, several in sorted(claims.items()):
        for _, obj in several or ():
            if obj.metadata.namespace not in owners:
                meta = obj.metadata
                yield f"{cluster}: {type(obj).kind.name} {meta.namespace}/{meta.name}"


def _serving_namespaces(current: GlobalService) -> tuple[str, ...]:
    """The namespaces of the sources of a service's members, sorted."""
    sources = [m.source.rpartition(" ")[2] for m in current.spec.members if m.source]
    return tuple(sorted({source.partition("/")[0] for source in sources}))


def _claim_order(obj: Object) -> tuple[str, str, str]:
    """The order of claims: the oldest first, then by namespace and name."""
    created = obj.metadata.creation_timestamp
    age = created.isoformat() if created is not None else ""
    return (age, obj.metadata.namespace, str(object_ref(obj)))
