"""Commands that mend what several features find, to be pasted as they stand."""

import json
import re
from collections.abc import Collection
from shlex import quote

from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Service
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.objects import ClusterId, Object

_ANNOTATION = re.compile(r"^annotation ([A-Za-z0-9./_-]+)[: =]")
_FIELD = re.compile(r"^(spec(?:\.\w+|\[\d+\])+): ")
_STEP = re.compile(r"\w+")
_OBSTACLE = re.compile(r"([\w.]+) (?:([\w.-]+)/)?([\w.-]+) exists already and it was not made")
_KEYS = frozenset({"cluster", "clusterID", "id", "name"})


def start_pods(
    where: ClusterId, namespace: str, name: str, snapshot: MultiClusterSnapshot, *, unready: bool
) -> tuple[str, ...]:
    """Start pods behind a Service, or restart those that are not ready, by its selector.

    None where the Service is not known here, or selects nothing.
    """
    found = snapshot.get(where, Service, name, namespace)
    if found is None or not found.spec.selector:
        return ()
    chosen = ",".join(f"{label}={value}" for label, value in found.spec.selector.items())
    verb = "rollout restart" if unready else "scale --replicas=1"
    return (snapshot.kubectl(where, f"{verb} deployment --selector={chosen}", namespace),)


def delete_obstacle(
    where: ClusterId, message: str, snapshot: MultiClusterSnapshot
) -> tuple[str, ...]:
    """Delete the object that a message names as not made by Hanse; none if it names none."""
    found = _OBSTACLE.search(message)
    if found is None:
        return ()
    kind, namespace, name = found.groups()
    return (snapshot.kubectl(where, f"delete {kind} {name}", namespace or ""),)


def erase_ranges(
    broker: ClusterId, members: Collection[ClusterId], snapshot: MultiClusterSnapshot
) -> tuple[str, ...]:
    """Take away the ranges that the ClusterSet names for members, so that any are allowed."""
    return tuple(
        snapshot.kubectl(broker, f"patch clusterset {rules.name} --type json -p {quote(patch)}")
        for rules in snapshot.all(broker, ClusterSet)
        for number, one in enumerate(rules.spec.clusters)
        if one.id in members and one.ranges
        for patch in (json.dumps([{"op": "remove", "path": f"/spec/clusters/{number}/ranges"}]),)
    )


def erase_annotation(
    obj: Object, where: ClusterId, message: str, snapshot: MultiClusterSnapshot
) -> tuple[str, ...]:
    """Take away the annotation that a message begins with; none if it names none.

    The default then counts, as for those who never set it.
    """
    found = _ANNOTATION.match(message)
    if found is None:
        return ()
    arguments = f"annotate {_resource(obj)} {obj.name} {found[1]}-"
    return (snapshot.kubectl(where, arguments, obj.namespace),)


def erase_field(
    obj: Object, where: ClusterId, message: str, snapshot: MultiClusterSnapshot
) -> tuple[str, ...]:
    """Take away the field that a message begins with, or the entry whose key it is.

    Only for kinds where less of a spec is never more of what it does.
    """
    found = _FIELD.match(message)
    if found is None:
        return ()
    steps = _STEP.findall(found[1])
    if steps[-1] in _KEYS and steps[-2].isdigit():
        steps.pop()  # an entry without its key is no entry: all of it goes
    patch = json.dumps([{"op": "remove", "path": "/" + "/".join(steps)}])
    arguments = f"patch {_resource(obj)} {obj.name} --type json -p {quote(patch)}"
    return (snapshot.kubectl(where, arguments, obj.namespace),)


def _resource(obj: Object) -> str:
    kind = type(obj).kind
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural
