"""How a connection to an API server is secured, from certificates that are in memory."""

import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

from hanse.kube.access import Endpoint, Identity
from hanse.kube.errors import BadCredentials


def tls_context(endpoint: Endpoint, identity: Identity) -> ssl.SSLContext:
    """The TLS settings for one server and one identity; always verified unless told otherwise."""
    if endpoint.ca and not endpoint.insecure:
        context = _trusting_only(endpoint)
    else:
        context = ssl.create_default_context()  # reads the system's certificates, which takes time
    # Since Python 3.13 certificates must be as the RFC says; those of many clusters are not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate:
        _present(context, identity, endpoint.url)
    return context


def _trusting_only(endpoint: Endpoint) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=endpoint.ca.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise BadCredentials(
            f"{endpoint.url}: certificate-authority holds no certificate in PEM; copy it again"
        ) from None


def _present(context: ssl.SSLContext, identity: Identity, url: str) -> None:
    """OpenSSL reads certificates from files only: ours are there for that moment, for us alone."""
    with TemporaryDirectory(prefix="hanse-") as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(identity.certificate)
        key.write_bytes(identity.key)
        try:
            context.load_cert_chain(certificate, key)
        except (ssl.SSLError, ValueError):
            raise BadCredentials(
                f"{url}: client-certificate and client-key are not a pair in PEM; copy them again"
            ) from None
