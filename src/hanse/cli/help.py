"""`hanse help`: the help of a command."""

import click


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command.

    \b
    Examples:
      hanse help up
      hanse help local cut
    """
    root = context.find_root()
    target, scope = root.command, root
    for word in words:
        inner = target.get_command(scope, word) if isinstance(target, click.Group) else None
        if inner is None:
            raise click.UsageError(f"There is no command {' '.join(words)!r}", root)
        target, scope = inner, click.Context(inner, info_name=word, parent=scope)
    click.echo(target.get_help(scope))
