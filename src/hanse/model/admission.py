"""What an admission webhook is asked and what it may answer."""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from hanse.model.objects import Wire
from hanse.model.plan import Call, Read
from hanse.model.snapshot import Snapshot

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class AdmissionRequest(Struct, frozen=True):
    """A write that an API server asks about before it happens."""

    operation: Operation
    group: str
    version: str
    kind: str
    name: str = ""
    namespace: str = ""
    object: Wire = {}
    """The object as it would be; empty for a deletion."""
    before: Wire = {}
    """The object as it is; empty for a creation."""
    user: str = ""
    groups: tuple[str, ...] = ()
    dry_run: bool = False
    subresource: str = ""
    uid: str = ""
    """By which this request is told from every other."""


class Allow(Struct, frozen=True):
    """Let it happen, changed by a merge patch if there is one; warnings are shown to the person."""

    change: Wire = {}
    warnings: tuple[str, ...] = ()


class Deny(Struct, frozen=True):
    """Refuse it; the message names the field and the remedy."""

    message: str
    code: int = 403


class NeedsAnswer(Struct, frozen=True):
    """Something must be known that no store knows: it is asked once, and the review repeated."""

    question: Read | Call


AdmissionDecision: TypeAlias = Allow | Deny | NeedsAnswer


class WebhookRule(Struct, frozen=True):
    """Which writes a hook is asked about, and what happens where nobody answers."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    """Plurals, with subresources as `pods/status`."""
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    versions: tuple[str, ...] = ("*",)
    namespaces: Wire = {}
    """A selector of namespaces by label; empty: all of them."""
    objects: Wire = {}
    """A selector of objects by label; empty: all of them."""
    required: bool = True
    """Whether a write waits for the answer (Fail) or goes ahead without one (Ignore)."""
    changes: bool = False
    """Whether the answer may change the object (a mutating webhook)."""
    timeout_seconds: int = 3


class AdmissionHook(Protocol):
    """One admission decision: a pure function of the request and of what was seen."""

    @property
    def name(self) -> str: ...

    @property
    def asks(self) -> tuple[WebhookRule, ...]: ...

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision: ...
