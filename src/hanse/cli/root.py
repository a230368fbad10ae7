"""The root command: loads and runs a command, and prints errors as one line."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from hanse.cli.errors import EXIT_INTERNAL_ERROR, EXIT_INTERRUPTED, format_error
from hanse.cli.settings import accept_global_options, with_global_options

COMMANDS = {
    "up": "Run a whole federation on this machine.",
    "local": "Make things go wrong in a running local federation, and right again.",
    "dashboard": "Print a link that lets a browser into the dashboard.",
    "console": "Serve the page over a whole fleet, read-only.",
    "status": "Show every cluster at a glance, and first what is wrong.",
    "check": "Check whether clusters are fit for an installation.",
    "doctor": "Find what is wrong and say how to mend it.",
    "explain": "Explain a finding by its code; without one, list all codes.",
    "gather": "Write a support bundle: findings, objects, logs and versions, without secrets.",
    "verify": "Try whether services, names and packets arrive between clusters.",
    "plan": "Show what would change in which cluster if a file were applied.",
    "broker": "Set up the API server by which clusters share what they export.",
    "join": "Let a cluster join a broker, or a Federation, or both.",
    "dissolve": "End a Federation: nothing of it remains in any member.",
    "leave": "Let a cluster leave a broker, a Federation, or both.",
    "export": "Export a Service to the other clusters, and show the result.",
    "migrate": "Print what moves a cluster's federated Services to Antrea Multi-cluster.",
    "tenant": "Create tenants, each with networks of its own.",
    "networks": "Look at the networks of tenants.",
    "statefulsets": "Show where each replica of a federated StatefulSet is.",
    "policies": "Show where each federated policy is applied, blocked or in conflict, and why.",
    "gslb": "Show who leads global load balancing, and change it after a disaster.",
    "resolve": "Show what DNS answers, from each cluster, and why.",
    "agent": "Run one cluster's agent.",
    "dns": "Serve the names of multi-cluster services.",
    "guard": "Keep the networks of tenants apart on this machine.",
    "cni": "Be a CNI plugin that hands a pod's cni-args on to another plugin.",
    "netcheck": "Answer and make connections, as pods of `hanse verify` do.",
    "crds": "Print the definitions of all kinds that Hanse brings.",
    "manifests": "Print what an installation is made of, or write its Helm chart.",
    "uninstall": "Take Hanse out of a cluster, and leave nothing behind.",
    "completion": "Print the completion script of a shell.",
    "help": "Show the help of a command.",
    "version": "Print the version of Hanse, and of clusters.",
}
"""The commands in the order of `--help`, each with the first line of its own help."""


def _load(name: str) -> click.Command:
    """Import a command from the module of its name, or from `command` in the folder of its name."""
    module = import_module(f"hanse.cli.{name}")
    if hasattr(module, "__path__"):
        module = import_module(f"hanse.cli.{name}.command")
    command: click.Command = module.command
    return command


class Commands(click.Group):
    """Commands that are imported when they are called, so that each starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names of all commands, in the order of `COMMANDS`; imports none."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command, with the global options and shell completion of names added.

        None if there is no such command.
        """
        if cmd_name not in COMMANDS:
            return None
        from hanse.cli.name_completion import complete_names

        return complete_names(accept_global_options(_load(cmd_name)))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; raises `click.UsageError` for an unknown command.

        Its text suggests the most similar command, if one is similar.
        """
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"There is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the list of commands from their short help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@with_global_options
@click.group(
    "hanse",
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.pass_context
def hanse(context: click.Context) -> None:
    """Hanse: a federation control plane for Kubernetes. Many clusters, one network.

    \b
    Examples:
      hanse up                       three clusters and their agents, in seconds
      hanse status                   what the clusters of the kubeconfig look like
      hanse doctor                   what is wrong with them
      hanse help up                  all about one command

    As a plugin it is also `kubectl hanse ...`.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status; an error is printed as one line on stderr.

    0 after help, the error's own status (1, or 2 for bad input) after a `ClickException`, 130 after
    an interrupt, and 70 for an unexpected error, whose traceback is printed instead with --debug.
    """
    name = "kubectl hanse" if os.path.basename(sys.argv[0]) == "kubectl-hanse" else "hanse"
    try:
        status = hanse.main(
            list(arguments), name, complete_var="_HANSE_COMPLETE", standalone_mode=False
        )
    except click.exceptions.Abort:
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        click.echo(format_error(error), err=True)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the boundary to the user
        if "--debug" in arguments:
            import traceback

            traceback.print_exc()
        else:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            click.echo(f"hanse: unexpected {text}; run it with --debug to see where", err=True)
        return EXIT_INTERNAL_ERROR
    return status if isinstance(status, int) else 0
