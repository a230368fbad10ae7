"""How a person meets a local federation: progress, a table of what is where, a clean end."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NoReturn

import click
from msgspec.structs import replace

from hanse import app
from hanse.cli.errors import EXIT_INTERRUPTED, CommandFailed, InputError
from hanse.cli.program_name import program_name
from hanse.cli.tables import table
from hanse.cli.up.dashboard import LocalDashboard
from hanse.cli.up.dns import CLUSTERLESS_VIEW, LocalDns
from hanse.features.admission.options import AdmissionOptions
from hanse.features.federated.options import FederatedOptions
from hanse.features.gslb.options import GslbOptions
from hanse.features.networks.names import NetworkName
from hanse.kube.errors import KubeError
from hanse.kube.transport import Transport
from hanse.local.real.errors import RealClusterError
from hanse.local.up.control import LocalFederationStatus
from hanse.local.up.errors import UpError
from hanse.local.up.federation import ClusterStateReader, DialCluster, FederationOptions, federation
from hanse.local.up.folder import Folder
from hanse.local.up.sample import EXTERNAL_HOSTNAME, SAMPLE_TENANT
from hanse.local.up.sample import HOST as GLOBAL_HOST
from hanse.local.up.topology import BROKER, Member
from hanse.model.facts import ClusterState
from hanse.runtime.readiness import not_ready_reason

SCRIPT_STOP_TIMEOUT = timedelta(seconds=3)
"""How long a script that was told to end may take for it."""

AGENT_START_TIMEOUT = timedelta(seconds=10)

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KILLED = 128
"""A shell's status of what a signal ended is this plus the signal's number."""


class UpSession:
    """One run of `hanse up`."""

    def __init__(
        self,
        wishes: FederationOptions,
        folder: Folder,
        script: str | None,
        began: float,
        dns_port: int = 0,
        dashboard_port: int = 0,
    ) -> None:
        self._wishes = wishes
        self._folder = folder
        self._script = script
        self._began = began
        self._dns_port = dns_port
        self._dashboard_port = dashboard_port
        self._ready = False
        self._caught: signal.Signals | None = None
        self._apart: int | None = None
        """The process group of a script that runs apart from us."""

    async def run(self) -> int:
        """Start, stay or run the script, and end everything; the exit status."""
        life = asyncio.create_task(self._live(), name="federation")
        with self._handling_signals(life):
            await asyncio.wait({life})
        if self._caught is not None:
            kept = f"; what the clusters held is in {self._folder.path}"
            self._say(f"ended{kept if self._ready and self._folder.keep else ''}")
        if not life.cancelled():
            error = life.exception()
            if error is not None:
                raise _user_error(error)
            return life.result()
        stayed = self._ready and self._script is None
        return 0 if stayed else _KILLED + (self._caught or signal.SIGINT)

    async def _live(self) -> int:
        with closing(LocalDashboard(self._dashboard_port)) as page:
            return await self._live_with(page)

    async def _live_with(self, page: LocalDashboard) -> int:
        networks = (NetworkName(SAMPLE_TENANT),) if self._wishes.sample else ()
        names = LocalDns(self._wishes.members, self._dns_port, networks)
        wishes = replace(
            self._wishes, dns=names.addresses, dashboard=page.address, login_link=page.login_link
        )
        run_agent = partial(_run_agent, names, page)
        async with (
            names.running(),
            federation(wishes, self._folder, run_agent, self._say) as whole,
            page.running(whole),
        ):
            self._ready = True
            took = time.monotonic() - self._began
            self._say(f"{_cluster_count(self._wishes)} ready in {took:.1f} s")
            if self._script is not None:
                return await self._run_script(self._script, names.addresses[CLUSTERLESS_VIEW], page)
            click.echo(self._summary(whole.status(), page.login_link()))
            await asyncio.get_running_loop().create_future()  # until it is cancelled
            return 0

    async def _run_script(self, script: str, dns: str, page: LocalDashboard) -> int:
        """Run it where a person could type to it, or else apart, so that all of it can be ended."""
        apart = not sys.stdin.isatty()
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
            asyncio.create_subprocess_shell(script, env=environment, start_new_session=apart)
        )
        try:
            shell = await asyncio.shield(starting)  # one half started could not be ended whole
            self._apart = shell.pid if apart else None
            status = await shell.wait()
        finally:
            shell = await starting
            self._apart = shell.pid if apart else None
            await _stop_script(shell, everything=apart)
        return status if status >= 0 else _KILLED - status

    @contextmanager
    def _handling_signals(self, life: "asyncio.Task[int]") -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def caught(which: signal.Signals) -> None:
            if self._caught is not None:
                self._force()
            self._caught = which
            if sys.stderr.isatty():
                click.echo(err=True)  # the terminal has written ^C
            self._say("stopping; once more to force it")
            life.cancel()

        for which in _SIGNALS:
            loop.add_signal_handler(which, caught, which)
        try:
            yield
        finally:
            for which in _SIGNALS:
                loop.remove_signal_handler(which)

    def _force(self) -> NoReturn:
        """End at once; servers of ours end with this process, a script does not."""
        self._say("stopped by force")
        if self._apart is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._apart, signal.SIGKILL)
        os._exit(EXIT_INTERRUPTED)

    def _say(self, text: str) -> None:
        click.echo(text, err=True)

    def _summary(self, told: LocalFederationStatus, entrance: str) -> str:
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
            for one in told.clusters
        ]
        first, last = told.clusters[0].name, told.clusters[-2].name
        host, _, port = told.dns.partition(":")
        example = "web.shop" if self._wishes.sample else "NAME.NAMESPACE"
        own = program_name()
        kept = "kept from run to run" if self._folder.keep else "gone when this ends"
        lines = [
            "",
            table(header, rows),
            "",
            f"Dashboard, once: {click.style(entrance, bold=True)}  (more: `{own} dashboard`)",
            "",
            f"Each is a context of its name; what they hold is {kept}. In another terminal:",
            "",
            f"  export KUBECONFIG={self._folder.kubeconfig}",
            *(["  kubectl get deployments,services -n shop"] if self._wishes.sample else []),
            f"  kubectl --context {last} get nodes",
            f"  dig @{host} -p {port} {example}.svc.clusterset.local",
            *([f"  dig @{host} -p {port} {GLOBAL_HOST}"] if self._wishes.sample else []),
            f"  {own} status",
            f"  {own} local cut {first} {BROKER}",
            "",
            "Ctrl-C ends it.",
        ]
        return "\n".join(lines)


@asynccontextmanager
async def _run_agent(
    names: LocalDns,
    page: LocalDashboard,
    member: Member,
    ways: Mapping[str, Transport],
    dial: DialCluster,
) -> AsyncIterator[ClusterStateReader]:
    # One federation runs in a folder at a time, so the same name takes an old Lease over at once.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    options = app.Options(
        admission=AdmissionOptions(enabled=True, url=url),
        federated=FederatedOptions(hostname=EXTERNAL_HOSTNAME),
        gslb=GslbOptions(loopback=True),
    )
    settings = app.Settings(cluster=member.name, identity="local", options=options)
    agent = app.Agent(
        settings,
        ways[member.name],
        broker=ways[BROKER],
        features=app.features(options),
        hooks=app.hooks(options),
        extra_watches=names.watches_of(member.name),
        new_transport=dial,
    )
    try:
        async with page.showing(agent), agent.running(webhooks=listener), names.feeding_from(agent):
            await _wait_until_ready(agent)
            yield lambda: _cluster_phases(agent)
    finally:
        await agent.close()
        for way in ways.values():
            await way.close()


def _cluster_phases(agent: app.Agent) -> dict[str, str]:
    states = agent.reconciler.informers.facts.all(ClusterState)
    return {s.cluster: f"{s.phase}: {s.reason}" if s.reason else str(s.phase) for s in states}


async def _wait_until_ready(agent: app.Agent) -> None:
    """Wait until an agent works and the others see it; one that cannot yet catches up later.

    What is spread over the fleet would pass by a cluster that does not show itself yet.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(AGENT_START_TIMEOUT.total_seconds()):
            while not agent.is_published or not_ready_reason(agent.reconciler):  # noqa: ASYNC110 - for us alone
                await asyncio.sleep(0.01)


async def _stop_script(shell: asyncio.subprocess.Process, *, everything: bool) -> None:
    """End a script and, where it runs apart, all that it left behind."""
    ways = ((signal.SIGTERM, SCRIPT_STOP_TIMEOUT.total_seconds()), (signal.SIGKILL, None))
    for sign, patience in ways:
        with suppress(ProcessLookupError):
            if everything:
                os.killpg(shell.pid, sign)
            elif shell.returncode is None:
                shell.send_signal(sign)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await shell.wait()
                return


def _bin_folder() -> str:
    """Where `hanse` is, which a script may want to call: not everybody activates an environment."""
    return str(Path(sys.executable).parent)


def _cluster_count(wishes: FederationOptions) -> str:
    count = len(wishes.members) - 1
    return f"{count} cluster{'s' if count > 1 else ''} and the broker are"


def _user_error(error: BaseException) -> BaseException:
    """What is foreseen as one line; a group of one is that one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, UpError):
        return InputError(str(error))
    if isinstance(error, RealClusterError | KubeError):
        return CommandFailed(str(error))
    return error
