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

from hanse.features.gslb.names import SECRET, SECRET_KEY
from hanse.local.ranges import address_ranges
from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.nodes.cluster_nodes import dns_service
from hanse.local.real.nodes.image import write_images
from hanse.local.real.programs import HELM_PROGRAM
from hanse.local.up.sample import GLOBAL_ZONE
from hanse.model.kinds.gslb import NAMESPACE as GSLB_NAMESPACE
from tests.cli.programs import CommandResult, environment
from tests.nodes.fleet import NodesFleet
from tests.nodes.starting import CLUSTERS, starting

SYSTEM = "hanse-system"
BROKER = "broker"
FEDERATION = "league"
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
            f"dns.globalZones={{{GLOBAL_ZONE}}}",
            "gslb.enabled=true",
            f"gslb.isLeader={str(cluster == CLUSTERS[0]).lower()}",
            f"gslb.clusters={{{','.join(CLUSTERS)}}}",
        )
        yield from (("--set", one) for one in given)
        for one in more:
            is_switch = one.endswith(("=true", "=false"))
            yield "--set" if is_switch else "--set-literal", one


@contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    """Clusters of a broker and a Federation that run the chart's pods, without agents elsewhere."""
    helm = asyncio.run(find_or_build((HELM_PROGRAM,), cache_folder()))["helm"]
    _write_image(folder)
    options = ("--no-agents", "--node-names", "distinct", "--dual-stack", "--image", "hanse.tar")
    with starting(folder, "routed", *options) as fleet:
        found = Installation(fleet, folder / "chart", helm)
        found.hanse("manifests", "--chart", str(found.chart))
        found.hanse("broker", "init", "--context", BROKER, "--profile", "kep-1645")
        for cluster in fleet.clusters:
            broker = ("--broker", BROKER, "--broker-server", _server_url(fleet, BROKER))
            supervisor = () if cluster == CLUSTERS[0] else ("--supervisor", CLUSTERS[0])
            federation = ("--federation", FEDERATION, "--supervises", *supervisor)
            member = ("--cluster-id", cluster, "--context", cluster)
            found.hanse(
                "join", *broker, *federation, "--server", _server_url(fleet, cluster), *member
            )
        found.run_helm_everywhere("install")
        yield found


def _server_url(fleet: NodesFleet, cluster: str) -> str:
    """Where pods reach an API server: in the network between the clusters, by the same port."""
    config = yaml.safe_load(fleet.running.kubeconfig.read_text())
    [server] = [one["cluster"]["server"] for one in config["clusters"] if one["name"] == cluster]
    index = (*CLUSTERS, BROKER).index(cluster)
    return f"https://{address_ranges(index).api_server}:{urlsplit(server).port}"


def give_gslb_credentials(installation: Installation) -> None:
    """What the guide asks for: in each cluster an account of leaders, and the way to all."""
    fleet = installation.fleet
    config = yaml.safe_load(fleet.running.kubeconfig.read_text())
    rights = installation.hanse("gslb", "rights")
    for cluster in fleet.clusters:
        fleet.must(cluster, "apply", "-f", "-", stdin=rights)
    token = ("create", "token", "gslb-leader", "--duration=720h")
    users = [
        {"name": one, "user": {"token": fleet.must(one, "-n", GSLB_NAMESPACE, *token).strip()}}
        for one in fleet.clusters
    ]
    servers = [
        {
            "name": one["name"],
            "cluster": one["cluster"] | {"server": _server_url(fleet, one["name"])},
        }
        for one in config["clusters"]
        if one["name"] in fleet.clusters
    ]
    contexts = [{"name": one, "context": {"cluster": one, "user": one}} for one in fleet.clusters]
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": servers,
        "users": users,
        "contexts": contexts,
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET},
        "stringData": {SECRET_KEY: yaml.safe_dump(kubeconfig)},
    }
    for cluster in fleet.clusters:
        fleet.apply(cluster, GSLB_NAMESPACE, secret)


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
