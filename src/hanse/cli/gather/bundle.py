"""What a support bundle has of each cluster, read with a person's credentials."""

import asyncio
import io
import json
import os
import tarfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hanse.app.views import reads
from hanse.cli.clusters import ClusterAccess, ReadFailure, read_clusters
from hanse.cli.gather.redaction import redact, redact_text
from hanse.cli.inventory import discover_kinds
from hanse.kube.client import Client
from hanse.kube.errors import ApiError
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.crds import OWN_KINDS
from hanse.model.json_input import decode_json
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Event, Pod, Secret
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import SYSTEM_NAMESPACE

LOG_LINES = 2000
"""Lines of each container's log."""
REQUEST_TIMEOUT = timedelta(seconds=10)
CLUSTER_TIMEOUT = timedelta(minutes=2)

Files = dict[str, bytes]
"""Contents by path in the bundle."""


async def gather(clusters: Sequence[ClusterAccess]) -> Files:
    """Read all clusters, and return files by path, CLUSTER/...; nothing is written.

    A cluster that cannot be read has `unread.txt` alone, which says why. Secrets are redacted.
    """
    results = await read_clusters(clusters, _gather_cluster, limit=CLUSTER_TIMEOUT)
    on_timeout = f"no answer within {CLUSTER_TIMEOUT.total_seconds():.0f} s"
    files: Files = {}
    for cluster, result in zip(clusters, results, strict=True):
        own = (
            {"unread.txt": redact_text(result.message(on_timeout)).encode()}
            if isinstance(result, ReadFailure)
            else result
        )
        files |= {f"{cluster.name}/{path}": content for path, content in own.items()}
    return files


async def _gather_cluster(_: ClusterAccess, client: Client) -> Files:
    """Read objects, and logs of pods in hanse-system; a refused request's file is its error.

    The files are objects/NAME.json and logs/POD.CONTAINER.log, of the last `LOG_LINES` lines.
    """
    await discover_kinds(client)
    paths = dict(_object_paths())
    contents = await asyncio.gather(*(_read(client, path) for path in paths.values()))
    files = {f"objects/{name}.json": one for name, one in zip(paths, contents, strict=True)}
    pods = decode_json(files[f"objects/{Pod.kind.plural}.json"]).get("items") or ()
    for pod in pods:
        name = pod["metadata"]["name"]
        for container in pod.get("spec", {}).get("containers") or ():
            path = resource_path(Pod.kind, SYSTEM_NAMESPACE, name)
            log = f"{path}/log?container={container['name']}&tailLines={LOG_LINES}&timestamps=true"
            files[f"logs/{name}.{container['name']}.log"] = await _read(client, log)
    return files


def _object_paths() -> Iterable[tuple[str, str]]:
    """The names of files and the request paths of what is listed: what is judged, and our kinds.

    Also the version, nodes, Leases, ConfigMaps of `SYSTEM`; of hanse-system Pods, Events,
    Deployments and Secrets.
    """
    yield "version", "/version"
    yield "nodes", "/api/v1/nodes"
    for kind, namespace in (
        (Pod, SYSTEM_NAMESPACE),
        (Event, SYSTEM_NAMESPACE),
        (Lease, ""),
        (Secret, SYSTEM_NAMESPACE),
    ):
        yield kind.kind.plural, resource_path(kind.kind, namespace)
    yield "deployments", f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments"
    yield "configmaps", resource_path(ConfigMap.kind, SYSTEM)
    judged = {watch.kind.kind for watch in reads() if watch.kind not in (Pod, ConfigMap, Secret)}
    for one in sorted(judged | {own.kind for own in OWN_KINDS}):
        yield f"{one.plural}.{one.group}" if one.group else one.plural, resource_path(one)


async def _read(client: Client, path: str) -> bytes:
    """GET a path, and redact it: JSON, or the text of a log; {"unread": error} if it is refused.

    Raises `KubeError` if the server does not answer, or rejects the credentials.
    """
    try:
        response = await client.send(Request("GET", path, timeout=REQUEST_TIMEOUT))
    except ApiError as error:
        return json.dumps({"unread": redact_text(str(error))}).encode()
    if "/log?" in path:
        return redact_text(response.body.decode(errors="replace")).encode()
    return json.dumps(redact(decode_json(response.body)), indent=1).encode()


def pack_bundle(files: Files, folder: str) -> bytes:
    """The files as a gzipped tar archive in memory, all in one folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{folder}/{path}")
            entry.size, entry.mtime = len(content), int(datetime.now(UTC).timestamp())
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def save_bundle(place: Path, content: bytes) -> None:
    """Write the file, also over another; nobody but its owner can read the content at any time.

    Raises OSError.
    """
    opened = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(opened, "wb") as file:
        os.fchmod(opened, 0o600)  # a file that was there keeps its mode until then
        file.write(content)


def as_json(value: Any) -> bytes:
    """The value as JSON text, with secrets redacted."""
    return json.dumps(redact(value), indent=1).encode()
