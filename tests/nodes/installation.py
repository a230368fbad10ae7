"""Hanse installed as users do: our image and the Helm chart, as pods on nodes with containers."""

import asyncio
import hashlib
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from msgspec import Struct
from tools import image

from hanse.local.ranges import address_ranges
from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.nodes.cluster_nodes import dns_service
from hanse.local.real.nodes.image import write_images
from hanse.local.real.programs import HELM_PROGRAM
from tests.cli.programs import CommandResult, environment
from tests.nodes.fleet import NodesFleet
from tests.nodes.starting import CLUSTERS, starting

SYSTEM = "hanse-system"
BROKER = "broker"
INSTALL_SECONDS = 180


class Installation(Struct, frozen=True):
    """Clusters whose agents and name servers are pods of the chart."""

    fleet: NodesFleet
    chart: Path
    helm: Path

    def run_helm_everywhere(self, command: str, *settings: str) -> None:
        """Install or upgrade in all clusters at once; has to succeed."""
        with ThreadPoolExecutor() as threads:
            runs = [threads.submit(self.run_helm, command, c, *settings) for c in CLUSTERS]
        for run in runs:
            assert run.result().status == 0, run.result().err
        # Helm takes a Deployment for ready that may be without all but one of its replicas.
        for cluster in CLUSTERS:
            for name in ("deployment/hanse-agent", "deployment/hanse-dns"):
                self.fleet.await_rollout(cluster, SYSTEM, name)

    def run_helm(self, command: str, cluster: str, *settings: str) -> CommandResult:
        """Install or upgrade with these settings, and wait until all pods are ready."""
        folder = self.fleet.running.folder
        chosen = [argument for one in self._settings(cluster, *settings) for argument in one]
        given = (command, "hanse", str(self.chart), *chosen, "--wait")
        where = ("--kubeconfig", str(self.fleet.running.kubeconfig), "--kube-context", cluster)
        more = ("--take-ownership",) if command == "install" else ()
        done = subprocess.run(
            [str(self.helm), *given, *where, *more, "--timeout", f"{INSTALL_SECONDS}s"],
            env=environment(folder),
            capture_output=True,
            text=True,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def hanse(self, *arguments: str) -> str:
        """The output of a command that has to succeed; agents may have to reconnect meanwhile."""
        kubeconfig = ("--kubeconfig", str(self.fleet.running.kubeconfig))
        result = self.fleet.running.run_hanse(*arguments, *kubeconfig, patience=INSTALL_SECONDS)
        assert result.status == 0, result.err
        return result.out

    def _settings(self, cluster: str, *more: str) -> Iterator[tuple[str, str]]:
        """One replica each: a machine of two cores starts them in seconds."""
        address = dns_service(address_ranges(self.fleet.clusters.index(cluster)))
        given = (
            f"clusterId={cluster}",
            f"dns.clusterIp={address}",
            "agent.replicas=1",
            "dns.replicas=1",
            "dns.workers=1",
        )
        yield from (("--set", one) for one in given)
        for one in more:
            is_switch = one.endswith(("=true", "=false"))
            yield "--set" if is_switch else "--set-literal", one


@contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    """Clusters that joined a broker and run the chart's pods, without an agent elsewhere."""
    helm = asyncio.run(find_or_build((HELM_PROGRAM,), cache_folder()))["helm"]
    _write_image(folder)
    options = ("--no-agents", "--node-names", "distinct", "--dual-stack", "--image", "hanse.tar")
    with starting(folder, "flat", *options) as fleet:
        found = Installation(fleet, folder / "chart", helm)
        found.hanse("manifests", "--chart", str(found.chart))
        found.hanse("broker", "init", "--context", BROKER, "--profile", "kep-1645")
        for cluster in fleet.clusters:
            server = ("--broker-server", _broker_url(fleet))
            joined = ("--broker", BROKER, "--cluster-id", cluster, "--context", cluster)
            found.hanse("join", *joined, *server)
        found.run_helm_everywhere("install")
        yield found


def _broker_url(fleet: NodesFleet) -> str:
    """Where pods reach the broker: in the network between the clusters, by the same port."""
    config = yaml.safe_load(fleet.running.kubeconfig.read_text())
    [server] = [one["cluster"]["server"] for one in config["clusters"] if one["name"] == BROKER]
    return f"https://{address_ranges(len(CLUSTERS)).api_server}:{urlsplit(server).port}"


def _write_image(folder: Path) -> None:
    """Write our image as `make image` does; the layer of what we depend on is kept for later."""
    text = f"{image.LOCK.read_text()}{image.PACKAGES}"
    runtime = cache_folder() / f"runtime-{hashlib.sha256(text.encode()).hexdigest()[:16]}.tar"
    if not runtime.exists():
        written = runtime.with_suffix(f".{os.getpid()}")
        image.write_runtime_layer(written)
        written.rename(runtime)
    own = folder / "own.tar"
    image.write_own_layer(own)
    write_images(folder / "hanse.tar", [image.hanse_image(runtime, own)])
