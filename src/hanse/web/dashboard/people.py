"""People who look at a console, each by their own Kubernetes token and with their own rights."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from hanse.kube.errors import KubeError
from hanse.kube.transport import Request, Response
from hanse.model.json_input import decode_json
from hanse.web.dashboard.viewers import AccessUnknown, Viewer

TRUSTED_FOR = timedelta(minutes=1)
"""How long a review of a token and of rights counts; then the API server is asked again."""
SESSION = timedelta(hours=8)
MAX_SESSIONS = 1000
MAX_REVIEWS = 16
"""Reviews that are asked at a time."""

Send = Callable[[Request], Awaitable[Response]]


class _Session(Struct):
    token: str
    ends: datetime


class _Reviewed(Struct, frozen=True):
    viewer: Viewer | None
    at: datetime


class People:
    """Admits whoever the API server knows; no secret is shared, and tokens stay in memory."""

    def __init__(
        self,
        send: Send,
        list_namespaces: Callable[[], Iterable[str]],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """No session exists yet; `send` sends a request to the API server that reviews tokens."""
        self._send = send
        self._list_namespaces = list_namespaces
        self._now = now
        self._sessions: dict[str, _Session] = {}
        self._reviewed: dict[bytes, _Reviewed] = {}
        self._turns = asyncio.Semaphore(MAX_REVIEWS)

    async def admit(self, token: str) -> str | None:
        """The cookie of a new session, for a token that a TokenReview accepts; None for others.

        The oldest session ends if there are too many. Raises `AccessUnknown` without an answer.
        """
        if await self._review(token) is None:
            return None
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = _Session(token, self._now() + SESSION)
        return cookie

    async def viewer(self, credential: str) -> Viewer | None:
        """Who has a session's cookie or a token, and the namespaces that they may see.

        It was reviewed at most a minute ago. None if the session has ended or the API server does
        not accept the token. Raises `AccessUnknown` without an answer.
        """
        session = self._sessions.get(credential)
        if session is not None and session.ends < self._now():
            del self._sessions[credential]
            return None
        return await self._review(session.token if session is not None else credential)

    def redeem(self, code: str) -> str | None:  # noqa: ARG002 - the contract of access
        """None: there are no one-time codes here."""
        return None

    async def _review(self, token: str) -> Viewer | None:
        """The viewer of a token; None if it is not accepted, as an empty one.

        The API server is asked at most once a minute for each token; raises `AccessUnknown` if it
        does not answer.
        """
        if not token:
            return None
        key = hashlib.sha256(token.encode()).digest()
        known = self._reviewed.get(key)
        if known is None or self._now() - known.at > TRUSTED_FOR:
            while len(self._reviewed) >= MAX_SESSIONS:
                del self._reviewed[next(iter(self._reviewed))]
            known = self._reviewed[key] = _Reviewed(await self._review_live(token), self._now())
        return known.viewer

    async def _review_live(self, token: str) -> Viewer | None:
        """The viewer of a token by TokenReview and SubjectAccessReviews; None if not accepted.

        They see the namespaces in which they may list Services, all if they may list them in all.
        Raises `AccessUnknown` without an answer.
        """
        review = await self._post(
            "/apis/authentication.k8s.io/v1/tokenreviews", "TokenReview", {"token": token}
        )
        status = review.get("status") or {}
        if not status.get("authenticated"):
            return None
        user = status.get("user") or {}
        name = str(user.get("username", ""))
        if await self._may_list(user, ""):
            return Viewer(name)
        spaces = sorted(set(self._list_namespaces()))
        may = await asyncio.gather(*(self._may_list(user, space) for space in spaces))
        allowed = frozenset(space for space, yes in zip(spaces, may, strict=True) if yes)
        return Viewer(name, allowed)

    async def _may_list(self, user: dict[str, Any], namespace: str) -> bool:
        """Whether a user may list Services in a namespace, or in all if it is empty.

        Asked by a SubjectAccessReview; raises `AccessUnknown` if that fails.
        """
        spec = {
            "user": user.get("username", ""),
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "extra": user.get("extra") or {},
            "resourceAttributes": {
                "verb": "list",
                "resource": "services",
                **({"namespace": namespace} if namespace else {}),
            },
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        review = await self._post(path, "SubjectAccessReview", spec)
        return bool((review.get("status") or {}).get("allowed"))

    async def _post(self, path: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        """POST a review to the API server, and return its answer; raises `AccessUnknown`.

        It may take 10 s; `MAX_REVIEWS` are asked at a time.
        """
        group = path.split("/")[2]
        body = msgspec.json.encode({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        request = Request("POST", path, body=body, timeout=timedelta(seconds=10))
        async with self._turns:
            try:
                found: dict[str, Any] = decode_json((await self._send(request)).body)
            except KubeError as error:
                raise AccessUnknown(str(error)) from error
            except msgspec.DecodeError as error:
                raise AccessUnknown(f"the answer to a {kind} is not JSON") from error
        return found
