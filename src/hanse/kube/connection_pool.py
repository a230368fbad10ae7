"""The HTTP connections to one API server, while its address and certificates stay the same."""

import asyncio
import base64
import os
import ssl
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint
from hanse.kube.errors import BadCredentials, Unanswered, Unreachable, Untrusted
from hanse.kube.loop_connector import LoopConnector
from hanse.kube.transport import Request, Validity
from hanse.model.addresses import is_loopback_host

KEEPALIVE = timedelta(seconds=55)
"""How long an idle connection is kept: a little less than load balancers commonly allow."""

FAILURES = (aiohttp.ClientError, OSError, TimeoutError, RuntimeError)
"""The exceptions of a failed connection; the last is uvloop's for one that was closed meanwhile."""

_READ_AHEAD = 1 << 18


class ConnectionPool:
    """One session for requests and one for watches, so that neither waits for the other."""

    def __init__(self, config: ClientConfig, user_agent: str) -> None:
        """A pool for the server and client certificate of a configuration; nothing connects yet.

        The proxy is the endpoint's, else that of the environment, unless the server is loopback;
        such a server is asked for no compression. Raises `BadCredentials` for certificates or keys
        that cannot be loaded.
        """
        self._config = config
        self._headers = {"User-Agent": user_agent}
        self._url = config.endpoint.url
        host = URL(self._url).host or ""
        local = is_loopback_host(host)
        self._headers["Accept-Encoding"] = "identity" if local else "gzip"
        self._proxy = config.endpoint.proxy or _proxy_from_environment(self._url, local)
        self._idle = asyncio.Event()
        self._idle.set()
        self._active = 0
        tls = tls_context(config.endpoint, config.identity) if self._url[:5] == "https" else True
        self._connector = _new_connector(tls)
        self.requests = _new_session(self._connector)
        self.watches = _new_session(_new_connector(tls))

    def fits(self, config: ClientConfig) -> bool:
        """Whether a configuration has the endpoint and client certificate of this pool.

        The token may differ.
        """
        own, other = self._config.identity, config.identity
        return self._config.endpoint == config.endpoint and (own.certificate, own.key) == (
            other.certificate,
            other.key,
        )

    @property
    def certificate(self) -> Validity | None:
        """The validity of the certificate of the server that a request was connected to last.

        None before, without TLS, or if it was not verified.
        """
        return self._connector.certificate

    def enter(self) -> None:
        """Count a user of the pool, for which `retire` waits; each one has to call `leave`."""
        self._active += 1
        self._idle.clear()

    def leave(self) -> None:
        """End the use that `enter` began; after the last one `retire` closes the pool."""
        self._active -= 1
        if self._active == 0:
            self._idle.set()

    async def retire(self) -> None:
        """Wait until the last request and the last watch have ended, then close."""
        await self._idle.wait()
        await self.close()

    async def close(self) -> None:
        """Close at once, also if it is in use: open requests and watches break."""
        self._idle.set()
        await self.requests.close()
        await self.watches.close()

    def arguments(
        self, config: ClientConfig, request: Request, *, streamed: bool
    ) -> dict[str, Any]:
        """The keyword arguments of aiohttp's `request`, with headers of the config's identity.

        A streamed response is not compressed; redirects are not followed.
        """
        headers = CIMultiDict(self._headers)
        headers["Accept"] = request.accept
        if streamed:
            headers["Accept-Encoding"] = "identity"
        if request.body:
            headers["Content-Type"] = request.content_type
        _add_identity_headers(headers, config.identity)
        if request.headers:
            headers.extend(request.headers)
        return {
            "method": request.method,
            "url": URL(self._url + request.target, encoded=True),
            "headers": headers,
            "data": request.body or None,
            "proxy": self._proxy or None,
            "server_hostname": config.endpoint.server_name or None,
            "allow_redirects": False,
        }

    def failure(self, error: Exception, timeout: timedelta) -> Unreachable:
        """The error to raise for a failed connection, with a short message that holds no secret.

        `Untrusted` if the server's certificate is not trusted, `Unanswered` if it took the request
        and time is up, else `Unreachable`.
        """
        message = _failure_message(error, URL(self._url).authority, timeout)
        match error:
            case aiohttp.ClientConnectorCertificateError():
                return Untrusted(message)
            case aiohttp.ConnectionTimeoutError():
                return Unreachable(message)
            case TimeoutError():
                return Unanswered(message)
            case _:
                return Unreachable(message)


def _failure_message(error: Exception, where: str, timeout: timedelta) -> str:
    """The text for a failed connection to `where`, by the type of the error.

    It says whether certificate, proxy, name, TLS, connection or answer is at fault.
    """
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or "not valid for it"
            return f"the certificate of {where} is not trusted: {reason}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy to {where} cannot be reached"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy to {where} answered {error.status}"
        case aiohttp.ClientConnectorDNSError():
            return f"the name of {where} cannot be resolved"
        case aiohttp.ClientConnectorSSLError():
            return f"no TLS connection to {where}: {_os_error_message(error.os_error)}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {where}: {_os_error_message(error.os_error)}"
        case aiohttp.ConnectionTimeoutError():
            return f"no connection to {where} in time"
        case TimeoutError():
            return f"no answer from {where} within {timeout.total_seconds():.0f} s"
        case _:
            return f"the connection to {where} broke off ({type(error).__name__})"


def _os_error_message(error: OSError) -> str:
    """The system's text for the error number, in lower case.

    Without a number the error's own text, or `refused` if it has none.
    """
    number = error.errno or 0
    return os.strerror(number).lower() if number > 0 else error.strerror or "refused"


def _new_connector(tls: Any) -> LoopConnector:
    """A connector without a limit of connections; idle ones stay open for KEEPALIVE."""
    return LoopConnector(ssl=tls, limit=0, keepalive_timeout=KEEPALIVE.total_seconds())


def _new_session(connector: LoopConnector) -> aiohttp.ClientSession:
    """A session over a connector, without cookies and without a Content-Type by default."""
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_AHEAD,
        skip_auto_headers=("Content-Type",),
    )


def _add_identity_headers(headers: CIMultiDict[str], identity: Identity) -> None:
    """Add the Authorization header (a token before a password) and impersonation to `headers`."""
    if identity.token:
        headers["Authorization"] = f"Bearer {identity.token}"
    elif identity.username:
        pair = f"{identity.username}:{identity.password}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    if identity.impersonate:
        headers.extend(identity.impersonate)


def _proxy_from_environment(url: str, local: bool) -> str:
    """The proxy of the URL's scheme in the environment, as kubectl takes it; empty if none applies.

    No proxy applies if the host is `local` (loopback) or in NO_PROXY.
    """
    target = URL(url)
    host = target.host or ""
    if local or proxy_bypass(f"{host}:{target.port}") or proxy_bypass(host):
        return ""
    return getproxies().get(target.scheme, "")


def tls_context(endpoint: ServerEndpoint, identity: Identity) -> ssl.SSLContext:
    """The TLS context for one server and one identity, with its client certificate if it has one.

    It trusts the endpoint's CA, without one the system's; `insecure` verifies nothing. Raises
    `BadCredentials` for certificates or keys that cannot be loaded.
    """
    if endpoint.ca and not endpoint.insecure:
        context = _context_with_ca(endpoint)
    else:
        context = ssl.create_default_context()  # reads the system's certificates, which takes time
    # Since Python 3.13 certificates must be as the RFC says; those of many clusters are not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate:
        _load_client_certificate(context, identity, endpoint.url)
    return context


def _context_with_ca(endpoint: ServerEndpoint) -> ssl.SSLContext:
    """A TLS context that trusts the endpoint's CA only; `BadCredentials` if that is no PEM."""
    try:
        return ssl.create_default_context(cadata=endpoint.ca.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise BadCredentials(
            f"{endpoint.url}: certificate-authority holds no certificate in PEM; copy it again"
        ) from None


def _load_client_certificate(context: ssl.SSLContext, identity: Identity, url: str) -> None:
    """Load the client certificate, which OpenSSL reads only from (temporary) files.

    Raises `BadCredentials` if certificate and key do not fit.
    """
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
