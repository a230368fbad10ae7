"""What spans clusters in `hanse status`: the items of views, as the page has them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
import msgspec

from hanse.cli.tables import table
from hanse.model.view import FeatureItem, State

SECTIONS = {
    "federated": ("federatedServices", "FEDERATED SERVICE"),
    "statefulsets": ("statefulSets", "STATEFULSET"),
    "gslb": ("globalHosts", "GLOBAL HOST"),
    "policies": ("policies", "POLICY"),
}
"""By the name of a view: its key in the document, and the head of its table."""

_COLORS: Mapping[State, str | None] = {"bad": "red", "warn": "yellow", "good": None, "idle": None}

Items = Mapping[str, Mapping[str, FeatureItem]]


def json_document(items: Items, namespace: str) -> dict[str, Any]:
    """The items of each view as JSON values, by the view's key in the JSON of `hanse status`.

    Only those of `namespace`, unless that is "".
    """
    return {
        key: [msgspec.to_builtins(one) for one in _in_namespace(items[name], namespace)]
        for name, (key, _) in SECTIONS.items()
    }


def print_tables(
    items: Items, namespace: str, *, wide: bool, names: Iterable[str] = SECTIONS
) -> None:
    """Print a table for each view that has items in `namespace` ("": in any).

    With `wide` there is a column with all details. `names` are the views, in order.
    """
    for name in names:
        _, head = SECTIONS[name]
        shown = _in_namespace(items[name], namespace)
        rows = [_row(one, is_host=name == "gslb", wide=wide) for one in shown]
        if rows:
            click.echo()
            click.echo(table((head, "STATE", "CLUSTERS", *(("DETAILS",) if wide else ())), rows))


def _in_namespace(items: Mapping[str, FeatureItem], namespace: str) -> Iterator[FeatureItem]:
    """The items of a namespace; all for ""."""
    return (one for one in items.values() if namespace in ("", one.namespace))


def _row(one: FeatureItem, *, is_host: bool, wide: bool) -> tuple[str, ...]:
    """An item's cells: name, coloured state, each cluster's part or `-`, and with `wide` details.

    A host is called by its name alone, others by NAMESPACE/NAME.
    """
    clusters = (
        click.style(f"{part.cluster} {part.text}".rstrip(), fg=_COLORS[part.state])
        for part in one.parts
    )
    name = one.name if is_host else f"{one.namespace}/{one.name}".lstrip("/")
    state = click.style(one.told, fg=_COLORS[one.state])
    details = "; ".join(f"{k}: {v}" for k, v in one.facts if v)
    return (name, state, "; ".join(clusters) or "-", *((details,) if wide else ()))
