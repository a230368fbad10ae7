"""Subresources with an answer of their own: scale, token, binding, eviction."""

from msgspec import structs

from tinykube.admission_chain import AdmissionChain
from tinykube.admission_rules import AdmissionAttributes
from tinykube.disruption_budgets import violated_budget
from tinykube.errors import conflict, eviction_refused, not_found
from tinykube.handlers import bodies
from tinykube.handlers.calls import Call
from tinykube.handlers.deletion import NO_OPTIONS, DeleteHandler, DeleteOptions, parse_options
from tinykube.handlers.reads import read_object
from tinykube.handlers.scale import scale_of
from tinykube.handlers.writes import WriteHandler, WriteResult
from tinykube.object_meta import timestamp
from tinykube.resources import Object
from tinykube.service_account_tokens import TokenIssuer, with_defaults
from tinykube.storage import Storage

_SUCCESS: Object = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


class SubresourceHandler:
    """Serves the subresources that are not a part of their object."""

    def __init__(
        self,
        storage: Storage,
        writes: WriteHandler,
        deletion: DeleteHandler,
        tokens: TokenIssuer,
        admission: AdmissionChain,
    ) -> None:
        self._storage = storage
        self._write_handler = writes
        self._delete_handler = deletion
        self._tokens = tokens
        self._admission = admission

    async def handle(self, call: Call) -> WriteResult | None:
        """The result of scale, token, binding or eviction.

        None for the object itself and for `status` and `finalize`, which are written as it is.
        """
        match call.target.subresource, call.verb:
            case "scale", "get":
                return WriteResult(scale_of(call.resource, read_object(self._storage, call)))
            case "scale", _:
                return await self._write_handler.scale(call)
            case "token", _:
                return await self._issue_token(call)
            case "binding", _:
                return await self._bind(call)
            case "eviction", _:
                return await self._evict(call)
            case _:
                return None

    async def _issue_token(self, call: Call) -> WriteResult:
        """Answer a TokenRequest with a signed token unless admission denies it; store nothing."""
        sent = with_defaults(bodies.decode_object(call))
        request = await self._admission.mutate(AdmissionAttributes(call, "CREATE", sent, None))
        await self._admission.validate(AdmissionAttributes(call, "CREATE", request, None))
        target = call.target
        issued = self._tokens.issue(call.resource, target.namespace, target.name, request)
        return WriteResult(issued, 201)

    async def _bind(self, call: Call) -> WriteResult:
        """Set nodeName and the condition PodScheduled of a pod by a Binding; answers with a Status.

        Raises 409 if the pod has a node, 404 if it does not exist. That the node exists, and the
        pod is not being deleted, is not checked.
        """
        target = bodies.decode_object(call).get("target") or {}
        node = target.get("name", "")
        now = timestamp(call.now)
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }

        def bound(pod: Object) -> Object:
            """The pod with node and PodScheduled condition; raises 409 if it has a node."""
            held = pod["spec"].get("nodeName")
            if held:
                name = call.target.name
                why = f'pod {name} is already assigned to node "{held}"'
                raise conflict(call.resource, name, why)
            status = pod.get("status") or {}
            others = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
            return {
                **pod,
                "spec": {**pod["spec"], "nodeName": node},
                "status": {**status, "conditions": [*others, scheduled]},
            }

        await self._write_handler.update_with(call, bound)
        return WriteResult(_SUCCESS, 201)

    async def _evict(self, call: Call) -> WriteResult:
        """Delete a pod with the deleteOptions of the Eviction; answers with a Status.

        Raises 404 if it does not exist, 429 if a budget forbids it. It is a dry run if the query or
        the deleteOptions say so.
        """
        sent = bodies.decode_object(call)
        target = call.target
        pod = self._storage.get("pods", target.namespace, target.name)
        if pod is None:
            raise not_found(call.resource, target.name)
        if violated_budget(pod, self._storage):
            raise eviction_refused()
        options: DeleteOptions = NO_OPTIONS
        if sent.get("deleteOptions"):
            options = parse_options(sent["deleteOptions"])
        if call.dry_run:
            options = structs.replace(options, dry_run=["All"])
        await self._delete_handler.delete_object(call, target.namespace, target.name, options)
        return WriteResult(_SUCCESS, 201)
