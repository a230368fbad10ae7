"""An Avi controller by its REST API, seen as the engine sees any system: list, create, update.

Whose an object is stands in its description. A session is begun with a user's name and password,
and anew whenever the controller has forgotten it; only the controller that leads the GSLB is used.
"""

import ssl
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Struct

from hanse.kube.errors import (
    AlreadyExists,
    BadCredentials,
    Conflict,
    KubeError,
    NotFound,
    Status,
    Unreachable,
    error_from_response,
)
from hanse.kube.transport import Response
from hanse.model.kinds.avi import AviGslbService, AviHealthMonitor
from hanse.model.objects import K, Object, Wire
from hanse.providers.avi_wire import monitor_from, monitor_to, service_from, service_to

PAGE = 200
PATIENCE = timedelta(seconds=30)
A = TypeVar("A")


class Controller(Struct, frozen=True):
    """Where a controller is, and who we are there; never shown."""

    url: str
    version: str
    tenant: str
    username: str
    password: str
    ca: str = ""
    """The authority that its certificate is judged by, in PEM; none: those of the system."""

    def __repr__(self) -> str:
        return f"Controller({self.url!r}, <secret>)"


class NoController(Struct, frozen=True):
    """There is none to go to, and why."""

    why: str


Where = Callable[[], Controller | NoController]
"""Which controller leads as of now; asked at each request, since leaders change."""

_PATHS: dict[type[Object], str] = {
    AviGslbService: "gslbservice",
    AviHealthMonitor: "healthmonitor",
}


class AviController:
    """The controller that leads, whichever that is; an engine's outside system."""

    kinds: Sequence[type[Object]] = (AviGslbService, AviHealthMonitor)

    def __init__(self, where: Where) -> None:
        self._where = where
        self._at: Controller | None = None
        self._session: aiohttp.ClientSession | None = None
        self._token = ""
        self._trust: ssl.SSLContext | bool = True

    async def list(self, kind: type[K]) -> Sequence[K]:
        if kind not in _PATHS:
            raise NotFound(Status(404, "NotFound", f"a controller holds no {kind.kind}"))
        found: list[K] = []
        page = 1
        while True:
            path = f"{_PATHS[kind]}?page_size={PAGE}&page={page}"
            told = await self._ask("GET", path)
            found += [_object(kind, one) for one in told.get("results", ())]
            if not told.get("next"):
                return found
            page += 1

    async def read(self, kind: type[K], name: str) -> K:
        """One object: a list of all would cost too much before each write."""
        if kind not in _PATHS:
            raise NotFound(Status(404, "NotFound", f"a controller holds no {kind.kind}"))
        return _object(kind, await self._read(kind, name))

    async def create(self, obj: K) -> K:
        return _object(type(obj), await self._ask("POST", _PATHS[type(obj)], _body(obj)))

    async def update(self, obj: K) -> K:
        """Replace an object that must still be as it was seen: the controller compares."""
        standing = await self._read(type(obj), obj.metadata.name)
        if standing["uuid"] != obj.metadata.uid:
            raise Conflict(Status(409, "Conflict", f"{obj.metadata.name} is another object now"))
        body = {**standing, **_body(obj)}
        path = f"{_PATHS[type(obj)]}/{quote(obj.metadata.uid)}"
        return _object(type(obj), await self._ask("PUT", path, body))

    async def delete(self, obj: K) -> None:
        await self._ask("DELETE", f"{_PATHS[type(obj)]}/{quote(obj.metadata.uid)}")

    async def close(self) -> None:
        """End the session."""
        session, self._session, self._at = self._session, None, None
        if session is not None:
            await session.close()

    async def _read(self, kind: type[Object], name: str) -> Wire:
        told = await self._ask("GET", f"{_PATHS[kind]}?name={quote(name)}")
        for one in told.get("results", ()):
            return dict(one)
        raise NotFound(Status(404, "NotFound", f"{name} is not there"))

    async def _ask(self, method: str, path: str, body: Wire | None = None) -> Wire:
        """One request; a session that was forgotten is begun anew, once."""
        controller = self._where()
        if isinstance(controller, NoController):
            await self.close()
            raise Unreachable(controller.why)
        if controller != self._at:
            await self.close()
            await self._begin(controller)
        answer = await self._send(controller, method, f"/api/{path}", body)
        if answer.status == 401:
            await self.close()
            await self._begin(controller)
            answer = await self._send(controller, method, f"/api/{path}", body)
        return _told(answer)

    async def _begin(self, controller: Controller) -> None:
        """Log in, and make sure that this controller leads."""
        timeout = aiohttp.ClientTimeout(total=PATIENCE.total_seconds())
        jar = aiohttp.CookieJar(unsafe=True)  # controllers are mostly named by address
        self._trust = _trust_in(controller)
        self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=jar)
        self._token = ""
        try:
            login = {"username": controller.username, "password": controller.password}
            answer = await self._send(controller, "POST", "/login", login)
            if answer.status in (401, 403):
                raise BadCredentials(f"{controller.url} refuses user {controller.username!r}")
            _told(answer)
            self._token = self._cookie("csrftoken")
            await self._require_leader(controller)
        except KubeError:
            await self.close()
            raise
        self._at = controller

    async def _require_leader(self, controller: Controller) -> None:
        own = _told(await self._send(controller, "GET", "/api/cluster"))
        sites = _told(await self._send(controller, "GET", "/api/gslb")).get("results", ())
        leaders = [site.get("leader_cluster_uuid") for site in sites]
        if own.get("uuid") not in leaders:
            raise Unreachable(
                f"{controller.url} does not lead the GSLB; set controllerIP to the leader's address"
            )

    async def _send(
        self, controller: Controller, method: str, path: str, body: Wire | None = None
    ) -> Response:
        assert self._session is not None, "a session was begun"
        headers = {
            "X-Avi-Version": controller.version,
            "X-Avi-Tenant": controller.tenant or "admin",
            "Referer": controller.url,
            **({"X-CSRFToken": self._token} if self._token else {}),
        }
        try:
            async with self._session.request(
                method,
                f"{controller.url}{path}",
                json=body,
                headers=headers,
                ssl=self._trust,
            ) as answer:
                told = {name.lower(): value for name, value in answer.headers.items()}
                return Response(answer.status, await answer.read(), told)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"cannot connect to {controller.url}: {why}") from None

    def _cookie(self, name: str) -> str:
        assert self._session is not None, "a session was begun"
        return next((c.value for c in self._session.cookie_jar if c.key == name), "")


def _trust_in(controller: Controller) -> ssl.SSLContext | bool:
    """What its certificate is judged by; raises `BadCredentials` for an authority that is none."""
    if not controller.ca:
        return True
    try:
        return ssl.create_default_context(cadata=controller.ca)
    except ssl.SSLError:
        raise BadCredentials(
            f"{controller.url}: certificateAuthorityData of its Secret is no certificate in PEM"
        ) from None


def _told(answer: Response) -> Wire:
    """What a controller says, or the typed error."""
    if 200 <= answer.status < 300:
        found = msgspec.json.decode(answer.body) if answer.body.strip() else {}
        return dict(found) if isinstance(found, dict) else {}
    text = _error_in(answer.body)
    status = Status(answer.status, "", text)
    if answer.status == 412:  # somebody changed it since we read it
        raise Conflict(status)
    if answer.status == 409 and "already exists" in text.lower():
        raise AlreadyExists(status)
    body = msgspec.json.encode({"code": answer.status, "message": text})
    raise error_from_response(Response(answer.status, body, answer.headers))


def _error_in(body: bytes) -> str:
    try:
        told = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body[:200].decode("utf-8", "replace").strip()
    return str(told.get("error", told))[:500] if isinstance(told, dict) else str(told)[:500]


def _object(kind: type[K], told: Wire) -> K:
    made: Object = service_from(told) if kind is AviGslbService else monitor_from(told)
    return cast("K", made)


def _body(obj: Object) -> dict[str, Any]:
    match obj:
        case AviGslbService():
            return service_to(obj)
        case AviHealthMonitor():
            return monitor_to(obj)
        case _:
            raise TypeError(f"{type(obj).__name__} is nothing that a controller holds")
