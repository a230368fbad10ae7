"""One request with its target, options and user."""

from datetime import datetime
from typing import Any, Literal

from tinykube.errors import StatusError, bad_request, invalid_object, unsupported
from tinykube.handlers.paths import Target
from tinykube.rbac.attributes import attributes_of
from tinykube.request import RequestLike
from tinykube.resources import Resource
from tinykube.users import User

FieldValidation = Literal["Strict", "Warn", "Ignore"]
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


class Call:
    """A request whose path and query are parsed; warnings accumulate while it is handled."""

    __slots__ = ("_query", "now", "request", "target", "user", "verb", "warnings")

    def __init__(self, request: RequestLike, target: Target, user: User, now: datetime) -> None:
        """One request to a resource; its verb is derived from the method, target and query."""
        self.request = request
        self.now = now
        self.target = target
        self.user = user
        self._query = dict(request.query)
        self.verb = self._verb()
        self.warnings: list[str] = []

    @property
    def resource(self) -> Resource:
        return self.target.resource

    @property
    def body_kind(self) -> tuple[str, str]:
        """The apiVersion and kind of the object in the body."""
        return self.resource.body_kind(self.target.subresource)

    def _verb(self) -> str:
        """The verb of the request, the same that was authorized: watch, else by method.

        Without a name GET is `list` and DELETE is `deletecollection`.
        """
        if attributes_of(self.request).verb == "watch":
            return "watch"
        one = bool(self.target.name)
        match self.request.method:
            case "DELETE":
                return "delete" if one else "deletecollection"
            case "GET" | "HEAD" if not one:
                return "list"
            case method:
                return _VERBS.get(method, method.lower())

    def option(self, name: str) -> str:
        """A query parameter, the last if it is repeated; empty when it is absent."""
        return self._query.get(name, "")

    def flag(self, name: str) -> bool:
        """Whether a query parameter is given, with any value but `false` and `0`."""
        return name in self._query and self._query[name].lower() not in ("false", "0")

    def number(self, name: str) -> int:
        """An integer query parameter; zero when it is absent, raises a 400 if it is no integer."""
        text = self.option(name)
        if not text:
            return 0
        try:
            return int(text)
        except ValueError:
            message = f'strconv.ParseInt: parsing "{text}": invalid syntax'
            raise bad_request(message) from None

    @property
    def dry_run(self) -> bool:
        """Whether the query has `dryRun=All`; any other value raises a 422.

        The dryRun of DeleteOptions in a body is not looked at here; `AdmissionAttributes` has it.
        """
        requested = self.option("dryRun")
        if requested not in ("", "All"):
            raise self._bad_option("dryRun", [requested], ("All",))
        return requested == "All"

    @property
    def field_validation(self) -> FieldValidation:
        """The fieldValidation of the query, Warn by default; any other value raises a 422."""
        match self.option("fieldValidation"):
            case "" | "Warn":
                return "Warn"
            case "Strict":
                return "Strict"
            case "Ignore":
                return "Ignore"
            case other:
                allowed = ("", "Ignore", "Strict", "Warn")
                raise self._bad_option("fieldValidation", other, allowed)

    def _bad_option(
        self, field: str, value: str | list[str], allowed: tuple[str, ...]
    ) -> StatusError:
        """The 422 to raise for an unsupported query parameter."""
        kind = _OPTIONS.get(self.verb, "DeleteOptions")
        error = unsupported(field, value, allowed)
        return invalid_object(kind, "meta.k8s.io", "", [error])

    def warn(self, text: str) -> None:
        """Add a warning to the response, each text once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def options_object(self) -> dict[str, Any]:
        """The options of the query as an AdmissionReview shows them, without those of a body.

        Only dryRun, fieldManager and fieldValidation are among them.
        """
        options: dict[str, Any] = {
            "kind": _OPTIONS.get(self.verb, "DeleteOptions"),
            "apiVersion": "meta.k8s.io/v1",
        }
        if self.option("dryRun"):
            options["dryRun"] = [self.option("dryRun")]
        for name in ("fieldManager", "fieldValidation"):
            if self.option(name):
                options[name] = self.option(name)
        return options
