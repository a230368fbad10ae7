"""`hanse help`: what `--help` says, found the other way round."""

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
    found, at = root.command, root
    for word in words:
        inner = found.get_command(at, word) if isinstance(found, click.Group) else None
        if inner is None:
            raise click.UsageError(f"There is no command {' '.join(words)!r}", root)
        found, at = inner, click.Context(inner, info_name=word, parent=at)
    click.echo(found.get_help(at))
