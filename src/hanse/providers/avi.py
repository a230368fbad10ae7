"""An Avi controller as an external system, by its REST API.

The owner of an object is kept in its description. A session begins with a login by name and
password, and again when it has expired; only the leader of the GSLB is written to.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Struct

from hanse.features.gslb.avi import REFUSED_USER, AviAccess
from hanse.kube.errors import (
    AlreadyExists,
    BadCredentials,
    Conflict,
    NotFound,
    Status,
    Unreachable,
    error_from_response,
)
from hanse.kube.loop_connector import LoopConnector
from hanse.kube.transport import Response
from hanse.model.json_input import decode_json
from hanse.model.kinds.avi import AviGslbService, AviHealthMonitor
from hanse.model.objects import K, Object, Wire
from hanse.providers.avi_wire import (
    OWN_FIELDS,
    decode_monitor,
    decode_service,
    encode_monitor,
    encode_service,
)

PAGE = 200
REQUEST_TIMEOUT = timedelta(seconds=30)
A = TypeVar("A")


class NoController(Struct, frozen=True):
    """Why there is no controller to write to."""

    why: str


ControllerLookup = Callable[[], AviAccess | NoController]
"""Returns the controller to use; called at each request, since the configuration may change."""

_PATHS: dict[type[Object], str] = {
    AviGslbService: "gslbservice",
    AviHealthMonitor: "healthmonitor",
}


class AviController:
    """The leading controller, whichever that is, as an `ExternalSystem`."""

    kinds: Sequence[type[Object]] = (AviGslbService, AviHealthMonitor)

    def __init__(self, lookup: ControllerLookup) -> None:
        """No session exists yet: the first request logs in to the controller of `lookup`."""
        self._lookup = lookup
        self._logged_in_to: AviAccess | None = None
        self._session: aiohttp.ClientSession | None = None
        self._token = ""
        self._tls: ssl.SSLContext | bool = True
        self._login = asyncio.Lock()
        """Kinds are listed at the same time: one of them logs in."""

    async def list(self, kind: type[K]) -> Sequence[K]:
        """List all objects of a kind, page by page; raises NotFound for a kind without a path.

        Raises the other errors of `_request`.
        """
        if kind not in _PATHS:
            raise NotFound(Status(404, "NotFound", f"a controller holds no {kind.kind}"))
        found: list[K] = []
        page = 1
        while True:
            path = f"{_PATHS[kind]}?page_size={PAGE}&page={page}"
            answer = await self._request("GET", path)
            found += [_decode_object(kind, wire) for wire in answer.get("results", ())]
            if not answer.get("next"):
                return found
            page += 1

    async def read(self, kind: type[K], name: str) -> K:
        """Read one object by name: a list of all would be expensive.

        Raises `NotFound` if there is none, or the kind has no path, and the other errors of
        `_request`.
        """
        if kind not in _PATHS:
            raise NotFound(Status(404, "NotFound", f"a controller holds no {kind.kind}"))
        return _decode_object(kind, await self._read_wire(kind, name))

    async def create(self, obj: K) -> K:
        """Create an object by POST and return it as the controller stored it.

        Raises `AlreadyExists` if its name is taken, and the other errors of `_request`.
        """
        return _decode_object(
            type(obj), await self._request("POST", _PATHS[type(obj)], _encode_object(obj))
        )

    async def update(self, obj: K) -> K:
        """Read the object anew, and replace our fields in it; fields of others stay as they are.

        Returns it as the controller stored it. Raises `NotFound` if it is gone, and `Conflict` if
        the name is another object now, or if it changes between this read and the write.
        """
        observed = await self._read_wire(type(obj), obj.metadata.name)
        if observed["uuid"] != obj.metadata.uid:
            raise Conflict(Status(409, "Conflict", f"{obj.metadata.name} is another object now"))
        kept = {name: value for name, value in observed.items() if name not in OWN_FIELDS}
        body = {**kept, **_encode_object(obj)}
        path = f"{_PATHS[type(obj)]}/{quote(obj.metadata.uid)}"
        return _decode_object(type(obj), await self._request("PUT", path, body))

    async def delete(self, obj: K) -> None:
        """Delete an object by its uid; raises `NotFound` and the other errors of `_request`."""
        await self._request("DELETE", f"{_PATHS[type(obj)]}/{quote(obj.metadata.uid)}")

    async def close(self) -> None:
        """Close the HTTP session without a logout; the next request logs in again."""
        session, self._session, self._logged_in_to = self._session, None, None
        if session is not None:
            await session.close()

    async def _read_wire(self, kind: type[Object], name: str) -> Wire:
        """The first object of this name as wire data; raises NotFound if there is none."""
        answer = await self._request("GET", f"{_PATHS[kind]}?name={quote(name)}")
        for wire in answer.get("results", ()):
            return dict(wire)
        raise NotFound(Status(404, "NotFound", f"{name} is not there"))

    async def _request(self, method: str, path: str, body: Wire | None = None) -> Wire:
        """Send one request below /api, after a login if needed, and return the decoded body.

        A 401 leads to one more login and attempt. Raises `Unreachable` without a controller, the
        errors of `_log_in`, and the typed error of any other status.
        """
        controller = self._lookup()
        if isinstance(controller, NoController):
            await self.close()
            raise Unreachable(controller.why)
        session = await self._ensure_session(controller, None)
        answer = await self._send(controller, method, f"/api/{path}", body)
        if answer.status == 401:
            await self._ensure_session(controller, session)
            answer = await self._send(controller, method, f"/api/{path}", body)
        return _decode(answer)

    async def _ensure_session(
        self, controller: AviAccess, expired: aiohttp.ClientSession | None
    ) -> aiohttp.ClientSession:
        """The session at a controller; logs in if there is none, or only the expired one.

        A session at another controller, or with other credentials, is closed first.
        """
        async with self._login:
            if controller != self._logged_in_to or self._session in (None, expired):
                await self.close()
                await self._log_in(controller)
            assert self._session is not None, "it was begun"
            return self._session

    async def _log_in(self, controller: AviAccess) -> None:
        """Open a session and log in; raises `BadCredentials` if that is refused.

        Raises `Unreachable` if another controller leads the GSLB. A failure closes the session.
        """
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT.total_seconds())
        jar = aiohttp.CookieJar(unsafe=True)  # controllers are mostly named by address
        self._tls = _tls_context(controller)
        self._session = aiohttp.ClientSession(
            timeout=timeout, cookie_jar=jar, connector=LoopConnector()
        )
        self._token = ""
        try:
            login = {"username": controller.username, "password": controller.password}
            answer = await self._send(controller, "POST", "/login", login)
            _require_login(controller, answer)
            self._token = self._cookie("csrftoken")
            await self._require_leader(controller)
        except BaseException:  # also a cancellation leaves no connection behind
            await self.close()
            raise
        self._logged_in_to = controller

    async def _require_leader(self, controller: AviAccess) -> None:
        """Raise `Unreachable` unless the GSLB names this controller's cluster as its leader."""
        own = _decode(await self._send(controller, "GET", "/api/cluster"))
        sites = _decode(await self._send(controller, "GET", "/api/gslb")).get("results", ())
        leaders = [site.get("leader_cluster_uuid") for site in sites]
        if own.get("uuid") not in leaders:
            raise Unreachable(
                f"{_url(controller)} does not lead the GSLB; "
                "set controllerIP to the leader's address"
            )

    async def _send(
        self, controller: AviAccess, method: str, path: str, body: Wire | None = None
    ) -> Response:
        """Send one HTTP request in the open session, with tenant, version and CSRF token if known.

        Returns any status; raises Unreachable if no response arrives. The tenant is `admin` by
        default.
        """
        assert self._session is not None, "a session was begun"
        headers = {
            "X-Avi-Version": controller.version,
            "X-Avi-Tenant": controller.tenant or "admin",
            "Referer": _url(controller),
            **({"X-CSRFToken": self._token} if self._token else {}),
        }
        try:
            async with self._session.request(
                method,
                f"{_url(controller)}{path}",
                json=body,
                headers=headers,
                ssl=self._tls,
            ) as answer:
                response_headers = {name.lower(): value for name, value in answer.headers.items()}
                return Response(answer.status, await answer.read(), response_headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"cannot connect to {_url(controller)}: {reason}") from None

    def _cookie(self, name: str) -> str:
        """The value of a cookie of the session; empty if there is none."""
        assert self._session is not None, "a session was begun"
        return next((c.value for c in self._session.cookie_jar if c.key == name), "")


def _require_login(controller: AviAccess, answer: Response) -> None:
    """Raise `BadCredentials` if a login was refused, and the typed error of any other failure."""
    if answer.status in (401, 403):
        raise BadCredentials(f"{_url(controller)}{REFUSED_USER}{controller.username!r}")
    _decode(answer)


def _url(controller: AviAccess) -> str:
    """`https://` and the controller's address."""
    return f"https://{controller.address}"


def _tls_context(controller: AviAccess) -> ssl.SSLContext | bool:
    """The TLS context that trusts a controller's CA; True, the system's CAs, if it has none.

    Raises `BadCredentials` for an invalid CA.
    """
    if not controller.ca:
        return True
    try:
        return ssl.create_default_context(cadata=controller.ca)
    except ssl.SSLError:
        raise BadCredentials(
            f"{_url(controller)}: certificateAuthorityData of its Secret is no certificate in PEM"
        ) from None


def _decode(answer: Response) -> Wire:
    """The JSON object of a 2xx answer, {} if its body is empty or other JSON.

    Raises the typed error of any other status, and `Unreachable` for a body that is not JSON.
    """
    if 200 <= answer.status < 300:
        try:
            found = decode_json(answer.body) if answer.body.strip() else {}
        except msgspec.DecodeError as error:
            raise Unreachable(f"the controller's answer is not JSON: {error}") from None
        return dict(found) if isinstance(found, dict) else {}
    text = _error_message(answer.body)
    status = Status(answer.status, "", text)
    if answer.status == 412:  # it was changed since we read it
        raise Conflict(status)
    if answer.status == 409 and "already exists" in text.lower():
        raise AlreadyExists(status)
    body = msgspec.json.encode({"code": answer.status, "message": text})
    raise error_from_response(Response(answer.status, body, answer.headers))


def _error_message(body: bytes) -> str:
    """The `error` field of a JSON body (500 characters), or the first 200 bytes of another body."""
    try:
        answer = decode_json(body)
    except msgspec.DecodeError:
        return body[:200].decode("utf-8", "replace").strip()
    return str(answer.get("error", answer) if isinstance(answer, dict) else answer)[:500]


def _decode_object(kind: type[K], wire: Wire) -> K:
    """The GSLB service of wire data if that is the kind, else the health monitor."""
    obj: Object = decode_service(wire) if kind is AviGslbService else decode_monitor(wire)
    return cast("K", obj)


def _encode_object(obj: Object) -> dict[str, Any]:
    """The wire data of a GSLB service or health monitor; raises TypeError for any other kind."""
    match obj:
        case AviGslbService():
            return encode_service(obj)
        case AviHealthMonitor():
            return encode_monitor(obj)
        case _:
            raise TypeError(f"{type(obj).__name__} is nothing that a controller holds")
