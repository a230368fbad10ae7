"""One run of `hanse up`: progress, the summary, `--exec`, signals and a clean stop."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from msgspec.structs import replace

from hanse.app.dns import CLUSTERLESS_VIEW, LocalDns, LocalZones
from hanse.cli.errors import EXIT_INTERRUPTED, CommandFailed, InputError
from hanse.cli.program_name import program_name
from hanse.cli.tables import table
from hanse.cli.up.dashboard import LOOPBACK, LocalDashboard
from hanse.cli.up.local_agent import run_agent
from hanse.dns.listeners import Listeners, bind_listeners
from hanse.features.gslb.options import GslbOptions
from hanse.features.networks.names import NetworkName
from hanse.features.networks.options import NetworksOptions
from hanse.kube.errors import KubeError
from hanse.local.real.errors import RealClusterError
from hanse.local.up.control import LocalFederationStatus
from hanse.local.up.errors import UpError, single_error
from hanse.local.up.federation import federation
from hanse.local.up.folder import Folder
from hanse.local.up.options import FederationOptions
from hanse.local.up.sample import EXTERNAL_ZONE, GLOBAL_ZONE, SAMPLE_TENANT
from hanse.local.up.sample import HOST as GLOBAL_HOST
from hanse.local.up.topology import BROKER

if TYPE_CHECKING:  # only nodes with containers need them
    from hanse.local.real.nodes.cluster_nodes import NodeSettings
    from hanse.local.real.nodes.fabric import Fabric

SCRIPT_STOP_TIMEOUT = timedelta(seconds=3)
"""How long a script may take to stop after SIGTERM."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNAL_STATUS = 128
"""A shell's exit status after a signal is this plus the signal's number."""


class UpSession:
    """One run of `hanse up`."""

    def __init__(
        self,
        options: FederationOptions,
        folder: Folder,
        script: str | None,
        began: float,
        dns_port: int = 0,
        dashboard_port: int = 0,
        gslb: GslbOptions = GslbOptions(loopback=True),  # noqa: B008 - a frozen value
        networks: NetworksOptions = NetworksOptions(),  # noqa: B008 - a frozen value
        address_types: Sequence[str] = (),
    ) -> None:
        """Nothing runs until `run`; networks of `address_types` get addresses from a provider.

        `began` is the monotonic time from which the start is measured, `script` the command of
        --exec.
        """
        self._options = options
        self._folder = folder
        self._script = script
        self._began = began
        self._dns_port = dns_port
        self._dashboard_port = dashboard_port
        self._gslb = gslb
        self._networks = networks
        self._address_types = tuple(address_types)
        self._ready = False
        self._received: signal.Signals | None = None
        self._script_group: int | None = None
        """The process group of a script that runs in a session of its own."""

    async def run(self) -> int:
        """Run until a signal or the end of the script, and return the exit status.

        That is the script's own; after a signal 0 if all was ready and there is no script, else 128
        plus its number. Expected errors are raised as `InputError` or `CommandFailed`, others as
        they are. After a signal it prints that it ended.
        """
        task = asyncio.create_task(self._run_dashboard_and_clusters(), name="federation")
        with self._handling_signals(task):
            await asyncio.wait({task})
        error = None if task.cancelled() else task.exception()
        if self._received is not None:
            kept = f"; what the clusters held is in {self._folder.path}"
            saved = self._ready and self._folder.keep and error is None
            self._echo(f"ended{kept if saved else ''}")
        if error is not None:
            raise _user_error(error)
        if not task.cancelled():
            return task.result()
        stayed = self._ready and self._script is None
        return 0 if stayed else _SIGNAL_STATUS + (self._received or signal.SIGINT)

    async def _run_dashboard_and_clusters(self) -> int:
        """Bind the dashboard's port, start the address provider if wanted, and run the rest.

        Returns the exit status.
        """
        async with AsyncExitStack() as stack:
            page = stack.enter_context(closing(LocalDashboard(self._dashboard_port)))
            if self._address_types:
                from hanse.app.network_provider import providing_addresses

                url = await stack.enter_async_context(providing_addresses())
                providers = tuple((type_, url) for type_ in self._address_types)
                self._networks = replace(self._networks, providers=providers)
            return await self._run_with(page)

    async def _run_with(self, page: LocalDashboard) -> int:
        """Run the federation, within a network of nodes with containers if they are wanted.

        Returns the exit status; raises `NodesUnsupported` if such nodes cannot run here.
        """
        if self._options.nodes == "simulated":
            return await self._run_federation(page, None)
        from hanse.local.up.container_nodes import container_nodes

        chosen = self._options
        network = container_nodes(
            chosen.members, chosen.fabric, chosen.node_count, guard=chosen.guard
        )
        async with network as nodes:
            return await self._run_federation(page, nodes)

    async def _run_federation(self, page: LocalDashboard, nodes: "NodeSettings | None") -> int:
        """Run DNS, clusters, agents and dashboard and, once all is ready, the script.

        Returns the script's status. Without a script it prints a summary, and waits until it is
        cancelled.
        """
        networks = (NetworkName(SAMPLE_TENANT),) if self._options.sample else ()
        fabric = nodes.fabric if nodes is not None else None
        dns = LocalDns(
            clusters := [m.name for m in self._options.members if m.runs_workloads],
            LocalZones((GLOBAL_ZONE, *self._gslb.zones), EXTERNAL_ZONE),
            partial(_bind_view, self._dns_port, fabric),
            networks,
        )
        if nodes is not None:
            nodes = replace(
                nodes,
                zones=dns.stub_zones(clusters[0]),
                archives=self._options.images,
                names=self._options.node_names,
                dual_stack=self._options.dual_stack,
                dns="ours" if self._options.agents else "in cluster",
            )
        options = replace(
            self._options,
            containers=nodes,
            dns=dns.addresses,
            dashboard=page.address,
            login_link=page.login_link,
        )
        # Hosts of global.test are answered whatever zones are added.
        known = bool(self._gslb.zones) or tuple(self._gslb.providers) == ("dns",)
        zones = (GLOBAL_ZONE, *self._gslb.zones) if known else ()
        gslb = replace(self._gslb, zones=zones)
        start_agent = partial(run_agent, dns, page, gslb, self._networks, fabric)
        async with (
            dns.running(),
            federation(options, self._folder, start_agent, self._echo) as running,
            page.running(running),
        ):
            await dns.wait_applied()
            self._ready = True
            took = time.monotonic() - self._began
            self._echo(f"{_cluster_count(self._options)} ready in {took:.1f} s")
            if self._script is not None:
                return await self._run_script(self._script, dns.addresses[CLUSTERLESS_VIEW], page)
            click.echo(self._summary(running.status(), page.login_link()))
            await asyncio.get_running_loop().create_future()  # until it is cancelled
            return 0

    async def _run_script(self, script: str, dns: str, page: LocalDashboard) -> int:
        """Run a shell command with KUBECONFIG, HANSE_* and our folder in PATH; returns its status.

        128 plus the number for one that a signal ended. If stdin is no terminal it gets its own
        session, so that at its end, and on cancellation, all its processes can be signalled to
        stop.
        """
        own_session = not sys.stdin.isatty()
        environment = {
            **os.environ,
            "KUBECONFIG": str(self._folder.kubeconfig),
            "HANSE_DIR": str(self._folder.path),
            "HANSE_DNS": dns,
            "HANSE_DASHBOARD": page.address,
            "HANSE_DASHBOARD_TOKEN": page.token,
            "PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), _bin_folder())),
        }
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_shell(script, env=environment, start_new_session=own_session)
        )
        try:
            shell = await asyncio.shield(starting)  # one that is half started could not be stopped
            self._script_group = shell.pid if own_session else None
            status = await shell.wait()
        finally:
            shell = await starting
            self._script_group = shell.pid if own_session else None
            await _stop_script(shell, everything=own_session)
        return status if status >= 0 else _SIGNAL_STATUS - status

    @contextmanager
    def _handling_signals(self, task: "asyncio.Task[int]") -> Iterator[None]:
        """In the block, SIGINT, SIGTERM or SIGHUP cancels the task.

        A second signal kills a script that has its own process group, and ends this process at
        once. After the block they have no handler of ours.
        """
        loop = asyncio.get_running_loop()

        def on_signal(which: signal.Signals) -> None:
            """Cancel the session at the first signal, and say so; force the end at the second."""
            if self._received is not None:
                self._force()
            self._received = which
            task.cancel()  # first: what follows fails where nobody reads what is written
            if sys.stderr.isatty():
                click.echo(err=True)  # the terminal has written ^C
            self._echo("stopping; once more to force it")

        for which in _SIGNALS:
            loop.add_signal_handler(which, on_signal, which)
        try:
            yield
        finally:
            for which in _SIGNALS:
                loop.remove_signal_handler(which)

    def _force(self) -> NoReturn:
        """Say so, kill the script's process group, if it has its own, and exit with status 130."""
        self._echo("stopped by force")
        if self._script_group is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._script_group, signal.SIGKILL)
        os._exit(EXIT_INTERRUPTED)

    def _echo(self, text: str) -> None:
        """Print to standard error."""
        click.echo(text, err=True)

    def _summary(self, status: LocalFederationStatus, login_link: str) -> str:
        """The table of clusters, the login link, and commands to try."""
        header = (
            *("CLUSTER", "ROLE", "API SERVER", "DNS", "SERVICES", "PODS", "NODES"),
            "LOAD BALANCERS",
        )
        rows = [
            (
                click.style(one.name, bold=True),
                one.standing,
                one.url,
                one.dns.partition(":")[2] or "-",
                one.services,
                one.pods or "-",
                one.nodes or "-",
                one.load_balancers or "-",
            )
            for one in status.clusters
        ]
        first, last = status.clusters[0].name, status.clusters[-2].name
        host, _, port = status.dns.partition(":")
        example = "web.shop" if self._options.sample else "NAME.NAMESPACE"
        program = program_name()
        kept = "kept from run to run" if self._folder.keep else "gone when this ends"
        lines = [
            "",
            table(header, rows),
            "",
            f"Dashboard, once: {click.style(login_link, bold=True)}  (more: `{program} dashboard`)",
            "",
            f"Each is a context of its name; what they hold is {kept}. In another terminal:",
            "",
            f"  export KUBECONFIG={self._folder.kubeconfig}",
            *(["  kubectl get deployments,services -n shop"] if self._options.sample else []),
            f"  kubectl --context {last} get nodes",
            f"  dig @{host} -p {port} {example}.svc.clusterset.local",
            *([f"  dig @{host} -p {port} {GLOBAL_HOST}"] if self._options.sample else []),
            f"  {program} status",
            f"  {program} local cut {first} {BROKER}",
            "",
            "Ctrl-C ends it.",
        ]
        return "\n".join(lines)


def _bind_view(port: int, fabric: "Fabric | None", view: str) -> tuple[Listeners, ...]:
    """The bound sockets of a DNS view: on loopback and, with a fabric, in the network of nodes.

    Only the clusterless view has the port of `--dns-port`, others any free one. Raises `InputError`
    if it cannot be used.
    """
    port = port if view == CLUSTERLESS_VIEW else 0
    try:
        local = bind_listeners(LOOPBACK, port, workers=1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"--dns-port: cannot listen on {LOOPBACK}:{port} ({reason}); choose another"
        ) from None
    if fabric is None:
        return (local,)
    return (local, *fabric.bind_dns(BROKER if view == CLUSTERLESS_VIEW else view))


async def _stop_script(shell: asyncio.subprocess.Process, *, everything: bool) -> None:
    """End a script by SIGTERM, after `SCRIPT_STOP_TIMEOUT` by SIGKILL, and wait for its end.

    With `everything` its whole process group is signalled; if the script itself has ended already,
    the group gets SIGTERM alone and is not waited for.
    """
    attempts = ((signal.SIGTERM, SCRIPT_STOP_TIMEOUT.total_seconds()), (signal.SIGKILL, None))
    for sign, seconds in attempts:
        with suppress(ProcessLookupError):
            if everything:
                os.killpg(shell.pid, sign)
            elif shell.returncode is None:
                shell.send_signal(sign)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await shell.wait()
                return


def _bin_folder() -> str:
    """The folder of the running Python interpreter, which also has the program `hanse`."""
    return str(Path(sys.executable).parent)


def _cluster_count(options: FederationOptions) -> str:
    """The subject and verb of the ready message: `N clusters and the broker are`."""
    count = len(options.members) - 1
    return f"{count} cluster{'s' if count > 1 else ''} and the broker are"


def _user_error(error: BaseException) -> BaseException:
    """The error that the user sees, returned to be raised: `InputError` or `CommandFailed`.

    Errors that are not expected are returned as they are; a group of one error is replaced by that
    error.
    """
    error = single_error(error)
    if isinstance(error, UpError):
        return InputError(str(error))
    if isinstance(error, RealClusterError | KubeError):
        return CommandFailed(str(error))
    if isinstance(error, OSError) and error.filename:
        remedy = "make room, or give another folder with --dir"
        return CommandFailed(f"{error.filename} cannot be written: {error.strerror}; {remedy}")
    return error
