"""The API server of one cluster: one request in, one response out, without HTTP."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from secrets import token_bytes

from tinykube import discovery
from tinykube.admission import WebhookAdmission
from tinykube.admission_chain import AdmissionChain
from tinykube.bootstrap import Bootstrap
from tinykube.builtin_resources import BUILTINS
from tinykube.clock import Clock
from tinykube.crds import CrdRegistrar
from tinykube.errors import (
    FAILURE,
    NoSuchPath,
    StatusError,
    method_not_allowed,
    verb_not_supported,
)
from tinykube.handlers import bodies, reads
from tinykube.handlers.calls import Call
from tinykube.handlers.deletion import DeleteHandler
from tinykube.handlers.negotiation import list_response, object_response
from tinykube.handlers.paths import is_resource_path, resolve_path
from tinykube.handlers.reviews import complete_review
from tinykube.handlers.subresources import SubresourceHandler
from tinykube.handlers.watch import WatchHandler
from tinykube.handlers.writes import WriteHandler
from tinykube.policy_admission import PolicyAdmission
from tinykube.rbac.attributes import attributes_of
from tinykube.rbac.authorizer import Authorizer, is_privileged
from tinykube.rbac.impersonation import effective_user
from tinykube.request import RequestLike, Response
from tinykube.resources import Registry
from tinykube.service_account_tokens import SECRET_TYPE, TokenIssuer
from tinykube.service_allocator import ServiceAllocator
from tinykube.storage import Snapshot, Storage
from tinykube.users import ADMIN, User
from tinykube.webhook_client import (
    ServiceResolver,
    WebhookCaller,
    call_over_https,
    no_services,
)

log = logging.getLogger(__name__)


class ApiServer:
    """A Kubernetes API over one storage; `service_range` is one CIDR, or two with a comma."""

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        service_range: str = "10.0.0.0/16",
        advertise: str = "192.0.2.1",
        port: int = 6443,
        history: int = 4096,
        seed: int | None = None,
        snapshot: Snapshot | None = None,
        call_webhook: WebhookCaller = call_over_https,
        resolve_service: ServiceResolver = no_services,
    ) -> None:
        """Assemble the handlers, then restore the snapshot, or create the initial objects if none.

        After a restore missing default roles are created. `advertise` and `port` are the endpoint
        of the Service `kubernetes`; `history` changes of each store are kept for watches. With a
        seed, uids, generated names and the token key repeat for the same name.
        """
        self.name = name
        self.clock = clock
        self.storage = Storage(history=history)
        self.registry = Registry(BUILTINS)
        start = None if seed is None else f"{name} {seed}"  # clusters have different uids
        random = Random(start)  # noqa: S311 -- names and uids, not secrets; seeded runs replay
        allocator = ServiceAllocator(self.storage, clock, random)
        webhooks = WebhookAdmission(
            self.storage, self.registry, random, call_webhook, resolve_service
        )
        policies = PolicyAdmission(self.storage, self.registry)
        admission = AdmissionChain(webhooks, policies)
        self._authorizer = Authorizer(self.storage)
        self._write_handler = WriteHandler(
            self.storage, clock, admission, allocator, random, self._authorizer
        )
        self._delete_handler = DeleteHandler(self.storage, clock, admission, allocator)
        key = token_bytes(32) if seed is None else random.randbytes(32)
        self._tokens = TokenIssuer(self.storage, clock, random, key)
        self._subresource_handler = SubresourceHandler(
            self.storage, self._write_handler, self._delete_handler, self._tokens, admission
        )
        self._watch_handler = WatchHandler(self.storage, clock)
        self._crd_registrar = CrdRegistrar(
            self.storage, self.registry, clock, self._delete_handler.remove
        )
        bootstrap = Bootstrap(self.storage, clock, random, allocator)
        if snapshot is None:
            bootstrap.create_initial_objects(service_range, advertise, port)
            self.storage.compact()  # no client has seen a version before the first request
        else:
            self.storage.restore(snapshot)
            bootstrap.create_missing_roles()

    async def send(self, request: RequestLike, user: User = ADMIN) -> Response:
        """Answer one request that is not a watch; errors are responses, never exceptions.

        What is not expected is logged and answered with 500.
        """
        try:
            return await self._handle(request, user)
        except StatusError as error:
            return error.response
        except Exception:
            log.exception("request failed", extra={"method": request.method, "path": request.path})
            return FAILURE.response

    @asynccontextmanager
    async def stream(
        self, request: RequestLike, user: User = ADMIN
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Answer one watch, line by line; the watch ends on exit.

        Raises `StatusError` on entry for any status but 200, 405 for a request that is not a watch.
        """
        call = self._resolve(request, self._authorize(request, user))
        if call.verb != "watch" or "watch" not in call.resource.verbs:
            raise method_not_allowed()
        watch = self._watch_handler.open(call)
        try:
            yield watch.lines()
        finally:
            watch.close()

    def authenticate(self, token: str) -> User | None:
        """The user of a ServiceAccount token that this server issued; None if it is not valid."""
        return self._tokens.authenticate(token)

    def drop_watches(self) -> None:
        """End every watch, as a restart of the server does."""
        self._watch_handler.end_all()

    def _authorize(self, request: RequestLike, caller: User) -> User:
        """The caller, or the user that Impersonate headers name; raises 403 if RBAC denies it.

        400 for impersonated groups without a user. Privileged users are not checked.
        """
        user = caller
        if request.headers:
            user = effective_user(request.headers, caller, self._authorizer)
        if not is_privileged(user):
            self._authorizer.check(user, attributes_of(request))
        return user

    def _resolve(self, request: RequestLike, user: User) -> Call:
        """The call for a request to a resource path; raises `NoSuchPath` for other paths.

        Raises a 404 too if the resource or subresource is not served.
        """
        if not is_resource_path(request.path):
            raise NoSuchPath
        target = resolve_path(self.registry, request.path)
        return Call(request, target, user, self.clock.now())

    async def _handle(self, request: RequestLike, user: User) -> Response:
        """Authorize a request and answer it, for a discovery document or for a resource.

        After a write, also a failed one, the CRDs' status and deletion are updated. Raises
        `StatusError`, which the caller answers.
        """
        user = self._authorize(request, user)
        if not is_resource_path(request.path):
            document = discovery.respond(self.registry, request)
            if document is None:
                raise NoSuchPath
            return document
        call = self._resolve(request, user)
        match self._check_verb(call):
            case "get" if call.target.subresource != "scale":
                return reads.get(self.storage, call, call.now)
            case "list":
                return reads.list_objects(self.storage, call, call.now)
            case _:
                pass
        try:
            return await self._handle_write(call)
        finally:
            self._crd_registrar.after_write(call.resource)

    async def _handle_write(self, call: Call) -> Response:
        """Answer a write, a review, or a subresource.

        A created token Secret of a service account is also populated, unless on a dry run. Raises
        405 for any other verb.
        """
        now = call.now
        result = await self._subresource_handler.handle(call)
        if result is not None:
            return object_response(call, result.code, result.object, now)
        if "list" not in call.resource.verbs:
            review = complete_review(
                call, bodies.decode_object(call), self._authorizer, self._tokens
            )
            return object_response(call, 201, review, now)
        match call.verb:
            case "create":
                result = await self._write_handler.create(call)
                if result.object.get("type") == SECRET_TYPE and not call.dry_run:
                    self._tokens.populate_secret(result.object)
            case "update":
                result = await self._write_handler.update(call)
            case "patch":
                result = await self._write_handler.patch(call)
            case "delete":
                deleted = await self._delete_handler.delete(call)
                return object_response(call, deleted.code, deleted.object, now)
            case "deletecollection":
                items = await self._delete_handler.delete_collection(call)
                return list_response(
                    call, items, {"resourceVersion": str(self.storage.version)}, now
                )
            case _:
                raise method_not_allowed()
        return object_response(call, result.code, result.object, now)

    def _check_verb(self, call: Call) -> str:
        """The call's verb, unchanged; raises 405 if the resource or subresource does not have it.

        Also refused: a create with a name but no subresource or the reverse, or while the CRD is
        terminating, and all verbs but list without the namespace that the resource needs (404 for
        custom resources).
        """
        subresource = call.resource.subresource(call.target.subresource)
        verbs = subresource.verbs if subresource is not None else call.resource.verbs
        if call.verb not in verbs:
            raise method_not_allowed()
        if call.resource.namespaced and not call.target.namespace and call.verb != "list":
            raise NoSuchPath if call.resource.custom is not None else method_not_allowed()
        if call.verb == "create" and self._crd_registrar.is_terminating(call.resource):
            why = "create not allowed while custom resource definition is terminating"
            raise verb_not_supported(call.resource, why)
        if call.verb == "create" and bool(call.target.name) != (subresource is not None):
            raise method_not_allowed()
        return call.verb


def is_watch(request: RequestLike) -> bool:
    """Whether a request is a GET for a watch, as authorization sees it.

    That is one with the `/watch/` prefix, or of a collection with the query `watch`.
    """
    return request.method == "GET" and attributes_of(request).verb == "watch"
