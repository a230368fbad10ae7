"""A small stateful server of the shape of an Avi controller: sessions, tenants, versions, objects.

Written from the published API, for tests: no appliance was at hand.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from aiohttp import web

from hanse.kube.certificates import CertificateAuthority
from hanse.kube.server_tls import server_context

USER, PASSWORD = "amko", "a-secret"
KINDS = ("gslbservice", "healthmonitor")


class AviServer:
    """One controller: its objects, who is logged in, and what goes wrong next."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in KINDS}
        self.sessions: set[str] = set()
        self.logins = 0
        self.writes: list[tuple[str, str]] = []
        self.leads = True
        self.failures: list[tuple[int, dict[str, str]]] = []
        """Answers to give to the next writes instead of doing them."""
        self.page = ""
        """HTML to answer with to requests for objects, as a proxy in front of a controller does."""
        self.authority = CertificateAuthority.create("controller")
        self.port = 0
        self._numbers = count(1)

    @property
    def services(self) -> dict[str, dict[str, Any]]:
        return self.objects["gslbservice"]

    def forget_sessions(self) -> None:
        self.sessions.clear()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["AviServer"]:
        app = web.Application()
        app.router.add_post("/login", self._login)
        app.router.add_get("/api/cluster", self._cluster)
        app.router.add_get("/api/gslb", self._gslb)
        app.router.add_route("*", "/api/{kind}", self._collection)
        app.router.add_route("*", "/api/{kind}/{uuid}", self._one)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        context: ssl.SSLContext = server_context(
            self.authority.server("controller", ("127.0.0.1", "localhost"))
        )
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _login(self, request: web.Request) -> web.Response:
        login = await request.json()
        if (login.get("username"), login.get("password")) != (USER, PASSWORD):
            return web.json_response({"error": "Invalid credentials"}, status=401)
        self.logins += 1
        session = f"session-{next(self._numbers)}"
        self.sessions.add(session)
        answer = web.json_response({"user": {"name": USER}})
        answer.set_cookie("avi-sessionid", session)
        answer.set_cookie("sessionid", session)
        answer.set_cookie("csrftoken", f"csrf-{session}")
        return answer

    def _refusal(self, request: web.Request) -> web.Response | None:
        session = request.cookies.get("sessionid", "")
        if session not in self.sessions:
            return web.json_response({"error": "Invalid credentials"}, status=401)
        if not request.headers.get("X-Avi-Version") or not request.headers.get("X-Avi-Tenant"):
            return web.json_response({"error": "version and tenant are needed"}, status=400)
        if request.method != "GET":
            if request.headers.get("X-CSRFToken") != f"csrf-{session}":
                return web.json_response({"error": "CSRF Failed"}, status=403)
            if not request.headers.get("Referer", "").startswith("https://"):
                return web.json_response({"error": "Referer checking failed"}, status=403)
            if self.failures:
                status, headers = self.failures.pop(0)
                return web.json_response({"error": "later"}, status=status, headers=headers)
        return None

    async def _cluster(self, request: web.Request) -> web.Response:
        return self._refusal(request) or web.json_response({"uuid": "cluster-1"})

    async def _gslb(self, request: web.Request) -> web.Response:
        leader = "cluster-1" if self.leads else "cluster-2"
        answer = {"count": 1, "results": [{"leader_cluster_uuid": leader}]}
        return self._refusal(request) or web.json_response(answer)

    async def _collection(self, request: web.Request) -> web.Response:
        if refusal := self._refusal(request):
            return refusal
        if self.page:
            return web.Response(text=self.page, content_type="text/html")
        kind = request.match_info["kind"]
        if request.method == "POST":
            return self._create(kind, await request.json())
        found = list(self.objects[kind].values())
        if name := request.query.get("name"):
            found = [one for one in found if one["name"] == name]
        size, page = int(request.query.get("page_size", "50")), int(request.query.get("page", "1"))
        shown = found[(page - 1) * size : page * size]
        answer: dict[str, Any] = {"count": len(found), "results": shown}
        if page * size < len(found):
            answer["next"] = f"/api/{kind}?page={page + 1}"
        return web.json_response(answer)

    def _create(self, kind: str, body: dict[str, Any]) -> web.Response:
        if any(one["name"] == body["name"] for one in self.objects[kind].values()):
            text = f"{body['name']} already exists"
            return web.json_response({"error": text}, status=409)
        uuid = f"{kind}-{next(self._numbers)}"
        return web.json_response(self._kept(kind, {**body, "uuid": uuid}), status=201)

    async def _one(self, request: web.Request) -> web.Response:
        if refusal := self._refusal(request):
            return refusal
        kind, uuid = request.match_info["kind"], request.match_info["uuid"]
        existing = self.objects[kind].get(uuid)
        if existing is None:
            return web.json_response({"error": "not found"}, status=404)
        if request.method == "DELETE":
            self.writes.append(("DELETE", existing["name"]))
            del self.objects[kind][uuid]
            return web.Response(status=204)
        body = await request.json()
        if body.get("_last_modified") != existing["_last_modified"]:
            return web.json_response({"error": "Concurrent Update Error"}, status=412)
        return web.json_response(self._kept(kind, body))

    def _kept(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """What is written, with what a controller fills in and how it tells references."""
        refs = [
            f"https://127.0.0.1/api/healthmonitor/uuid#{ref.rpartition('=')[2]}"
            if "=" in ref
            else ref
            for ref in body.get("health_monitor_refs", ())
        ]
        filled = {
            "tenant_ref": "/api/tenant/admin",
            "enabled": True,
            **body,
            "_last_modified": str(next(self._numbers)),
        }
        if "health_monitor_refs" in body:
            filled["health_monitor_refs"] = refs
        self.writes.append((kind, body["name"]))
        self.objects[kind][body["uuid"]] = filled
        return filled
