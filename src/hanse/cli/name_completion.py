"""Completion of names in a shell: clusters, namespaces, services, hosts, sets and codes.

Clusters are those of the kubeconfig; the rest is asked of them, briefly: a shell that waits is
worse than one that does not know.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import click
from click.shell_completion import CompletionItem

from hanse.cli.settings import GlobalOptions, global_options

LIMIT = timedelta(seconds=1.5)
"""How long clusters are asked."""

Names = Callable[[GlobalOptions, str], Iterable[str]]
"""The names that can stand in a place, given the namespace that was typed before."""


def complete_names(command: click.Command, path: str = "") -> click.Command:
    """Set shell completion on parameters of a command and its subcommands; returns the command.

    The names are chosen by command and name of the parameter (`_BY_PLACE`), else by option
    (`_BY_OPTION`); other parameters, and those with fixed choices, stay as they are.
    """
    path = f"{path} {command.name}".strip()
    for param in command.params:
        found = _BY_PLACE.get(f"{path} {param.name}") or next(
            (_BY_OPTION[option] for option in param.opts if option in _BY_OPTION), None
        )
        if found is not None and not isinstance(param.type, click.Choice):
            _complete(param, found)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            complete_names(inner, path)
    return command


def _complete(param: click.Parameter, names: Names) -> None:
    """Set a parameter's completion in place: sorted known names with the typed prefix."""

    def complete(context: click.Context, incomplete: str) -> list[CompletionItem]:
        """The known names, sorted, that begin with what was typed; none after any error."""
        with suppress(Exception):
            known = names(global_options(context), str(context.params.get("namespace") or ""))
            return [CompletionItem(one) for one in sorted(set(known)) if one.startswith(incomplete)]
        return []

    param.shell_complete = complete  # type: ignore[method-assign,assignment]  # click has no other hook later


def _clusters(settings: GlobalOptions, _: str) -> Iterable[str]:
    """The contexts of the kubeconfig, or only that of --context; no API server is asked.

    In a pod without a kubeconfig its own cluster. Raises `BadCredentials`.
    """
    from hanse.cli.clusters import configured_clusters

    return [one.name for one in configured_clusters(settings)]


def _lister(kind: type[Any]) -> Callable[[GlobalOptions, str], list[tuple[str, Any]]]:
    """A function that lists a kind in a namespace ("": all) as pairs of cluster and object.

    It reads all clusters that the settings select; those that fail, or take longer than `LIMIT`,
    are left out.
    """

    def read(settings: GlobalOptions, namespace: str) -> list[tuple[str, Any]]:
        """List the kind in a namespace, or in all for "", of the clusters that answer in time."""
        import asyncio  # late: every command imports this module

        from hanse.cli.clusters import ClusterAccess, ReadFailure, read_clusters, select_clusters
        from hanse.kube.client import Client

        async def list_objects(cluster: ClusterAccess, client: Client) -> list[tuple[str, Any]]:
            """The objects of one cluster, each with the cluster's name."""
            found = await client.list(kind, namespace=namespace)
            return [(cluster.name, obj) for obj in found.objects]

        async def list_all() -> list[tuple[str, Any]]:
            """The objects of all clusters, but for those that fail or are too slow."""
            results = await read_clusters(select_clusters(settings), list_objects, limit=LIMIT)
            return [one for r in results if not isinstance(r, ReadFailure) for one in r]

        return asyncio.run(list_all())

    return read


def _namespaces(settings: GlobalOptions, _: str) -> Iterable[str]:
    """The names of the namespaces of all clusters that answer in time, with repeats."""
    from hanse.model.kinds.core import Namespace

    return [obj.name for _, obj in _lister(Namespace)(settings, "")]


def _services(settings: GlobalOptions, namespace: str) -> Iterable[str]:
    """The names of Services in a namespace, `default` if none was typed, with repeats.

    Of all clusters that answer in time.
    """
    from hanse.model.kinds.core import Service

    return [obj.name for _, obj in _lister(Service)(settings, namespace or "default")]


def _hosts(settings: GlobalOptions, _: str) -> Iterable[str]:
    """NAME.NAMESPACE.svc.ZONE of each ServiceImport, and the host of each GlobalService.

    Of all clusters that answer in time, with repeats; the zone is `clusterset.local`.
    """
    from hanse.model.kinds.globalservice import GlobalService
    from hanse.model.kinds.multicluster import ServiceImport
    from hanse.model.naming import ZONE

    imported = _lister(ServiceImport)(settings, "")
    yield from (f"{one.name}.{one.namespace}.svc.{ZONE}" for _, one in imported)
    yield from (one.spec.host for _, one in _lister(GlobalService)(settings, ""))


def _sets(settings: GlobalOptions, _: str) -> Iterable[str]:
    """NAMESPACE/NAME of all StatefulSetShares in the clusters that answer in time."""
    from hanse.model.kinds.stateful import StatefulSetShares

    return [f"{o.namespace}/{o.name}" for _, o in _lister(StatefulSetShares)(settings, "")]


def _codes(_: GlobalOptions, __: str) -> Iterable[str]:
    """The codes of all findings."""
    from hanse.model.finding_codes import CODES

    return CODES


_BY_OPTION: dict[str, Names] = {
    **dict.fromkeys(("--context", "--broker", "--supervisor", "--in", "--take"), _clusters),
    "--namespace": _namespaces,
}
_BY_PLACE: dict[str, Names] = {
    **dict.fromkeys(
        (
            "local cut one",
            "local cut other",
            "local heal clusters",
            "local kill cluster",
            "local start what",
            "local stop what",
            "local slow cluster",
            "local save cluster",
            "local restore cluster",
            "gslb promote cluster",
            "gslb demote cluster",
            "gslb drain site",
        ),
        _clusters,
    ),
    "export service": _services,
    "resolve name": _hosts,
    "statefulsets accept name": _sets,
    "explain code": _codes,
}
