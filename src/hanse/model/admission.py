"""Admission webhooks: requests, decisions, and the hook protocol of features."""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from hanse.model.objects import Wire
from hanse.model.plan import Call, Read
from hanse.model.snapshot import Snapshot

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class AdmissionRequest(Struct, frozen=True):
    """The request of an AdmissionReview."""

    operation: Operation
    group: str
    version: str
    kind: str
    name: str = ""
    namespace: str = ""
    object: Wire = {}
    """The new object; empty for a deletion."""
    before: Wire = {}
    """The old object; empty for a creation."""
    user: str = ""
    groups: tuple[str, ...] = ()
    dry_run: bool = False
    subresource: str = ""
    uid: str = ""
    """The uid of the request."""


class Allow(Struct, frozen=True):
    """Allow the request, with a merge patch if there is one; warnings are shown to the user."""

    change: Wire = {}
    warnings: tuple[str, ...] = ()


class Deny(Struct, frozen=True):
    """Deny the request; the message names the field and the remedy."""

    message: str
    code: int = 403


class NeedsAnswer(Struct, frozen=True):
    """The decision needs an answer that no store has: it is asked once, then decided again."""

    question: Read | Call


AdmissionDecision: TypeAlias = Allow | Deny | NeedsAnswer


class WebhookRule(Struct, frozen=True):
    """The requests that are sent to a hook, and the failure policy."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    """Plural resource names, with subresources as `pods/status`."""
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    versions: tuple[str, ...] = ("*",)
    namespaces: Wire = {}
    """The namespaceSelector; empty selects all."""
    objects: Wire = {}
    """The objectSelector; empty selects all."""
    required: bool = True
    """Whether the failure policy is Fail, else Ignore."""
    changes: bool = False
    """Whether the hook may patch the object (a mutating webhook)."""
    timeout_seconds: int = 3


class AdmissionHook(Protocol):
    """An admission decision: a pure function of the request and a snapshot."""

    @property
    def name(self) -> str:
        """The name of the hook, which is also its path."""
        ...

    @property
    def rules(self) -> tuple[WebhookRule, ...]:
        """The entries of its webhook configuration; requests are routed by `name`, not by these."""
        ...

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Decide about a request by it and a snapshot alone; writes and asks nothing itself."""
        ...
