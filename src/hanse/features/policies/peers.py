"""Whether the rules of a federated policy can reach beyond one cluster."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hanse.model.kinds.federation import spelled, spelled_label
from hanse.model.objects import Wire

_LOCAL = (
    "podSelector",
    "namespaceSelector",
    "namespaces",
    "externalEntitySelector",
    "nodeSelector",
    "serviceAccount",
)
"""Peers that each cluster fills with what it has itself; VMs, pods and nodes are nobody else's."""


def ignored_annotation_warning(marks: Mapping[str, str]) -> str:
    """What to tell whoever asked for federation in words that do not count; else nothing."""
    wished = spelled(marks, "federated.anp")
    if wished in (None, "true", "false"):
        return ""
    name = spelled_label(marks, "federated.anp")
    return f"annotation {name}: {wished[:40]!r} is not 'true': the policy is not federated"


def peer_warnings(spec: Wire) -> tuple[str, ...]:
    """What to tell the author of a federated policy, field by field; nothing if all is well."""
    peers = tuple(_peers(spec))
    told = [
        f"spec.{path}.scope: a federated Service is named without scope; leave it out"
        for path, peer in _services(spec)
        if peer.get("scope")
    ]
    local = [path for path, peer in peers if _is_local(peer)]
    if local and len(local) == len(peers) and not any(True for _ in _services(spec)):
        told.append(
            f"spec.{local[0]} selects only what is in the same cluster: traffic between clusters "
            "is matched by toServices (egress) or by a federated Service's group (ingress)"
        )
    return tuple(told)


def _peers(spec: Wire) -> Iterator[tuple[str, Wire]]:
    """Every peer of every rule, with its path."""
    for direction, field in (("ingress", "from"), ("egress", "to")):
        for at, rule in _each(spec.get(direction)):
            for number, peer in _each(rule.get(field)):
                yield f"{direction}[{at}].{field}[{number}]", peer


def _services(spec: Wire) -> Iterator[tuple[str, Wire]]:
    for at, rule in _each(spec.get("egress")):
        for number, peer in _each(rule.get("toServices")):
            yield f"egress[{at}].toServices[{number}]", peer


def _is_local(peer: Wire) -> bool:
    return any(name in peer for name in _LOCAL)


def _each(several: Any) -> Iterable[tuple[int, Wire]]:
    """The objects of a list in a field that anybody may have filled with anything."""
    found = several if isinstance(several, list) else []
    return ((at, one) for at, one in enumerate(found) if isinstance(one, dict))
