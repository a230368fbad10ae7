"""How requests are refused: Kubernetes Statuses, in the API server's own words."""

from typing import Any

import msgspec
from msgspec import Struct

from hanse.kube.request import Response


class Cause(Struct, frozen=True, omit_defaults=True):
    """One thing wrong with one field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Refusal(Exception):
    """A request was refused; carries the whole Status that says so."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.headers = headers or {}

    @property
    def status(self) -> dict[str, Any]:
        """The Status object, in the field order that the API server uses."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status

    @property
    def response(self) -> Response:
        """The Status as an answer."""
        headers = {"content-type": "application/json", **self.headers}
        return Response(self.code, msgspec.json.encode(self.status), headers)
