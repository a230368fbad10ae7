"""`hanse explain`: what a finding means."""

import difflib

import click

from hanse.cli.errors import InputError


@click.command("explain")
@click.argument("code", required=False, default="")
def command(code: str) -> None:
    """Explain a finding by its code; without one, list all codes.

    \b
    Examples:
      hanse explain ClusterSilent
      hanse explain
    """
    from hanse.model.finding_codes import CODES

    if not code:
        for name, one in CODES.items():
            click.echo(f"{name}: {one.meaning}")
        return
    names = {name.lower(): name for name in CODES}
    known = names.get(code.lower())
    if known is None:
        near = difflib.get_close_matches(code.lower(), names, n=1)
        hint = f", did you mean {names[near[0]]}?" if near else ";"
        raise InputError(f"there is no finding {code!r}{hint} `hanse explain` lists all")
    one = CODES[known]
    click.echo(f"{known}\n\n{one.meaning}\n\nResolved when: {one.resolved}\n")
    click.echo("`hanse doctor` prints it with its subject and the commands that mend it.")
