"""The dashboard over HTTP: the page, its data as server-sent events, and its actions."""

import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import msgspec
from aiohttp import web

from hanse.model.json_input import decode_json
from hanse.web.dashboard.actions import Action, ActionRefused, PageActions
from hanse.web.dashboard.auth import COOKIE
from hanse.web.dashboard.updates import LiveUpdates
from hanse.web.dashboard.viewers import Access, AccessUnknown, Viewer, filter_update

log = logging.getLogger(__name__)

LARGEST_BODY = 256 * 1024
_VIEWER = web.RequestKey("viewer", Viewer)

_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@asynccontextmanager
async def serving(
    updates: LiveUpdates,
    auth: Access,
    actions: PageActions,
    listener: socket.socket,
    hosts: tuple[str, ...] = (),
) -> AsyncIterator[None]:
    """Serve the page on a socket until the block ends, for requests with these Host headers.

    Loopback names with the socket's port are always allowed. Updates run as long.
    """
    port = listener.getsockname()[1]
    names = {f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]")}
    app = web.Application(
        client_max_size=LARGEST_BODY, middlewares=[_guard_middleware(auth, names | set(hosts))]
    )
    routes = _Routes(updates, auth, actions)
    app.router.add_get("/", routes.page)
    app.router.add_get("/page/{file}", routes.file)
    app.router.add_get("/enter/{code}", routes.enter)
    app.router.add_post("/api/enter", routes.log_in)
    app.router.add_get("/api/may", routes.may)
    app.router.add_get("/api/board", routes.board)
    app.router.add_get("/api/events", routes.events)
    for name, action in actions.available.items():
        app.router.add_post(f"/api/{name}", _action_handler(action))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        async with updates.running():
            yield
    finally:
        await runner.cleanup()


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _guard_middleware(auth: Access, hosts: set[str]) -> Any:
    """A middleware that refuses unknown hosts (421), other origins (403) and no valid token (401).

    Only paths below `/api/` but `/api/enter` need a token; 503 if it cannot be checked. Adds the
    security headers to other responses that are not yet sent.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse unknown hosts (421), foreign origins (403) and API requests without token (401).

        503 if the token cannot be checked; `/api/enter` needs none. Adds the security headers to
        other responses that are not yet sent.
        """
        if request.host not in hosts:
            text = "this is not the name of this dashboard; see --dashboard-host\n"
            return web.Response(status=421, text=text)
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != request.host:
            return web.Response(status=403, text="only the dashboard's own page may ask\n")
        if request.path.startswith("/api/") and request.path != "/api/enter":
            try:
                viewer = await _viewer(request, auth)
            except AccessUnknown as error:
                return web.Response(status=503, text=f"your token cannot be checked now: {error}\n")
            if viewer is None:
                return web.Response(status=401, text="the dashboard's token is missing or wrong\n")
            request[_VIEWER] = viewer
        response = await handler(request)
        if not response.prepared:
            response.headers.extend(_HEADERS)
        return response

    return guard


async def _viewer(request: web.Request, auth: Access) -> Viewer | None:
    """Who asks, by a valid bearer token, else by the cookie; None for others.

    The cookie counts for other methods than GET only with the header X-Hanse. Raises
    `AccessUnknown`.
    """
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer" and (found := await auth.viewer(token.strip())) is not None:
        return found
    # Browsers send cookies by themselves: a change also needs our own page's header.
    if request.method != "GET" and "X-Hanse" not in request.headers:
        return None
    return await auth.viewer(request.cookies.get(COOKIE, ""))


def _action_handler(action: Action) -> Handler:
    """A handler that runs an action with the JSON of the request, and answers its result as JSON.

    400 for a malformed body, 413 for one that is too large, 422 if the action refuses.
    """

    async def answer(request: web.Request) -> web.Response:
        """Run the action with the JSON body and return its result as JSON.

        400 if the body is malformed, 413 if it is too large, 422 if the action refuses.
        """
        try:
            arguments = decode_json(await request.read(), type=dict[str, Any])
            result = await action(arguments)
        except msgspec.DecodeError as error:
            return web.json_response(
                {"refused": f"that is not what is expected: {error}"}, status=400
            )
        except web.HTTPRequestEntityTooLarge:
            most = f"that is larger than {LARGEST_BODY // 1024} KiB"
            return web.json_response({"refused": most}, status=413)
        except ActionRefused as refusal:
            return web.json_response({"refused": str(refusal)}, status=422)
        return web.Response(body=msgspec.json.encode(result), content_type="application/json")

    return answer


class _Routes:
    def __init__(self, updates: LiveUpdates, auth: Access, actions: PageActions) -> None:
        """Read the files of the page into memory; it shows only available actions."""
        self._updates = updates
        self._auth = auth
        self._available = sorted(actions.available)
        page = files("hanse.web.dashboard") / "page"
        self._files = {one.name: one.read_bytes() for one in page.iterdir() if one.is_file()}

    async def page(self, _: web.Request) -> web.Response:
        """Send `index.html`."""
        return self._send_file("index.html")

    async def file(self, request: web.Request) -> web.Response:
        """Send a file of the dashboard; 404 if there is none of that name."""
        name = request.match_info["file"]
        if name not in self._files:
            return web.Response(status=404, text="there is no such file\n")
        return self._send_file(name)

    def _send_file(self, name: str) -> web.Response:
        """A response with a file from memory, its content type taken from the name's suffix."""
        content_type = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        charset = None if content_type.startswith("image") else "utf-8"
        return web.Response(body=self._files[name], content_type=content_type, charset=charset)

    async def enter(self, request: web.Request) -> web.Response:
        """Set the cookie for a valid one-time code and redirect to the page.

        A used, expired or unknown code redirects to `/#/spent` without a cookie.
        """
        cookie = self._auth.redeem(request.match_info["code"])
        if cookie is None:
            return web.Response(status=303, headers={"Location": "/#/spent"})
        answer = web.Response(status=303, headers={"Location": "/"})
        _set_cookie(answer, cookie)
        return answer

    async def log_in(self, request: web.Request) -> web.Response:
        """Set the cookie if the body has a valid token; 401 if not, 503 if it cannot be checked.

        A malformed body has no valid token.
        """
        try:
            token = decode_json(await request.read(), type=dict[str, str]).get("token", "")
        except msgspec.DecodeError:
            token = ""
        try:
            cookie = await self._auth.admit(token.strip())
        except AccessUnknown as error:
            text = f"your token cannot be checked now: {error}"
            return web.json_response({"refused": text}, status=503)
        if cookie is None:
            return web.json_response({"refused": "that is not the dashboard's token"}, status=401)
        answer = web.json_response({})
        _set_cookie(answer, cookie)
        return answer

    async def may(self, _: web.Request) -> web.Response:
        """The names of the actions that are offered, as JSON."""
        return web.json_response({"may": self._available})

    async def board(self, request: web.Request) -> web.Response:
        """All that the viewer may see, at once as JSON, for clients that do not subscribe.

        That is the sections and the timeline, filtered, with the offered actions and the local
        state.
        """
        state = await self._updates.full_state()
        seen = msgspec.json.encode({"put": state["sections"], "timeline": state["timeline"]})
        shown = msgspec.json.decode(filter_update(seen, request[_VIEWER]), type=_Board)
        body = {
            "may": self._available,
            "sections": shown.put,
            "timeline": shown.timeline,
            "around": state["around"],
        }
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    async def events(self, request: web.Request) -> web.StreamResponse:
        """All that the viewer may see, and then updates, as server-sent events; 503 if too many.

        The viewer is checked again at each update; the stream ends if they lost their access, or it
        cannot be checked.
        """
        answer = web.StreamResponse(
            headers={**_HEADERS, "Content-Type": "text/event-stream; charset=utf-8"}
        )
        with self._updates.subscribed() as subscriber:
            if subscriber is None:
                return web.Response(status=503, text="too many look already; close some pages\n")
            await answer.prepare(request)
            await answer.write(
                _encode_event("hello", msgspec.json.encode({"may": self._available}))
            )
            try:
                async for update in subscriber:
                    viewer = await _viewer(request, self._auth)  # they may have lost rights
                    if viewer is None:
                        break
                    await answer.write(_encode_event("news", filter_update(update, viewer)))
            except (ConnectionError, AccessUnknown):
                log.debug("a page was closed, or its viewer cannot be checked: it comes again")
        return answer


class _Board(msgspec.Struct):
    """What of an update everything at once is made of."""

    put: dict[str, dict[str, msgspec.Raw]] = {}
    timeline: list[msgspec.Raw] = []


def _set_cookie(answer: web.Response, value: str) -> None:
    """Set the session cookie: HttpOnly and SameSite=Strict, but not Secure."""
    answer.set_cookie(COOKIE, value, httponly=True, samesite="Strict", path="/")


def _encode_event(name: str, body: bytes) -> bytes:
    """One server-sent event with this name and data."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), body)
