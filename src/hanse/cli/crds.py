"""`hanse crds`: the definitions of all our kinds, to be piped into `kubectl apply`."""

import json

import click

from hanse.model.objects import Wire


@click.command("crds")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON List instead of YAML.")
@click.option("--kind", "kinds", multiple=True, metavar="NAME", help="Only this kind; repeatable.")
@click.option("--stand-ins", is_flag=True, help="Print open stand-ins for kinds of others instead.")
def command(as_json: bool, kinds: tuple[str, ...], stand_ins: bool) -> None:
    """Print the definitions of all kinds that Hanse brings.

    \b
    Examples:
      hanse crds | kubectl apply -f -
      hanse crds --kind Network
      hanse crds --stand-ins --json
    """
    from hanse.cli.yaml_text import to_yaml
    from hanse.model import crds

    known = crds.placeholder_crds() if stand_ins else crds.crds()
    chosen = _chosen(known, kinds)
    if as_json:
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": chosen}, indent=2))
    else:
        click.echo(to_yaml(chosen, width=100), nl=False)


def _chosen(known: tuple[Wire, ...], wanted: tuple[str, ...]) -> list[Wire]:
    """The definitions of the wanted kinds, all if none is named; a usage error for an unknown one.

    A kind is named by kind, plural, short name or the definition's full name, in any case; the
    order is that of `known`.
    """
    for name in wanted:
        if not any(name.lower() in _accepted_names(crd) for crd in known):
            kinds = ", ".join(sorted(crd["spec"]["names"]["kind"] for crd in known))
            raise click.UsageError(f"There is no kind {name!r}. The kinds are: {kinds}.")
    lowered = {name.lower() for name in wanted}
    return [crd for crd in known if not lowered or lowered & _accepted_names(crd)]


def _accepted_names(crd: Wire) -> set[str]:
    """The names, lower case, by which --kind can choose a definition."""
    names = crd["spec"]["names"]
    full = crd["metadata"]["name"]
    return {full, names["plural"], names["singular"], *names.get("shortNames", ())}
