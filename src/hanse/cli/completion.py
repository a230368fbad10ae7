"""`hanse completion`: the script that lets a shell complete our commands."""

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      source <(hanse completion bash)                                        in this shell
      hanse completion zsh > ~/.zfunc/_hanse                                 for every zsh
      hanse completion fish > ~/.config/fish/completions/hanse.fish
    """
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    from hanse.cli.root import hanse

    kinds = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    made = kinds[shell](hanse, {}, "hanse", "_HANSE_COMPLETE")
    # Not made.source(): for bash that starts one to ask its version.
    click.echo(made.source_template % made.source_vars())
