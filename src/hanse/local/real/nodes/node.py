"""One node with containers: its namespaces, its servers and their order."""

import asyncio
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hanse.features.networks.cni import STATE_FOLDER
from hanse.local.real.errors import ServerDied
from hanse.local.real.nodes.fabric import Fabric, IPNetwork
from hanse.local.real.nodes.namespaces import MachineNamespace
from hanse.local.real.nodes.settings import (
    NODE_FOLDER,
    NodeConfig,
    guard_arguments,
    kubelet_arguments,
    write_settings,
)
from hanse.local.real.programs import COREDNS_SERVER, KUBE_PROXY, KUBELET, NETCHECK
from hanse.local.real.server import Server, ServerCommand

CONTAINERD = "containerd"
GUARD = "guard"
_HANSE = ("-c", "from hanse.cli import main; main()")

_KUBELET_TUNABLES = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""Settings of the whole machine that a kubelet would change; it sees them as it wants them."""


class ContainerNode:
    """A node that runs containers until it is stopped or its fabric ends."""

    def __init__(
        self,
        config: NodeConfig,
        binaries: Mapping[str, Path],
        fabric: Fabric,
        logs: Path,
        on_death: Callable[[ServerDied], None],
    ) -> None:
        """Prepare one node; nothing runs yet. `on_death` is called if a server ends by itself."""
        self.config = config
        self._binaries = {**binaries, GUARD: Path(sys.executable)}
        self._fabric = fabric
        self._logs = logs
        self._on_death = on_death
        self._namespace: MachineNamespace | None = None
        self.servers: dict[str, Server] = {}

    async def prepare(self, images: Sequence[Path]) -> None:
        """Create the namespaces unless they exist, start containerd and import the images."""
        if self._namespace is None:
            self._namespace = await self._create_namespace()
            self.servers = self._create_servers(self._namespace)
        await self.servers[CONTAINERD].start()
        await self._import_images(self._namespace, images)

    async def start(self) -> None:
        """Start all servers of a prepared node that use the API server: all but containerd."""
        others = [server for name, server in self.servers.items() if name != CONTAINERD]
        await asyncio.gather(*(server.start() for server in others))

    async def stop(self) -> None:
        """Stop all servers; containers and namespaces stay until the fabric ends."""
        await asyncio.gather(*(server.stop() for server in self.servers.values()))

    async def _create_namespace(self) -> MachineNamespace:
        """New namespaces, connected to the fabric, with private folders, settings and masquerading.

        Deletes the data that containerd, kubelet and the network plugin of an earlier run left.
        """
        node = self.config
        for stale in ("containerd", "kubelet", "addresses"):
            shutil.rmtree(node.directory / stale, ignore_errors=True)
        write_settings(node)
        namespace = MachineNamespace(self._fabric.group, self._binaries[NETCHECK.name])
        addresses = (node.address, *((node.ipv6.address,) if node.ipv6 else ()))
        await self._fabric.attach(node.cluster, namespace.pid, addresses, node.number)
        await namespace.run("sh", "-eu", stdin=_private_folders(node))
        await namespace.run("nft", "-f", "-", stdin=_masquerade(node, self._fabric))
        return namespace

    async def _import_images(self, namespace: MachineNamespace, images: Sequence[Path]) -> None:
        """Wait at most 30 s for containerd, and import the archives of images into it.

        Raises `TimeoutError`, and `NodesFailed` if an import fails.
        """
        socket = "/run/containerd/containerd.sock"
        wait = f"until [ -S {socket} ]; do sleep 0.05; done"
        async with asyncio.timeout(30):
            await namespace.run("sh", "-c", wait)
        for image in images:
            await namespace.run("ctr", "--namespace=k8s.io", "images", "import", "-", stdin=image)

    def _create_servers(self, namespace: MachineNamespace) -> dict[str, Server]:
        """The servers of the node by name, not started; with a guard if the node has one."""
        arguments: dict[str, Sequence[str]] = {
            CONTAINERD: (f"--config={NODE_FOLDER}/containerd.toml",),
            KUBELET.name: kubelet_arguments(self.config),
            KUBE_PROXY.name: (f"--config={NODE_FOLDER}/kube-proxy.yaml",),
            COREDNS_SERVER.name: ("-conf", f"{NODE_FOLDER}/Corefile"),
        }
        if self.config.guard:
            arguments[GUARD] = (*_HANSE, *guard_arguments(self.config))
        return {
            name: Server(self._command(namespace, name, given), self._fabric.group, self._on_death)
            for name, given in arguments.items()
        }

    def _command(
        self, namespace: MachineNamespace, program: str, arguments: Sequence[str]
    ) -> ServerCommand:
        """The command that runs a program inside the node's namespaces, with its own log."""
        executable, *rest = namespace.command(str(self._binaries.get(program, program)), *arguments)
        return ServerCommand(
            cluster=self.config.cluster,
            program=program,
            executable=Path(executable),
            arguments=tuple(rest),
            directory=self.config.directory,
            log=self._logs / f"{self.config.name}-{program}.log",
        )


def _private_folders(node: NodeConfig) -> str:
    """A shell script that gives a node its own /run, logs, CNI state, interfaces and sysctls.

    It also makes the node's folder appear as NODE_FOLDER, and lets the node forward.
    """
    lines = [
        # The folder may be in one that is hidden next.
        f"mount --bind {shlex.quote(str(node.directory))} /mnt",
        "mount -t tmpfs run /run",
        "mount -t tmpfs log /var/log",
        # Each node has its own; the machine itself may be a guarded node, too.
        f"mkdir -p {STATE_FOLDER}",
        f"mount -t tmpfs cni {STATE_FOLDER}",
        # The interfaces of the node instead of the machine's; control groups stay as they are.
        "mkdir /run/sysfs",
        "mount -t sysfs sysfs /run/sysfs",
        "mount --bind /run/sysfs/class/net /sys/class/net",
        "mount --bind /run/sysfs/devices/virtual/net /sys/devices/virtual/net",
        f"mkdir {NODE_FOLDER}",
        f"mount --move /mnt {NODE_FOLDER}",
    ]
    for setting, value in _KUBELET_TUNABLES.items():
        shown = f"/run/{setting.replace('/', '.')}"
        lines += [f"echo {value} >{shown}", f"mount --bind {shown} /proc/sys/{setting}"]
    lines.append("sysctl -qw net.ipv4.ip_forward=1")
    if node.ipv6 is not None:
        lines.append("sysctl -qw net.ipv6.conf.all.forwarding=1")
    return "\n".join(lines) + "\n"


def _masquerade(node: NodeConfig, fabric: Fabric) -> str:
    """The nftables table by which pods leave their node under its address, as input for `nft`.

    They keep their own towards pods of the cluster and networks that the fabric routes.
    """
    own: list[tuple[IPNetwork, IPNetwork]] = [(node.pods, node.cluster_pods)]
    if node.ipv6 is not None:
        own.append((node.ipv6.pods, node.ipv6.cluster_pods))
    rules = [_masquerade_rule(pods, {all_pods, *fabric.unmasqueraded()}) for pods, all_pods in own]
    hook = "type nat hook postrouting priority srcnat;"
    lines = "\n".join(rules)
    return f"table inet hanse {{\nchain postrouting {{\n{hook}\n{lines}\n}}\n}}\n"


def _masquerade_rule(pods: IPNetwork, kept: set[IPNetwork]) -> str:
    """The nftables rule of one family that masquerades `pods` towards all but `kept` networks."""
    family = "ip" if pods.version == 4 else "ip6"
    same = sorted(str(network) for network in kept if network.version == pods.version)
    targets = f"{{ {', '.join(same)} }}"
    return f"{family} saddr {pods} {family} daddr != {targets} oifname eth0 masquerade"
