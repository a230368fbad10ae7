"""What leaders wrote in a member: deleted by hand once nobody leads it, until none is left."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

import click

from hanse import app
from hanse.cli.errors import CommandFailed
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.kube.requests import delete
from hanse.model.facts import Role
from hanse.model.objects import ClusterId, Object, object_ref
from hanse.model.ownership import OWNER
from hanse.model.snapshot import Watch, Writes
from hanse.runtime.ownership import owner_of

DELETION_TIMEOUT = timedelta(seconds=30)
_POLL_INTERVAL = timedelta(milliseconds=500)


async def list_led_objects(client: Client, cluster: ClusterId) -> list[Object]:
    """List the objects that leaders of a Federation wrote in a cluster for it.

    They have the owner label, and an owner annotation that names a leader and this cluster. Kinds
    that are not served are skipped.
    """
    found: list[Object] = []
    for kind, namespace in _led_kinds(app.watches()):
        with suppress(NotFound):  # the kind is not served
            listed = await client.list(kind, namespace=namespace, labels=OWNER)
            found += [obj for obj in listed.objects if _is_led(obj, cluster)]
    return found


async def delete_led_objects(client: Client, context: str, cluster: ClusterId) -> None:
    """Delete what leaders wrote in a cluster, and print it, until `list_led_objects` is empty.

    Deletes again what reappears. Raises `CommandFailed` if some are left after `DELETION_TIMEOUT`.
    """
    until = asyncio.get_running_loop().time() + DELETION_TIMEOUT.total_seconds()
    while found := await list_led_objects(client, cluster):
        for obj in found:
            with suppress(NotFound):
                meta = obj.metadata
                await client.send(delete(type(obj).kind, meta.name, meta.namespace))
                click.echo(f"{context}: deleted {object_ref(obj)}")
        if asyncio.get_running_loop().time() > until:
            first = ", ".join(str(object_ref(obj)) for obj in found[:3])
            raise CommandFailed(
                f"{len(found)} objects of ours remain in {context}, as {first}; see what holds "
                "them (finalizers), and run this again: it goes on where it ended"
            )
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())


def _led_kinds(watches: Iterable[Watch]) -> set[tuple[type[Object], str]]:
    """Kind and namespace of each watch by which leaders write objects in members."""
    return {
        (watch.kind, watch.namespace)
        for watch in watches
        if watch.role is Role.LED and watch.writes & Writes.OBJECTS
    }


def _is_led(obj: Object, cluster: ClusterId) -> bool:
    """Whether the owner annotation says that a leader wrote it for this cluster."""
    owner = owner_of(obj)
    return owner is not None and owner.led and owner.serves == cluster
