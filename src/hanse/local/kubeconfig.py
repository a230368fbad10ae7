"""Kubeconfig files for local clusters: one context per cluster, readable by their owner alone."""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_never

import yaml
from msgspec import Struct


class BearerToken(Struct, frozen=True):
    """The holder of this token is the user."""

    token: str


class ClientCertificate(Struct, frozen=True):
    """The holder of this certificate's key is the user; both are PEM."""

    certificate: bytes
    key: bytes


Credential = BearerToken | ClientCertificate


class Access(Struct, frozen=True):
    """How one user reaches one cluster: its URL, the authority to trust (PEM), who asks."""

    cluster: str
    server: str
    authority: bytes
    credential: Credential
    user: str = "admin"


def kubeconfig(accesses: Sequence[Access]) -> dict[str, Any]:
    """A context named after each cluster; the first is the current one."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": accesses[0].cluster if accesses else "",
        "clusters": [{"name": one.cluster, "cluster": _cluster(one)} for one in accesses],
        "users": [{"name": _user_name(one), "user": _user(one.credential)} for one in accesses],
        "contexts": [
            {"name": one.cluster, "context": {"cluster": one.cluster, "user": _user_name(one)}}
            for one in accesses
        ],
    }


def write_kubeconfig(path: Path, accesses: Sequence[Access]) -> None:
    """Write the file whole or not at all, with mode 0600 from its first byte on."""
    write_private(path, yaml.safe_dump(kubeconfig(accesses), sort_keys=False).encode())


def write_private(path: Path, content: bytes) -> None:
    """Replace a file by one that only its owner can read."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "wb") as file:
        file.write(content)
    draft.replace(path)


def _cluster(access: Access) -> dict[str, str]:
    return {"server": access.server, "certificate-authority-data": _base64(access.authority)}


def _user(credential: Credential) -> dict[str, str]:
    match credential:
        case BearerToken(token):
            return {"token": token}
        case ClientCertificate(certificate, key):
            return {
                "client-certificate-data": _base64(certificate),
                "client-key-data": _base64(key),
            }
        case _:
            assert_never(credential)


def _user_name(access: Access) -> str:
    return f"{access.user}@{access.cluster}"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
