"""What the rules of Antrea's policies name: peers, groups, Services and machines."""

from collections.abc import Iterable, Iterator
from typing import Any

from hanse.model.objects import Wire


def policy_peers(spec: Wire) -> Iterator[tuple[str, Wire]]:
    """Every peer in `from` of ingress and in `to` of egress rules, with its path in the spec.

    What is no list of objects is skipped.
    """
    for direction, field in (("ingress", "from"), ("egress", "to")):
        for index, rule in _each(spec.get(direction)):
            for number, peer in _each(rule.get(field)):
                yield f"{direction}[{index}].{field}[{number}]", peer


def service_peers(spec: Wire) -> Iterator[tuple[str, Wire]]:
    """Every entry of toServices in egress rules, with its path in the spec.

    What is no list of objects is skipped.
    """
    for index, rule in _each(spec.get("egress")):
        for number, peer in _each(rule.get("toServices")):
            yield f"egress[{index}].toServices[{number}]", peer


def policy_subjects(spec: Wire) -> Iterator[tuple[str, Wire]]:
    """Every entry of appliedTo, of the policy and of its rules, with its path in the spec.

    What is no list of objects is skipped.
    """
    for number, subject in _each(spec.get("appliedTo")):
        yield f"appliedTo[{number}]", subject
    for direction in ("ingress", "egress"):
        for index, rule in _each(spec.get(direction)):
            for number, subject in _each(rule.get("appliedTo")):
                yield f"{direction}[{index}].appliedTo[{number}]", subject


def named_groups(spec: Wire) -> Iterator[tuple[str, str]]:
    """The path of field `group` and the name in it, for each peer and subject that has one."""
    for path, one in (*policy_peers(spec), *policy_subjects(spec)):
        name = one.get("group")
        if isinstance(name, str) and name:
            yield f"{path}.group", name


def _each(value: Any) -> Iterable[tuple[int, Wire]]:
    """The objects of a list with their indexes; empty for a value of another type."""
    items = value if isinstance(value, list) else []
    return ((index, item) for index, item in enumerate(items) if isinstance(item, dict))
