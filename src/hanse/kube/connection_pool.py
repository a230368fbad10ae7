"""The connections to one API server for as long as its address and certificates stay the same."""

import asyncio
import base64
import ipaddress
import os
import socket
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
from hanse.kube.errors import BadCredentials, Unreachable
from hanse.kube.transport import Request

KEEPALIVE = timedelta(seconds=55)
"""How long an idle connection is kept: a little less than what balancers commonly allow."""

FAILURES = (aiohttp.ClientError, OSError, TimeoutError)
"""All the ways in which a connection fails."""

_READ_AHEAD = 1 << 18


class Connections:
    """One pool for requests and one for watches, so that neither waits for the other."""

    def __init__(self, access: ClientConfig, user_agent: str) -> None:
        self._access = access
        self._headers = {"User-Agent": user_agent}
        self._url = access.endpoint.url
        host = URL(self._url).host or ""
        local = _is_loopback(host)
        self._headers["Accept-Encoding"] = "identity" if local else "gzip"
        self._proxy = access.endpoint.proxy or _proxy_from_environment(self._url, local)
        self._idle = asyncio.Event()
        self._idle.set()
        self._users = 0
        tls = tls_context(access.endpoint, access.identity) if self._url[:5] == "https" else True
        self.requests = _session(tls)
        self.watches = _session(tls)

    def serve(self, access: ClientConfig) -> bool:
        """Whether these connections do for an access; a new token needs no new ones."""
        mine, other = self._access.identity, access.identity
        return self._access.endpoint == access.endpoint and (mine.certificate, mine.key) == (
            other.certificate,
            other.key,
        )

    def enter(self) -> None:
        """Keep them open from now on, even though others take their place."""
        self._users += 1
        self._idle.clear()

    def leave(self) -> None:
        """The end of what `enter` began."""
        self._users -= 1
        if self._users == 0:
            self._idle.set()

    async def retire(self) -> None:
        """Close when the last request and the last stream have ended."""
        await self._idle.wait()
        await self.close()

    async def close(self) -> None:
        """Close at once; streams that are still read break off."""
        self._idle.set()
        await self.requests.close()
        await self.watches.close()

    def arguments(
        self, access: ClientConfig, request: Request, *, streamed: bool
    ) -> dict[str, Any]:
        """A request as aiohttp takes it."""
        headers = CIMultiDict(self._headers)
        headers["Accept"] = request.accept
        if streamed:
            headers["Accept-Encoding"] = "identity"
        if request.body:
            headers["Content-Type"] = request.content_type
        _identify(headers, access.identity)
        if request.headers:
            headers.extend(request.headers)
        return {
            "method": request.method,
            "url": URL(self._url + request.target, encoded=True),
            "headers": headers,
            "data": request.body or None,
            "proxy": self._proxy or None,
            "server_hostname": access.endpoint.server_name or None,
            "allow_redirects": False,
        }

    def failure(self, error: Exception, patience: timedelta) -> Unreachable:
        """What a failed connection is told as: in a few words, none of them a secret."""
        return Unreachable(_told(error, URL(self._url).authority, patience))


def _told(error: Exception, where: str, patience: timedelta) -> str:
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
            return f"no TLS connection to {where}: {_reason(error.os_error)}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {where}: {_reason(error.os_error)}"
        case aiohttp.ConnectionTimeoutError():
            return f"no connection to {where} in time"
        case TimeoutError():
            return f"no answer from {where} within {patience.total_seconds():.0f} s"
        case _:
            return f"the connection to {where} broke off ({type(error).__name__})"


def _reason(error: OSError) -> str:
    """The system's words for it: asyncio's own repeat the address."""
    number = error.errno or 0
    return os.strerror(number).lower() if number > 0 else error.strerror or "refused"


def _session(tls: Any) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        ssl=tls,
        limit=0,
        keepalive_timeout=KEEPALIVE.total_seconds(),
        socket_factory=_socket,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_AHEAD,
        skip_auto_headers=("Content-Type",),
    )


def _socket(address: Any) -> socket.socket:
    """A socket that notices within a minute when the other side is gone without a word."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _identify(headers: CIMultiDict[str], identity: Identity) -> None:
    if identity.token:
        headers["Authorization"] = f"Bearer {identity.token}"
    elif identity.username:
        pair = f"{identity.username}:{identity.password}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    if identity.impersonate:
        headers.extend(identity.impersonate)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _proxy_from_environment(url: str, local: bool) -> str:
    """As kubectl does: by scheme, never for this machine, and not where NO_PROXY says so."""
    target = URL(url)
    host = target.host or ""
    if local or proxy_bypass(f"{host}:{target.port}") or proxy_bypass(host):
        return ""
    return getproxies().get(target.scheme, "")


def tls_context(endpoint: ServerEndpoint, identity: Identity) -> ssl.SSLContext:
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


def _trusting_only(endpoint: ServerEndpoint) -> ssl.SSLContext:
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
