"""The global options: which clusters a command is about, and how it logs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:  # its import is a tenth of a start
    from pathlib import Path

C = TypeVar("C", bound=Callable[..., Any])


class GlobalOptions(NamedTuple):
    """The global options as they were given; no Struct, since msgspec is a fifth of a start."""

    kubeconfig: "Path | None" = None
    context: str = ""
    verbose: bool = False
    log_format: str = ""
    debug: bool = False


def global_options(context: click.Context) -> GlobalOptions:
    """The global options given so far, kept in the root context; the defaults if none was given."""
    found = context.find_root().obj
    return found if isinstance(found, GlobalOptions) else GlobalOptions()


def with_global_options(command: C) -> C:
    """Add the global options, shown in its help, to the root command in place, and return it."""
    for option in reversed(_global_options(hidden=False)):
        command.params.insert(0, option)  # type: ignore[attr-defined]  # click's decorators make a Command of it
    return command


def accept_global_options(command: click.Command) -> click.Command:
    """Add the global options, hidden, to a command and its subcommands in place, and return it.

    Options that a command has itself stay its own; to one that has --debug none is added.
    """
    taken = {name for param in command.params for name in param.opts}
    if "--debug" not in taken:
        command.params += [o for o in _global_options(hidden=True) if not taken & set(o.opts)]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            accept_global_options(inner)
    return command


def _global_options(*, hidden: bool) -> list[click.Option]:
    """New eager options --kubeconfig, --context, --verbose, --log-format and --debug.

    `hidden` says whether help leaves them out. Values are kept in the root context, not passed to
    commands.
    """

    def option(*names: str, **about: Any) -> click.Option:
        """An eager option whose value `_remember` keeps; commands do not get it."""
        about.setdefault("default", None)
        return click.Option(
            names, **about, expose_value=False, callback=_remember, hidden=hidden, is_eager=True
        )

    return [
        option(
            "--kubeconfig",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help="Read clusters from this file; else $KUBECONFIG, else ~/.kube/config.",
        ),
        option(
            "--context",
            metavar="NAME",
            help="Only the cluster of this context.",
            shell_complete=_contexts,
        ),
        option("-v", "--verbose", is_flag=True, help="Tell more while working."),
        option(
            "--log-format",
            type=click.Choice(("human", "json")),
            help="How log lines look; an agent writes JSON unless a person watches.",
        ),
        option("--debug", is_flag=True, help="Show where in the program an error arose."),
    ]


def _contexts(context: click.Context, parameter: click.Parameter, prefix: str) -> list[str]:  # noqa: ARG001 - click's signature
    """Shell completion: the contexts that begin with `prefix`; none if the kubeconfig is unusable.

    With a --context typed before, only that.
    """
    from hanse.cli.clusters import configured_clusters
    from hanse.kube.errors import BadCredentials

    try:
        clusters = configured_clusters(global_options(context))
        return [one.name for one in clusters if one.name.startswith(prefix)]
    except BadCredentials:
        return []


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Option callback: keep a value in the root context's `GlobalOptions`; not None or False.

    The value of --kubeconfig is kept as a `Path`.
    """
    if value is None or value is False:
        return
    if parameter.name == "kubeconfig":
        from pathlib import Path

        value = Path(value)
    root = context.find_root()
    assert parameter.name is not None, "options have names"
    root.obj = global_options(context)._replace(**{parameter.name: value})
