"""A `hanse up` with containers, as tests use it: kubectl, and connections from pods."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from hanse.local.up.control import ControlRequest, send_request
from tests.cli.programs import CommandResult, RunningFederation
from tests.nodes.manifests import Manifest, client, namespace
from tests.nodes.processes import container_process

WAIT_SECONDS = 90
"""How long a test waits for what has to happen: only a test that fails takes so long."""

T = TypeVar("T")


class Answer(Struct, frozen=True):
    """What a server said: its cluster, its pod, and the client's address as it saw it."""

    cluster: str
    pod: str
    client: str


class Attempt(Struct, frozen=True):
    """Connections from a pod: the answers, and the errors of those that failed."""

    answers: tuple[Answer, ...]
    error: str

    @property
    def clusters(self) -> set[str]:
        return {answer.cluster for answer in self.answers}

    @property
    def pods(self) -> set[str]:
        return {answer.pod for answer in self.answers}


class NodesFleet:
    """Clusters with containers."""

    def __init__(self, running: RunningFederation, clusters: tuple[str, ...]) -> None:
        self.running = running
        self.clusters = clusters

    @property
    def fabric_pid(self) -> int:
        """A process in the network between the clusters."""
        status = self.running.run_hanse("local", "list", "--json")
        return int(msgspec.json.decode(status.out)["fabric_pid"])

    def inject(self, *requests: ControlRequest) -> None:
        """Do what `hanse local` does, at once: a program takes a second to start."""
        for request in requests:
            asyncio.run(send_request(self.running.folder / "control.sock", request))

    def kubectl(self, cluster: str, *arguments: str, stdin: str = "") -> CommandResult:
        """Run kubectl in a cluster."""
        return self.running.kubectl("--context", cluster, *arguments, stdin=stdin)

    def must(self, cluster: str, *arguments: str, stdin: str = "") -> str:
        """The output of a kubectl command that has to succeed."""
        result = self.kubectl(cluster, *arguments, stdin=stdin)
        assert result.status == 0, result.err
        return result.out

    def get(self, cluster: str, *arguments: str) -> Any:
        """An object or list."""
        return msgspec.json.decode(self.must(cluster, "get", *arguments, "-o", "json"))

    def apply(self, cluster: str, space: str, *manifests: Manifest) -> None:
        """Create or update objects in a namespace."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        text = msgspec.json.encode(items).decode()
        self.must(cluster, "-n", space, "apply", "-f", "-", stdin=text)

    def create_namespace(self, space: str, *, clients: bool = True) -> None:
        """The namespace in every cluster, each with a client pod unless they are not needed."""
        for cluster in self.clusters:
            self.apply(cluster, space, namespace(space), *([client()] if clients else []))
        for cluster in self.clusters if clients else ():
            self.await_ready(cluster, space, "pod/client")

    def delete_namespace(self, space: str) -> None:
        """Delete the namespace everywhere, without waiting for its end."""
        for cluster in self.clusters:
            self.kubectl(cluster, "delete", "namespace", space, "--wait=false")

    def await_ready(self, cluster: str, space: str, *names: str) -> None:
        """Wait until pods are ready."""
        wait = ("wait", "--for=condition=Ready", f"--timeout={WAIT_SECONDS}s", *names)
        self.must(cluster, "-n", space, *wait)

    def await_replica(self, cluster: str, space: str, pod: str) -> None:
        """Wait until a pod exists and is ready, which others create."""
        ready = ("wait", "--for=condition=Ready", f"pod/{pod}")
        until(lambda: self.kubectl(cluster, "-n", space, *ready).status, lambda code: code == 0)

    def await_answer_to_pod(self, cluster: str, space: str, pod: str, target: str) -> Answer:
        """Connect from a pod that has netcheck by TCP, until it is answered."""
        inside = ("exec", pod, "--", "/netcheck", "tcp", target)
        result = until(
            lambda: self.kubectl(cluster, "-n", space, *inside), lambda seen: seen.status == 0
        )
        return Answer(*result.out.split())

    def await_rollout(self, cluster: str, space: str, name: str) -> None:
        """Wait until all replicas of a workload are ready."""
        self.must(cluster, "-n", space, "rollout", "status", name, f"--timeout={WAIT_SECONDS}s")

    def netcheck(self, cluster: str, space: str, *arguments: str) -> CommandResult:
        """Run netcheck in the client pod of a cluster."""
        inside = ("exec", "client", "--", "/netcheck", *arguments)
        return self.kubectl(cluster, "-n", space, *inside)

    def client_pid(self, cluster: str, space: str) -> int:
        """The process of the client pod of a cluster."""
        status = self.get(cluster, "-n", space, "pod", "client")["status"]
        container = status["containerStatuses"][0]["containerID"].rpartition("/")[2]
        return container_process(container)

    def running_netcheck(
        self, cluster: str, space: str, *arguments: str
    ) -> "subprocess.Popen[str]":
        """Run netcheck in the client pod without its API server, which may be away."""
        inside = ("nsenter", "--net", "--mount", "--target", str(self.client_pid(cluster, space)))
        return subprocess.Popen(
            [*inside, "/netcheck", *arguments], stdout=subprocess.PIPE, text=True
        )

    def dial(self, cluster: str, space: str, target: str, count: int = 1) -> Attempt:
        """Connect from a client pod as often as said: to a URL, or PROTOCOL:HOST:PORT."""
        protocol, _, rest = target.partition(":")
        where = target if protocol == "http" else rest
        result = self.netcheck(cluster, space, protocol, "-n", str(count), where)
        answers = (Answer(*line.split()) for line in result.out.splitlines())
        return Attempt(tuple(answers), result.err if result.status else "")

    def await_answers(
        self, cluster: str, space: str, target: str, expected: set[str], count: int = 8
    ) -> Attempt:
        """Connect until every connection succeeds and exactly the expected clusters answer."""
        return until(
            lambda: self.dial(cluster, space, target, count),
            lambda seen: not seen.error and seen.clusters == expected,
        )

    def lookup(self, cluster: str, space: str, name: str) -> list[str]:
        """The addresses of a name as a pod resolves it; none if it has none."""
        return self.netcheck(cluster, space, "lookup", name).out.split()


def until(
    observe: Callable[[], T], accept: Callable[[T], bool], seconds: float = WAIT_SECONDS
) -> T:
    """Observe until it is accepted; fails with the last observation."""
    deadline = time.monotonic() + seconds
    while not accept(seen := observe()):
        assert time.monotonic() < deadline, f"still {seen}"
        time.sleep(0.2)
    return seen


@contextmanager
def leases_of(fleet: NodesFleet, seconds: int) -> Iterator[None]:
    """Shorter Leases for all clusters, until the block ends."""
    [clusterset] = fleet.get("broker", "clustersets")["items"]
    patch = ("patch", "clusterset", clusterset["metadata"]["name"], "--type=merge", "-p")
    field = "leaseDurationSeconds"
    fleet.must("broker", *patch, json.dumps({"spec": {field: seconds}}))
    leases = ("-n", "hanse-broker", "leases", *fleet.clusters)
    until(
        lambda: {lease["spec"].get(field) for lease in fleet.get("broker", *leases)["items"]},
        lambda durations: durations == {seconds},
    )
    try:
        yield
    finally:
        fleet.must("broker", *patch, json.dumps({"spec": {field: clusterset["spec"].get(field)}}))
