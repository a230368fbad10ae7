"""TLS of servers: a certificate with its key, and the context that serves it."""

import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct


class KeyPair(Struct, frozen=True):
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


def server_context(issued: KeyPair) -> ssl.SSLContext:
    """The TLS context of a server with a certificate, for TLS 1.2 and later.

    Raises `SSLError` if the certificate cannot be read or does not match its key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, issued)
    return context


def replace_certificate(context: ssl.SSLContext, issued: KeyPair) -> None:
    """Have a server's context use another certificate for new connections.

    Raises `SSLError`, and the former stays in use, if it cannot be read or does not match its key.
    """
    server_context(issued)  # one that fails half-way has replaced the former
    _load(context, issued)


def _load(context: ssl.SSLContext, issued: KeyPair) -> None:
    """Load a certificate with its key into a context; raises `SSLError` if it cannot."""
    # The ssl module reads certificates from files only; the folder is readable by us alone.
    with TemporaryDirectory(prefix="hanse-tls-") as folder:
        pem = Path(folder, "pem")
        pem.write_bytes(issued.certificate + issued.key)
        context.load_cert_chain(pem)
