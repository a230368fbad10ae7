"""Reads of what a cluster may not have: the object, or the kind itself."""

from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.model.objects import K


async def read_or_none(client: Client, kind: type[K], name: str, namespace: str = "") -> K | None:
    """Read one object; None if it does not exist, or its kind is not served.

    Other errors are raised.
    """
    try:
        return await client.read(kind, name, namespace)
    except NotFound:
        return None


async def list_or_empty(
    client: Client, kind: type[K], namespace: str = "", labels: str = ""
) -> tuple[K, ...]:
    """List all objects of a kind, in one namespace or in all; none where the kind is not served.

    Objects that cannot be decoded are left out; other errors are raised.
    """
    try:
        return (await client.list(kind, namespace=namespace, labels=labels)).objects
    except NotFound:
        return ()
