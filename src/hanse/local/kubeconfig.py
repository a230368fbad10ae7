"""Kubeconfig files for local clusters: one context per cluster, readable only by the owner."""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from hanse.kube.client_config import ClientConfig, Identity


class Context(Struct, frozen=True):
    """One user's access to one cluster; the context has the cluster's name."""

    cluster: str
    access: ClientConfig
    user: str = "admin"


def kubeconfig(contexts: Sequence[Context]) -> dict[str, Any]:
    """The content of a kubeconfig: a context named after each cluster, the first is current.

    Without contexts, `current-context` is empty. The users are named `USER@CLUSTER`.
    """
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": contexts[0].cluster if contexts else "",
        "clusters": [
            {"name": one.cluster, "cluster": _cluster_entry(one.access)} for one in contexts
        ],
        "users": [
            {"name": _user_name(one), "user": _user_entry(one.access.identity)} for one in contexts
        ],
        "contexts": [
            {"name": one.cluster, "context": {"cluster": one.cluster, "user": _user_name(one)}}
            for one in contexts
        ],
    }


def write_kubeconfig(path: Path, contexts: Sequence[Context]) -> None:
    """Replace a file atomically by the kubeconfig of these contexts; its mode is always 0600."""
    write_private_file(path, yaml.safe_dump(kubeconfig(contexts), sort_keys=False).encode())


def write_private_file(path: Path, content: bytes) -> None:
    """Replace a file atomically by one that only its owner can read.

    If that fails nothing new stays, and the `OSError` names the file.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(opened, "wb") as file:
                file.write(content)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        error.filename = str(path)
        raise


def _cluster_entry(access: ClientConfig) -> dict[str, str]:
    """The `server` URL of a kubeconfig's cluster, and its CA certificate in base64."""
    authority = _base64(access.endpoint.ca)
    return {"server": access.endpoint.url, "certificate-authority-data": authority}


def _user_entry(identity: Identity) -> dict[str, str]:
    """The token, certificate and key of an identity, as kubeconfig fields; empty ones are left out.

    Certificate and key are in base64.
    """
    fields = {
        "token": identity.token,
        "client-certificate-data": _base64(identity.certificate),
        "client-key-data": _base64(identity.key),
    }
    return {name: value for name, value in fields.items() if value}


def _user_name(context: Context) -> str:
    """The name of a context's user in the file, `USER@CLUSTER`, so that it is unique there."""
    return f"{context.user}@{context.cluster}"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
