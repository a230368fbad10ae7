"""The explanation of an agent's rights: each with the feature and the reason it is there."""

from collections.abc import Iterator

from hanse.cli.manifests.rights import rights_of
from hanse.cli.manifests.values import Values
from hanse.cli.tables import table
from hanse.model.agent_manifests import BASE
from hanse.model.rbac import RbacRule, Right

_TITLES = {BASE: "every agent", "admission": "webhooks of these features"}
_HEADER = ("NAMESPACE", "RESOURCE", "VERBS", "WHY")


def render_explanation(values: Values) -> str:
    """A titled table of the agent's rights for each feature that the values switch on, as text."""
    return "\n".join(_sections(values))


def _sections(values: Values) -> Iterator[str]:
    """The title and the table of rights of each feature, in lines."""
    for feature, rights in rights_of(values).items():
        yield f"# {_TITLES.get(feature, feature)}"
        yield table(_HEADER, [_row(right) for right in rights])
        yield ""


def _row(right: Right) -> tuple[str, str, str, str]:
    """A right as a row: namespace (`all` for every one), resource, verbs and reasons."""
    rule = right.rule
    return (
        rule.namespace or "all",
        _resource(rule),
        ",".join(rule.verbs),
        "; ".join(right.reasons),
    )


def _resource(rule: RbacRule) -> str:
    """The resource as RESOURCE.GROUP/SUBRESOURCE, and its resourceNames in brackets, if any."""
    resource, slash, sub = rule.resource.partition("/")
    group = f".{rule.group}" if rule.group else ""
    return f"{resource}{group}{slash}{sub}{_names(rule)}"


def _names(rule: RbacRule) -> str:
    """The resourceNames of a rule in brackets, after a blank; "" if it has none.

    Of more than three the first, and how many more there are.
    """
    if not rule.names:
        return ""
    more = len(rule.names) - 1
    few = ", ".join(rule.names) if more <= 2 else f"{rule.names[0]} and {more} more"
    return f" ({few})"
