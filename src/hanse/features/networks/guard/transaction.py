"""Commands for nftables that turn one ruleset into another, all of them or none."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from hanse.features.networks.guard.facts import Owner
from hanse.features.networks.guard.ruleset import (
    BASE_SETS,
    TABLE,
    Elements,
    Ruleset,
    address_elements,
)
from hanse.features.networks.guard.vpc_rules import PREFIX

_NAME = f"inet {TABLE}"
_BATCH = 512
"""Elements of one command."""

REMOVAL = f"table {_NAME}\ndelete table {_NAME}\n"
"""Removes the table, also if there is none."""


def replacement(ruleset: Ruleset) -> str:
    """The nft commands that replace the table by a ruleset, in one transaction.

    They also create the table where it does not exist.
    """
    return REMOVAL + f"table {_NAME}\n" + difference(Ruleset({}, {}), ruleset)


def difference(old: Ruleset, new: Ruleset) -> str:
    """The nft commands that turn one ruleset in the kernel into another; empty if they are equal.

    The table must exist.
    """
    return "".join(f"{line}\n" for line in _difference(old, new))


def has_families_for(ruleset: Ruleset, owners: Mapping[str, Owner | None]) -> bool:
    """Whether the ruleset has sets for the families of these addresses.

    False only if one is an IPv6 address and networks have sets for IPv4 alone.
    """
    return 6 in ruleset.families or not any(":" in address for address in owners)


class ElementChange(Struct, frozen=True):
    """An address that a set gets, with its value in a map, or loses."""

    add: bool
    set: str
    address: str
    value: str = ""


def render_changes(changes: Iterable[ElementChange]) -> str:
    """The nft commands of these changes, a line for each; empty for none."""
    return "".join(
        f"{'add' if c.add else 'delete'} element {_NAME} {c.set} "
        f"{{ {_element(c.address, c.value)} }}\n"
        for c in changes
    )


def set_owners(ruleset: Ruleset, owners: Mapping[str, Owner | None]) -> list[ElementChange]:
    """Change the sets of the ruleset in place, so that addresses have these owners; None: no owner.

    Returns the changed elements, of which the kernel is to be told; an element whose value changes
    is deleted and added.
    """
    changes: list[ElementChange] = []
    for address, owner in owners.items():
        wanted = dict(address_elements(address, owner, ruleset))
        for name in _sets_of(address, ruleset):
            held = ruleset.sets[name]
            if wanted.get(name) != held.values[address]:
                del held.values[address]
                changes.append(ElementChange(False, name, address))
        for name, value in wanted.items():
            held = ruleset.sets[name]
            if address not in held.values:
                held.values[address] = value
                changes.append(ElementChange(True, name, address, value))
    return changes


def _sets_of(address: str, ruleset: Ruleset) -> list[str]:
    """The sets and maps of pods that hold an address."""
    family = "6" if ":" in address else "4"
    network = ruleset.sets[f"clients{family}"].values.get(address, "").removeprefix("goto from-")
    names = [f"{n}{family}" for n in (*BASE_SETS, "clients", "servers")]
    begins = ("namespace-", PREFIX)
    spaces = [n for n in ruleset.sets if n.startswith(begins) and n.endswith(family)]
    own = [f"pods-{network}-{family}"] if network else []
    return [n for n in (*names, *spaces, *own) if address in ruleset.sets[n].values]


def _difference(old: Ruleset, new: Ruleset) -> Iterator[str]:
    """Commands in this order: new sets and chains, old elements, rules, new elements, deletions."""
    yield from _declarations(old, new)
    for name, before in old.sets.items():
        if name in new.sets:
            yield from _delete_elements(name, before, new.sets[name])
    for name, rules in new.chains.items():
        if old.chains.get(name) != rules:
            yield from _rules(name, rules, replaced=name in old.chains)
    for name, held in new.sets.items():
        yield from _add_elements(name, old.sets.get(name), held)
    yield from _deletions(old, new)


def _declarations(old: Ruleset, new: Ruleset) -> Iterator[str]:
    """The commands that add new sets and chains, before anything refers to them."""
    for name, held in new.sets.items():
        if name not in old.sets:
            yield f"add {_kind(held)} {_NAME} {name} {{ {held.declaration} }}"
    for name, rules in new.chains.items():
        if name not in old.chains:
            base = f" {{ {rules[0]} }}" if _is_base(rules[0]) else ""
            yield f"add chain {_NAME} {name}{base}"


def _rules(name: str, rules: tuple[str, ...], *, replaced: bool) -> Iterator[str]:
    """The commands that add a chain's rules; first a flush if `replaced`.

    The declaration of a base chain is left out.
    """
    if replaced:
        yield f"flush chain {_NAME} {name}"
    yield from (f"add rule {_NAME} {name} {rule}" for rule in rules if not _is_base(rule))


def _deletions(old: Ruleset, new: Ruleset) -> Iterator[str]:
    """The commands that delete the chains and sets that the new ruleset lacks.

    Rules go first, which refer to sets, then sets, whose elements refer to chains, then chains.
    """
    gone = [name for name in old.chains if name not in new.chains]
    yield from (f"flush chain {_NAME} {name}" for name in gone)
    for name, before in old.sets.items():
        if name not in new.sets:
            yield f"delete {_kind(before)} {_NAME} {name}"
    yield from (f"delete chain {_NAME} {name}" for name in gone)


def _kind(held: Elements) -> str:
    """`map` or `set`, as nft calls it."""
    return "map" if held.is_map else "set"


def _delete_elements(name: str, old: Elements, new: Elements) -> Iterator[str]:
    """The commands that delete the elements that the new set lacks or has with another value.

    A set of intervals that differs is flushed instead.
    """
    if new.interval:
        if old.values != new.values and old.values:
            yield f"flush set {_NAME} {name}"
        return
    gone = [key for key, value in old.values.items() if new.values.get(key) != value]
    yield from _batches("delete", name, gone)


def _add_elements(name: str, old: Elements | None, new: Elements) -> Iterator[str]:
    """The commands that add elements that are new or have another value.

    A set of intervals that differs is added whole.
    """
    before = {} if old is None or (new.interval and old.values != new.values) else old.values
    fresh = [_element(k, v) for k, v in new.values.items() if before.get(k) != v]
    yield from _batches("add", name, fresh)


def _batches(verb: str, name: str, elements: list[str]) -> Iterator[str]:
    """Commands that add or delete elements of a set, at most `_BATCH` in each."""
    for start in range(0, len(elements), _BATCH):
        part: Iterable[str] = elements[start : start + _BATCH]
        yield f"{verb} element {_NAME} {name} {{ {', '.join(part)} }}"


def _element(key: str, value: str) -> str:
    """An element as nft writes it: `KEY : VALUE`, or the key alone without a value."""
    return f"{key} : {value}" if value else key


def _is_base(rule: str) -> bool:
    """Whether a rule is the declaration of a base chain (`type … hook …`)."""
    return rule.startswith("type ")
