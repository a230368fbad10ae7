"""The rights that agents use in their own clusters, compared with those that they are given."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hanse.kube.transport import Request
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.rbac import RbacRule, Right
from tests.support.faults import Sent

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)
_NAME_FIELD = re.compile(r"metadata\.name=([^,]+)")
READ = ("get", "list", "watch")
"""Verbs that reveal the same: whoever has one of them for all objects needs no other."""
_WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Use(Struct, frozen=True, order=True):
    """What one request needs: a verb on a resource, in a namespace, maybe of one name."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}.{self.group} {self.name}{where}"


class GrantedVerb(Struct, frozen=True, order=True):
    """One verb of a rule, or `read` for the three that read, and the feature it is granted for."""

    feature: str
    namespace: str
    resource: str
    verb: str
    named: bool

    def __str__(self) -> str:
        names = " by name" if self.named else ""
        place = self.namespace or "all namespaces"
        return f"{self.feature}: {self.verb} {self.resource}{names} in {place}"


def use_of(request: Request) -> Use | None:
    """What a request needs; None for discovery, which everybody may read."""
    found = _PATH.fullmatch(request.path)
    if found is None:
        return None
    resource, name = found["resource"], found["name"] or ""
    if found["subresource"]:
        resource = f"{resource}/{found['subresource']}"
    query = dict(request.query)
    if request.method != "GET":
        verb = _WRITES[request.method]
    elif name:
        verb = "get"
    else:
        verb = "watch" if query.get("watch") in ("1", "true") else "list"
        only = _NAME_FIELD.search(query.get("fieldSelector", ""))
        name = only[1] if only else ""
    return Use(verb, found["group"] or "", resource, found["namespace"] or "", name)


def allows(rule: RbacRule, use: Use) -> bool:
    """Whether a rule allows what a request needs, as the RBAC authorizer judges."""
    return (
        (rule.group, rule.resource) == (use.group, use.resource)
        and use.verb in rule.verbs
        and rule.namespace in ("", use.namespace)
        and (not rule.names or use.name in rule.names)
    )


class UsedRights:
    """Which verbs were granted to agents, and which of them were used, over many scenarios."""

    def __init__(self) -> None:
        self.granted: set[GrantedVerb] = set()
        self.used: set[GrantedVerb] = set()

    def record(
        self, rights: Mapping[str, Sequence[Right]], uses: Iterable[Use], system: str
    ) -> list[Use]:
        """Record what one agent was granted and used; returns uses that nothing grants.

        Rights that are used only with something that not every installation has are left out.
        """
        distinct = set(uses)
        every = [(feature, right) for feature, rs in rights.items() for right in rs]
        rules = [(feature, right.rule) for feature, right in every]
        for feature, rule in ((feature, r.rule) for feature, r in every if not r.is_special):
            self.granted.update(_verbs(feature, rule, rule.verbs, system))
            verbs = {use.verb for use in distinct if allows(rule, use)}
            self.used.update(_verbs(feature, rule, verbs, system))
        return sorted(u for u in distinct if not any(allows(rule, u) for _, rule in rules))

    def unused(self) -> list[GrantedVerb]:
        """The verbs that were granted and never used."""
        return sorted(self.granted - self.used)


def _verbs(
    feature: str, rule: RbacRule, verbs: Iterable[str], system: str
) -> Iterator[GrantedVerb]:
    own = rule.namespace.startswith(system.removesuffix("-system"))
    place = SYSTEM_NAMESPACE if own and rule.namespace else rule.namespace
    known = replace(rule, namespace=place)
    group = f".{known.group}" if known.group else ""
    for verb in {"read" if verb in READ else verb for verb in verbs}:
        yield GrantedVerb(feature, place, f"{known.resource}{group}", verb, bool(known.names))


def uses_at_home(sent: Iterable[Sent], cluster: str) -> Iterator[Use]:
    """What the agents of a cluster asked of their own API server, and were not refused."""
    for one in sent:
        if one.source.partition("/")[0] == cluster == one.target and one.status != 403:
            use = use_of(one.request)
            if use is not None:
                yield use


USED_RIGHTS = UsedRights()
"""Of all scenarios in this process."""
