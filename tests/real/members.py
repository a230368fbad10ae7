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
from tests.real.conftest import Kubectl, Said

HOME = "harbour"
"""The broker namespace of these tests, so that nobody else's is touched."""
SOURCE = "multicluster.kubernetes.io/source-cluster"
_MEMBER_KINDS = "serviceaccount,role,rolebinding,clusterrolebinding,lease"


class Fleet(Struct):
    """The shared fleet with a broker, members, and their agents as processes."""

    real: RealFleet
    folder: Path
    kubectl: Kubectl

    async def on(self, context: str, *arguments: str, given: str = "") -> Said:
        """kubectl as an administrator."""
        return await self.kubectl(self.real.kubeconfig, context, *arguments, given=given)

    async def as_member(self, cluster: str, *arguments: str, given: str = "") -> Said:
        """kubectl on the broker, as the account of a member."""
        place = ("-n", HOME, *arguments)
        return await self.kubectl(self.way(cluster), "broker", *place, given=given)

    async def hanse(self, *arguments: str) -> Said:
        """A command of ours, to its end."""
        running = await self._started(*arguments, "--kubeconfig", str(self.real.kubeconfig))
        output, errors = await running.communicate()
        return Said(running.returncode or 0, output.decode(), errors.decode())

    def way(self, cluster: str) -> Path:
        """Where the agent of a cluster finds the broker."""
        return self.folder / f"{cluster}-broker.kubeconfig"

    async def join(self, cluster: str) -> Said:
        return await self.hanse(
            *("join", "--broker", "broker", "--cluster-id", cluster, "--context", cluster),
            *("--broker-namespace", HOME),
        )

    @asynccontextmanager
    async def agent(self, cluster: str) -> AsyncIterator[None]:
        """An agent with nothing but what joining gave it."""
        get_secret = ("-n", "hanse-system", "get", "secret", "hanse-broker")
        secret = await self.on(cluster, *get_secret, "-o", "jsonpath={.data.kubeconfig}")
        self.way(cluster).write_bytes(b64decode(secret.output))
        token = await self.on(cluster, "-n", "hanse-system", "create", "token", "hanse-agent")
        access = self.real.clusters[cluster].context.access
        own = msgspec.structs.replace(access, identity=Identity(token=token.output.strip()))
        write_kubeconfig(self.folder / f"{cluster}.kubeconfig", [Context(cluster, own)])
        running = await self._started(
            *("agent", "--cluster-id", cluster, "--listen", "127.0.0.1:0"),
            *("--kubeconfig", str(self.folder / f"{cluster}.kubeconfig")),
            *("--broker-kubeconfig", str(self.way(cluster)), "--broker-namespace", HOME),
            log=self.folder / f"{cluster}.log",
        )
        try:
            yield
        finally:
            running.terminate()
            await running.wait()

    async def _started(
        self, *arguments: str, log: Path | None = None
    ) -> asyncio.subprocess.Process:
        program = (sys.executable, "-c", "from hanse.cli import main; main()")
        pipe = asyncio.subprocess.PIPE
        said = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600) if log is not None else pipe
        try:
            return await asyncio.create_subprocess_exec(
                *program, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=said
            )
        finally:
            if log is not None:
                os.close(said)


@asynccontextmanager
async def joined(real: RealFleet, folder: Path, kubectl: Kubectl) -> AsyncIterator[Fleet]:
    """Three members of one broker; at the end it is all undone, as the guide says."""
    whole = Fleet(real, folder, kubectl)
    said = await whole.hanse("broker", "init", "--context", "broker", "--namespace", HOME)
    assert said.status == 0, said.errors
    async with AsyncExitStack() as agents:
        for cluster in NAMES:
            said = await whole.join(cluster)
            assert said.status == 0, said.errors
            await agents.enter_async_context(whole.agent(cluster))
        yield whole
    for cluster in NAMES:
        await _undo(whole, cluster)
    cluster_wide = "validatingadmissionpolicy,validatingadmissionpolicybinding,clusterrole"
    said = await whole.on("broker", "delete", cluster_wide, "-l", "app.kubernetes.io/part-of=hanse")
    assert said.status == 0, said.errors
    await whole.on("broker", "delete", "clusterset", "default")
    await whole.on("broker", "delete", "namespace", HOME)
    await _without_definitions(whole, "broker")


async def _undo(whole: Fleet, cluster: str) -> None:
    """The commands of the guide by which a cluster leaves."""
    marks = ("-l", f"hanse.dev/member={cluster}")
    said = await whole.on("broker", "-n", HOME, "delete", _MEMBER_KINDS, *marks)
    assert said.status == 0, said.errors
    await whole.on("broker", "-n", HOME, "delete", "endpointslices", "-l", f"{SOURCE}={cluster}")
    await whole.on(cluster, "delete", "clusterrole,clusterrolebinding", "hanse-agent")
    await whole.on(cluster, "delete", "namespace", "hanse-system", "shop", "--wait=false")
    await _without_definitions(whole, cluster)


async def _without_definitions(whole: Fleet, context: str) -> None:
    ours = await whole.hanse("crds")
    await whole.on(context, "delete", "--wait=false", "-f", "-", given=ours.output)


def slice_of(name: str, source: str) -> str:
    labels = {SOURCE: source, "multicluster.kubernetes.io/service-name": "web"}
    made = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": HOME, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    }
    return msgspec.json.encode(made).decode()


def service_for(name: str, served: str = "") -> str:
    claim = f'{{"feature":"statefulsets","for":"{served}"}}'
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "annotations": {"hanse.dev/owner-key": claim}},
        "spec": {"ports": [{"port": 80}]},
    }
    return msgspec.json.encode(made).decode()


def set_of(name: str, marks: dict[str, str]) -> str:
    labels = {"app": "store"}
    made: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default", "annotations": marks},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "store", "image": "store"}]},
            },
        },
    }
    return msgspec.json.encode(made).decode()


def json_in(said: Said) -> Any:
    assert said.status == 0, said.errors
    return msgspec.json.decode(said.output)
