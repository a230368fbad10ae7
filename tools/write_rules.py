"""The page of who may write what in clusters of others, made from the rules by `make reference`."""

from collections.abc import Iterator, Sequence

from hanse import app
from hanse.features.gslb.write_rules import LEADER_RULES
from hanse.model.write_rules import (
    ACCOUNTS,
    ANYWHERE,
    HOME,
    METADATA,
    WriteRule,
)

INTRODUCTION = """\
# Who may write what in clusters of others

Made by `make reference` from the declaration that roles and ValidatingAdmissionPolicies are made of
([decision 17](decisions/0017-write-rules.md)). All conditions of all rows of a resource must hold.
What an agent may write in its own cluster, `hanse manifests --explain` prints.
"""

_SECTIONS = (
    ("A member on the broker", tuple(r for a in app.broker_access() for r in a.rules)),
    ("A supervisor in a member", app.supervisor_rules()),
    ("A GSLB leader in a site", LEADER_RULES),
)
_PLACES = {HOME: "the broker's", ACCOUNTS: "that of accounts", ANYWHERE: "any"}


def write_rules() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for heading, rules in _SECTIONS:
        parts += [f"## {heading}", "", *_table(rules), ""]
    return "\n".join(parts).rstrip() + "\n"


def _table(rules: Sequence[WriteRule]) -> Iterator[str]:
    yield "| resource | verbs | namespace | objects | conditions | frozen |"
    yield "|---|---|---|---|---|---|"
    for rule in rules:
        place = _PLACES.get(rule.namespace, f"`{rule.namespace}`")
        words = "; ".join(each.words for each in rule.requirements)
        frozen = ", ".join(field for field in METADATA if field not in rule.sets)
        if rule.subresource == "token":
            frozen = ""
        group = f".{rule.kind.group}" if rule.kind.group else ""
        verbs = ", ".join(rule.verbs) or "(limits others)"
        cells = (f"`{rule.resource}{group}`", verbs, place, rule.objects, words, frozen)
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(write_rules(), end="")
