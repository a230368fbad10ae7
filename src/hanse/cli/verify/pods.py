"""Pods that serve and try: created, awaited, and read by requests to one cluster."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from hanse.cli.errors import CommandFailed
from hanse.cli.verify import manifests
from hanse.cli.verify.attempts import Attempt, Outcome
from hanse.kube.client import Client
from hanse.kube.errors import AlreadyExists, ApiError, NotFound
from hanse.kube.transport import Request
from hanse.model.json_input import decode_json
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import Wire

POLL_SECONDS = 0.3
CONTAINERS = 10
"""Commands that one pod runs."""
ATTEMPT_SECONDS = 60
"""How long the commands of a pod may take, its start included."""

_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "ServiceExport": f"/apis/{ServiceExport.kind.api_version}/namespaces/{{}}/serviceexports",
}
_IMAGE_ERRORS = ("ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName")


class VerifiedCluster(Struct, frozen=True):
    """One chosen cluster with its client, the namespace and the image of this run."""

    name: str
    client: Client
    namespace: str
    image: str
    labels: dict[str, str] = {}
    """Labels of the pods, beside their own."""
    node: str = ""
    """The host name of the node of the pods; empty: any."""

    async def create(self, *objects: Wire) -> None:
        """Create objects by the API server, pods with the labels and node of this cluster's run.

        Those that exist are left as they are.
        """
        for obj in objects:
            path = _PATHS[obj["kind"]].format(self.namespace)
            body = msgspec.json.encode(self._placed(obj) if obj["kind"] == "Pod" else obj)
            try:
                await self.client.send(Request("POST", path, body=body))
            except AlreadyExists:
                continue

    def _placed(self, pod: Wire) -> Wire:
        """The pod with this run's labels and, if given, a nodeSelector; creates nothing."""
        meta, spec = pod["metadata"], pod["spec"]
        if self.node:
            spec = {**spec, "nodeSelector": {"kubernetes.io/hostname": self.node}}
        labels = {**meta["labels"], **self.labels}
        return {**pod, "metadata": {**meta, "labels": labels}, "spec": spec}

    async def get(self, path: str) -> dict[str, Any] | None:
        """GET a path and decode the JSON; None for a 404, other errors are raised."""
        try:
            response = await self.client.send(Request("GET", path))
        except NotFound:
            return None
        found: dict[str, Any] = decode_json(response.body)
        return found

    async def get_pod(self, name: str) -> dict[str, Any]:
        """Read a pod of this run as JSON; raises `CommandFailed` if it does not exist."""
        found = await self.get(f"{_PATHS['Pod'].format(self.namespace)}/{name}")
        if found is None:
            raise CommandFailed(f"{self.name}: pod {self.namespace}/{name} was deleted by others")
        return found

    async def delete_pod(self, name: str) -> None:
        """Delete a pod; one that is gone is fine."""
        with suppress(NotFound):
            path = f"{_PATHS['Pod'].format(self.namespace)}/{name}"
            await self.client.send(Request("DELETE", path))

    async def delete_pods(self, label: str) -> None:
        """Delete all pods that have a label, given as NAME=VALUE; does not wait for their end."""
        path = _PATHS["Pod"].format(self.namespace)
        await self.client.send(Request("DELETE", path, (("labelSelector", label),)))

    async def remove(self) -> bool:
        """Delete the namespace, and wait; True if it is gone, False after 30 s or an `ApiError`.

        No answer raises `Unreachable`.
        """
        path = f"/api/v1/namespaces/{self.namespace}"
        try:
            await self.client.send(Request("DELETE", path))
            async with asyncio.timeout(30):
                while await self.get(path) is not None:  # noqa: ASYNC110 - polls a server
                    await asyncio.sleep(POLL_SECONDS)
        except NotFound:
            return True
        except (ApiError, TimeoutError):
            return False
        return True


async def await_server(cluster: VerifiedCluster, name: str, seconds: float) -> str:
    """Wait until a pod is Ready, and return its IP address.

    Raises `CommandFailed` with the cause after `seconds`, or at once if it is deleted or its image
    cannot be pulled.
    """
    pod: dict[str, Any] = {}
    try:
        async with asyncio.timeout(seconds):
            while not _is_ready(pod := await cluster.get_pod(name)):
                _require_image(cluster, pod)
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise CommandFailed(
            f"{cluster.name}: pod {name} is not ready within {seconds:.0f} s "
            f"({_waiting_reason(pod)}); see kubectl --context {cluster.name} describe nodes"
        ) from None
    return str(pod["status"]["podIP"])


async def run_attempts(
    cluster: VerifiedCluster, attempts: Sequence[Attempt], label: str
) -> list[Outcome]:
    """Run attempts in new pods of one cluster, up to `CONTAINERS` in each, all at the same time.

    `label` begins the pods' names. Outcomes are in the order of the attempts, also of those that
    fail; raises `CommandFailed` if the image cannot be pulled, or a pod is deleted.
    """
    parts = [attempts[n : n + CONTAINERS] for n in range(0, len(attempts), CONTAINERS)]
    several = await asyncio.gather(
        *(_run_in_pod(cluster, part, f"{label}-{n}") for n, part in enumerate(parts))
    )
    return [outcome for outcomes in several for outcome in outcomes]


async def _run_in_pod(
    cluster: VerifiedCluster, attempts: Sequence[Attempt], name: str
) -> list[Outcome]:
    """Run each attempt in a container of one new pod, wait for all, and delete the pod.

    An attempt that has not ended after `ATTEMPT_SECONDS` is not answered. Raises `CommandFailed` if
    the image cannot be pulled; the pod is left then.
    """
    pod = manifests.client_pod(name, cluster.image, [a.arguments for a in attempts])
    await cluster.create(pod)
    ended: dict[str, dict[str, Any]] = {}
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS):
            while len(ended := _ended_containers(found := await cluster.get_pod(name))) < len(
                attempts
            ):
                _require_image(cluster, found)
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        pass  # those that have not ended have failed
    outcomes = [
        await _read_outcome(cluster, name, number, attempt, ended.get(f"try-{number}"))
        for number, attempt in enumerate(attempts)
    ]
    await cluster.delete_pod(name)
    return outcomes


async def _read_outcome(
    cluster: VerifiedCluster,
    pod: str,
    number: int,
    attempt: Attempt,
    state: dict[str, Any] | None,
) -> Outcome:
    """The outcome of an attempt: answered if its container exited with 0, with its log as output.

    Of the log the distinct lines if it was answered, else the last line; at most 300 characters.
    Without a `state` it has not ended, and is not answered.
    """
    if state is None:
        return Outcome(attempt, answered=False, output="the command did not end")
    path = f"{_PATHS['Pod'].format(cluster.namespace)}/{pod}/log?container=try-{number}"
    try:
        response = await cluster.client.send(Request("GET", path))
        lines = response.body.decode("utf-8", "replace").strip().splitlines()
    except ApiError as error:
        lines = [f"no log: {error}"]
    answered = state.get("exitCode") == 0
    shown = ", ".join(dict.fromkeys(lines)) if answered else lines[-1] if lines else "no output"
    return Outcome(attempt, answered, shown[:300])


def _ended_containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The `terminated` states of containers that have ended, by their names."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return {
        s["name"]: s["state"]["terminated"]
        for s in statuses
        if (s.get("state") or {}).get("terminated")
    }


def _is_ready(pod: dict[str, Any]) -> bool:
    """Whether the pod's condition Ready is True."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _require_image(cluster: VerifiedCluster, pod: dict[str, Any]) -> None:
    """Raise `CommandFailed` if a container of the pod waits because its image cannot be pulled."""
    why = _waiting_reason(pod)
    if why.startswith(_IMAGE_ERRORS):
        raise CommandFailed(
            f"{cluster.name}: image {cluster.image} cannot be pulled ({why}); name another with "
            "--image"
        )


def _waiting_reason(pod: dict[str, Any]) -> str:
    """Why the first waiting container waits, as `REASON: MESSAGE`, at most 200 characters.

    Without one the message of the first condition that is False, else the pod's phase.
    """
    status = pod.get("status", {})
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting:
            return f"{waiting.get('reason', '')}: {waiting.get('message', '')}"[:200]
    for one in status.get("conditions") or ():
        if one["status"] == "False" and one.get("message"):
            return str(one["message"])[:200]
    return str(status.get("phase", "unknown"))
