"""A broker and its members on the shared fleet of real clusters, with agents as processes."""

import asyncio
import os
import sys
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hanse.kube.client_config import Identity
from hanse.local.kubeconfig import Context, write_kubeconfig
from hanse.local.real.fleet import NAMES, RealFleet
from tests.real.conftest import CommandResult, Kubectl

BROKER_NAMESPACE = "joined-fleet-broker"
ACCOUNTS_NAMESPACE = f"{BROKER_NAMESPACE}-accounts"
"""The broker namespace of these tests, apart from those of other tests."""
SOURCE = "multicluster.kubernetes.io/source-cluster"
_NAMESPACES = ("hanse-system", "shop", BROKER_NAMESPACE, ACCOUNTS_NAMESPACE)


class JoinedFleet(Struct):
    """The shared fleet with a broker, members, and their agents as processes."""

    real: RealFleet
    folder: Path
    kubectl: Kubectl
    running: dict[str, asyncio.subprocess.Process] = {}
    """The agents that run."""

    async def on(self, context: str, *arguments: str, stdin: str = "") -> CommandResult:
        """Run kubectl as an administrator."""
        return await self.kubectl(self.real.kubeconfig, context, *arguments, stdin=stdin)

    async def as_member(self, cluster: str, *arguments: str, stdin: str = "") -> CommandResult:
        """Run kubectl on the broker with the account of a member."""
        namespaced_arguments = ("-n", BROKER_NAMESPACE, *arguments)
        return await self.kubectl(
            self.broker_kubeconfig(cluster), "broker", *namespaced_arguments, stdin=stdin
        )

    async def hanse(self, *arguments: str) -> CommandResult:
        """Run a hanse command and wait for its end."""
        running = await self._start_process(*arguments, "--kubeconfig", str(self.real.kubeconfig))
        output, errors = await running.communicate()
        return CommandResult(running.returncode or 0, output.decode(), errors.decode())

    def broker_kubeconfig(self, cluster: str) -> Path:
        """The kubeconfig by which a cluster's agent connects to the broker."""
        return self.folder / f"{cluster}-broker.kubeconfig"

    async def join(self, cluster: str, *more: str) -> CommandResult:
        return await self.hanse(
            *("join", "--broker", "broker", "--cluster-id", cluster, "--context", cluster),
            *("--broker-namespace", BROKER_NAMESPACE, *more),
        )

    async def grant_rights_of(self, cluster: str, source: Path) -> None:
        """Apply the roles of another version's agent, as its manifests bring them."""
        printed = await self._start_process(
            *("manifests", "--cluster-id", cluster, "--no-crds"), source=source
        )
        output, errors = await printed.communicate()
        assert printed.returncode == 0, errors.decode()
        kinds = ("Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
        documents = output.decode().split("\n---\n")
        rights = [d for d in documents if any(f"\nkind: {kind}\n" in d for kind in kinds)]
        apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        applied = await self.on(cluster, *apply, stdin="\n---\n".join(rights))
        assert applied.status == 0, applied.errors

    async def leave(self, cluster: str) -> CommandResult:
        return await self.hanse(
            *("leave", "--broker", "broker", "--cluster-id", cluster, "--context", cluster),
            *("--broker-namespace", BROKER_NAMESPACE),
        )

    @asynccontextmanager
    async def agent(self, cluster: str, source: Path | None = None) -> AsyncIterator[None]:
        """Run an agent with only the credentials that `hanse join` created.

        `source` has the packages of another version.
        """
        get_secret = ("-n", "hanse-system", "get", "secret", "hanse-broker")
        secret = await self.on(cluster, *get_secret, "-o", "jsonpath={.data.kubeconfig}")
        self.broker_kubeconfig(cluster).write_bytes(b64decode(secret.output))
        token = await self.on(cluster, "-n", "hanse-system", "create", "token", "hanse-agent")
        access = self.real.clusters[cluster].context.access
        own = msgspec.structs.replace(access, identity=Identity(token=token.output.strip()))
        write_kubeconfig(self.folder / f"{cluster}.kubeconfig", [Context(cluster, own)])
        running = await self._start_process(
            *("agent", "--cluster-id", cluster, "--listen", "127.0.0.1:0"),
            *("--kubeconfig", str(self.folder / f"{cluster}.kubeconfig")),
            *(
                "--broker-kubeconfig",
                str(self.broker_kubeconfig(cluster)),
                "--broker-namespace",
                BROKER_NAMESPACE,
            ),
            log=self.folder / f"{cluster}.log",
            source=source,
        )
        self.running[cluster] = running
        try:
            yield
        finally:
            await self.stop_agent(cluster)

    async def stop_agent(self, cluster: str) -> None:
        """Stop a cluster's agent, if it runs."""
        running = self.running.pop(cluster, None)
        if running is not None:
            running.terminate()
            await running.wait()

    async def _start_process(
        self, *arguments: str, log: Path | None = None, source: Path | None = None
    ) -> asyncio.subprocess.Process:
        program = (sys.executable, "-c", "from hanse.cli import main; main()")
        pipe = asyncio.subprocess.PIPE
        stderr = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600) if log is not None else pipe
        env = {**os.environ, "PYTHONPATH": str(source)} if source is not None else None
        try:
            return await asyncio.create_subprocess_exec(
                *program,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=stderr,
                env=env,
            )
        finally:
            if log is not None:
                os.close(stderr)


@asynccontextmanager
async def joined_fleet(
    real: RealFleet, folder: Path, kubectl: Kubectl
) -> AsyncIterator[JoinedFleet]:
    """Three members of one broker; at the end they leave by the steps of the guide."""
    fleet = JoinedFleet(real, folder, kubectl)
    result = await fleet.hanse(
        "broker", "init", "--context", "broker", "--namespace", BROKER_NAMESPACE
    )
    assert result.status == 0, result.errors
    async with AsyncExitStack() as agents:
        for cluster in NAMES:
            result = await fleet.join(cluster)
            assert result.status == 0, result.errors
            await agents.enter_async_context(fleet.agent(cluster))
        yield fleet
        for cluster in NAMES:
            if cluster in fleet.running:
                result = await fleet.leave(cluster)
                assert result.status == 0, result.errors
    for cluster in (*NAMES, "broker"):
        result = await fleet.hanse("uninstall", "--context", cluster, "--yes", "--force")
        assert result.status == 0, result.errors
        await fleet.on(cluster, "delete", "namespace", *_NAMESPACES, "--wait=false")


def endpoint_slice(name: str, source: str) -> str:
    labels = {
        SOURCE: source,
        "multicluster.kubernetes.io/service-name": "web",
        "services.hanse.dev/namespace": "shop",
    }
    manifest = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": BROKER_NAMESPACE, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    }
    return msgspec.json.encode(manifest).decode()


def owner_key(name: str, cluster: str, kind: str = "v1 Service") -> str:
    """The annotation by which the agent of a cluster marks an object that it made."""
    claim = {
        "feature": "statefulsets",
        "key": f"mirror/default/{name}",
        "for": cluster,
        "kind": kind,
        "namespace": "default",
        "name": name,
    }
    return msgspec.json.encode(claim).decode()


def derived_service(name: str, for_cluster: str = "") -> str:
    """A Service as a member's agent copies it to the broker for a set that it hosts."""
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "annotations": {"hanse.dev/owner-key": owner_key(name, for_cluster)},
        },
        "spec": {"ports": [{"port": 80}], "clusterIP": "None"},
    }
    return msgspec.json.encode(manifest).decode()


def stateful_set(name: str, annotations: dict[str, str]) -> str:
    labels = {"app": "store"}
    manifest: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "store", "image": "store"}]},
            },
        },
    }
    return msgspec.json.encode(manifest).decode()


def parse_json(result: CommandResult) -> Any:
    assert result.status == 0, result.errors
    return msgspec.json.decode(result.output)
