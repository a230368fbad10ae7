"""Export one Service: create the ServiceExport, and wait for the agent's conditions."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import click
from msgspec import Struct

from hanse.cli import exported_services
from hanse.cli.agent.running import read_agent_lease
from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import CommandFailed, InputError
from hanse.features.services.exported import (
    ExportedService,
    ExportProblem,
    all_exported,
    format_port,
)
from hanse.features.services.names import AFFINITY, PRIORITY, TO_CLUSTERS, WEIGHT
from hanse.features.services.status import API_SERVER, NEVER_EXPORTED
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.model.conditions import Condition, find_condition
from hanse.model.kinds.core import Service
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.naming import ZONE
from hanse.model.objects import Meta

AGENT_TIMEOUT = timedelta(seconds=5)
"""How long a running agent may leave a new export without conditions."""
STALE_FAILURE_GRACE = timedelta(seconds=3)
"""How long a failure that was reported before this change may still be replaced."""

_POLL_INTERVAL = timedelta(milliseconds=100)


class ExportRequest(Struct, frozen=True):
    """The Service to export, and the settings of the export."""

    access: ClusterAccess
    service: str
    namespace: str
    to: tuple[str, ...] | None
    weight: int | None
    priority: int | None
    affinity: str | None
    timeout: timedelta | None
    """How long to wait; None: not at all."""


class ExportResult(Struct, frozen=True):
    """The state of an export."""

    cluster: str
    service: ExportedService
    waited: bool

    def __str__(self) -> str:
        """The headline, the details if the Service has a type yet, and a line per problem."""
        service = self.service
        lines = [self._headline]
        if service.type:
            ready = ", ".join(f"{c} {count}" for c, count in service.endpoints.items())
            ports = ", ".join(format_port(p) for p in service.ports)
            lines += [
                f"  type       {service.type}",
                f"  ports      {ports or 'none in common'}",
                f"  endpoints  {ready or 'none'} ready",
                f"  name       {service.name}.{service.namespace}.svc.{ZONE}",
            ]
        lines += [f"! {p.reason}: {p.message}" for p in service.problems]
        return "\n".join(lines)

    @property
    def _headline(self) -> str:
        """Who exports the Service, or that this cluster does not.

        Without waiting, only that it is to be exported.
        """
        name = f"{self.service.namespace}/{self.service.name}"
        if not self.waited:
            return f"{name} is to be exported by {self.cluster}; see `hanse status`"
        if self.cluster in self.service.exporters:
            return f"{name} is exported by {', '.join(self.service.exporters)}"
        return f"{name} is not exported by {self.cluster}"


def json_document(result: ExportResult) -> dict[str, Any]:
    """The result as JSON values: the cluster, whether it exports the Service, and the Service."""
    here = result.cluster in result.service.exporters
    return {
        "cluster": result.cluster,
        "exported": here,
        **exported_services.json_document(result.service),
    }


async def export(request: ExportRequest) -> ExportResult:
    """Create or annotate the ServiceExport and, if there is a time-out, wait for its result.

    Returns also if the time-out ends first; `waited` is False without one. Raises `InputError` for
    a Service that cannot be exported, `CommandFailed` if the kind is not served or, while it waits,
    no agent runs or the export is deleted.
    """
    async with connect(request.access) as client:
        config = await request.access.credentials.config()
        place = (request.service, request.namespace or config.namespace or "default")
        await _check(client, request, *place)
        fresh = await _create_or_annotate(client, request, *place)
        if request.timeout is None:
            cluster = await exported_services.read_cluster_id(client, request.access.name)
            return ExportResult(cluster, ExportedService(place[1], place[0]), waited=False)
        return await _ExportWait(client, request.access.name, *place, fresh=fresh).wait(
            request.timeout
        )


async def _check(client: Client, request: ExportRequest, name: str, namespace: str) -> None:
    """Raise an error before anything is written, if the Service cannot be exported.

    `InputError` for an empty name, the API server's Service, a Service that is missing or of type
    ExternalName; `CommandFailed` for a cluster that does not serve ServiceExports.
    """
    where = request.access.name
    if not name:
        raise InputError("name the Service to export, such as web")
    if (namespace, name) == API_SERVER:
        raise InputError(f"{NEVER_EXPORTED}; name another than {namespace}/{name}")
    await refresh(client)
    if (
        client.rest_mapper.served is not None
        and client.rest_mapper.served.resolve(ServiceExport) is None
    ):
        raise CommandFailed(
            f"{where} does not know ServiceExports; let it join first: "
            f"hanse join --broker CONTEXT --cluster-id ID --context {where}"
        )
    try:
        service = await client.read(Service, name, namespace)
    except NotFound:
        if "/" in name:
            there, _, bare = name.partition("/")
            raise InputError(f"{name!r} is no name of a Service; write {bare} -n {there}") from None
        raise InputError(
            f"there is no Service {name} in namespace {namespace} of {where}; "
            "create it, or say where it is with -n and --context"
        ) from None
    if service.spec.type == "ExternalName":
        raise InputError(
            f"Service {namespace}/{name} is of type ExternalName and has no endpoints; "
            "export one of another type"
        )


async def _create_or_annotate(
    client: Client, request: ExportRequest, name: str, namespace: str
) -> bool:
    """Create the ServiceExport, or patch the annotations of an existing one; True if created.

    Without options an existing one stays as it is.
    """
    annotations = _annotations(request)
    wanted = {key: value for key, value in annotations.items() if value is not None}
    meta = Meta(name=name, namespace=namespace, annotations=wanted)
    try:
        await client.create(ServiceExport(metadata=meta))
    except AlreadyExists:
        if annotations:
            change = {"metadata": {"annotations": annotations}}
            await client.patch(ServiceExport, name, namespace, change)
        return False
    return True


def _annotations(request: ExportRequest) -> dict[str, str | None]:
    """The annotations that options ask for; None removes one (`--to-clusters ''`)."""
    annotations: dict[str, str | None] = {}
    if request.to is not None:
        annotations[TO_CLUSTERS] = ",".join(request.to) or None
    if request.weight is not None:
        annotations[WEIGHT] = str(request.weight)
    if request.priority is not None:
        annotations[PRIORITY] = str(request.priority)
    if request.affinity is not None:
        annotations[AFFINITY] = request.affinity
    return annotations


@contextmanager
def _progress(text: str) -> Iterator[None]:
    """Show on stderr what is waited for: a spinner on a terminal, else one line."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        click.echo(text, err=True)
        yield


class _ExportWait:
    """Polls one export until its agent has decided."""

    def __init__(
        self, client: Client, where: str, name: str, namespace: str, *, fresh: bool
    ) -> None:
        """The time of waiting begins now; `fresh` is whether the export was created now.

        If it was there before, a failure that it reports may be an old one.
        """
        self._client = client
        self._where = where
        self._name = name
        self._namespace = namespace
        self._fresh = fresh
        self._began = asyncio.get_running_loop().time()

    async def wait(self, limit: timedelta) -> ExportResult:
        """The final state of the export, or the last one before the time-out, which is no error.

        Raises `CommandFailed` if the export was deleted, or no agent runs.
        """
        result, final = await self._poll()
        if final:
            return result
        text = f"waiting up to {limit.total_seconds():.0f} s for the agent of {self._where}"
        with _progress(text):
            while not final and not self._has_waited(limit):
                await asyncio.sleep(_POLL_INTERVAL.total_seconds())
                result, final = await self._poll()
        return result

    async def _poll(self) -> tuple[ExportResult, bool]:
        """Read the current result, and whether it is final: exported and imported here, or Failed.

        A failure of an export that was there before is final only after `STALE_FAILURE_GRACE`.
        Raises `CommandFailed` if the export was deleted, or there is no agent after
        `AGENT_TIMEOUT`.
        """
        services = await exported_services.read_cluster_services(
            self._client, self._where, self._namespace
        )
        found = all_exported([services])
        view = next((one for one in found if one.name == self._name), None)
        export = next((one for one in services.exports if one.name == self._name), None)
        if view is None or export is None:
            raise CommandFailed(f"somebody deleted ServiceExport {self._namespace}/{self._name}")
        ready = find_condition(export.status.conditions, "Ready")
        if self._has_waited(AGENT_TIMEOUT) and not _is_true(ready):
            await self._check_agent()
        result = ExportResult(services.cluster, view, waited=True)
        if _is_true(ready):
            return self._complete(result)
        failed = ready is not None and ready.reason == "Failed"
        return result, failed and (self._fresh or self._has_waited(STALE_FAILURE_GRACE))

    def _complete(self, result: ExportResult) -> tuple[ExportResult, bool]:
        """The result of a Ready export, final if the cluster is among its exporters by the imports.

        Else a result with the problem NotImported instead, which is not final.
        """
        if result.cluster in result.service.exporters:
            return result, True
        text = "it is published, and not imported here yet; see `hanse doctor`"
        problem = ExportProblem(result.cluster, "NotImported", text)
        view = ExportedService(self._namespace, self._name, problems=(problem,))
        return ExportResult(result.cluster, view, waited=True), False

    async def _check_agent(self) -> None:
        """Raise `CommandFailed` if the agent's Lease is missing, or ran out `AGENT_TIMEOUT` ago."""
        agent = await read_agent_lease(self._client)
        if agent is None:
            raise self._no_agent("has ever run")
        if agent.silent > agent.duration + AGENT_TIMEOUT:
            raise self._no_agent("runs")

    def _no_agent(self, what: str) -> CommandFailed:
        """The error, returned to be raised, that no agent works on the new export.

        `what` completes "no agent …", such as "runs".
        """
        return CommandFailed(
            f"the ServiceExport is made, but no agent {what} in {self._where}; "
            f"start it with `hanse agent --context {self._where}`, see `hanse doctor`"
        )

    def _has_waited(self, limit: timedelta) -> bool:
        """Whether more time than the limit has passed since the wait began."""
        return asyncio.get_running_loop().time() - self._began > limit.total_seconds()


def _is_true(condition: Condition | None) -> bool:
    """Whether a condition exists and its status is `"True"`."""
    return condition is not None and condition.status == "True"
