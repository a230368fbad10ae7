"""What it takes to serve on loopback: a socket, a self-signed certificate, a kubeconfig."""

import os
import secrets
import socket
import ssl
import stat
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import Struct

_HOST = "127.0.0.1"
_KEY_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


class Certificate(Struct, frozen=True):
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


def bind(port: int) -> socket.socket:
    """A socket bound to a loopback port (0: a free one), not yet listening. Raises OSError."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((_HOST, port))
    except OSError:
        bound.close()
        raise
    return bound


def new_token() -> str:
    """A bearer token that cannot be guessed."""
    return secrets.token_urlsafe(32)


def self_signed(name: str) -> Certificate:
    """A new certificate for 127.0.0.1 and localhost, its own authority, valid for a year."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ip_address(_HOST))]
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Certificate(signed.public_bytes(serialization.Encoding.PEM), key_pem)


def tls_context(certificate: Certificate) -> ssl.SSLContext:
    """The TLS settings of a server with that certificate; writes its key to a file for a moment."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # the ssl module reads certificates from files only
    with TemporaryDirectory(prefix="tinykube-") as folder:
        pem = Path(folder, "pem")
        pem.write_bytes(certificate.certificate + certificate.key)
        context.load_cert_chain(pem)
    return context


def write_kubeconfig(path: Path, name: str, url: str, authority: bytes, token: str) -> None:
    """Write a kubeconfig with one context, in JSON, to a file that only its owner can read.

    An existing file is overwritten and loses other permissions; what is not a file keeps them.
    """
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": url,
                    "certificate-authority-data": b64encode(authority).decode(),
                },
            }
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(opened, "wb") as file:
        if stat.S_ISREG(os.fstat(opened).st_mode):
            os.fchmod(opened, 0o600)
        file.write(msgspec.json.format(msgspec.json.encode(config)) + b"\n")
