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
    """A kubectl command that scales to 1, or if `unready` restarts, Deployments behind a Service.

    They are selected by the Service's selector; () where it is not known here, or has none.
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
    """A kubectl command that deletes the object that a message calls not made by Hanse; else ()."""
    found = _OBSTACLE.search(message)
    if found is None:
        return ()
    kind, namespace, name = found.groups()
    return (snapshot.kubectl(where, f"delete {kind} {name}", namespace or ""),)


def erase_ranges(
    broker: ClusterId, members: Collection[ClusterId], snapshot: MultiClusterSnapshot
) -> tuple[str, ...]:
    """kubectl commands that remove the ranges of members from the broker's ClusterSets.

    Any range is allowed then; () where none is set.
    """
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
    """A kubectl command that removes the annotation that a message begins with; else ().

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
    """A kubectl command that removes the field of spec that a message begins with; else ().

    Of a field that is the key of a list's entry the whole entry. Only for kinds where less of a
    spec is never more of what it does.
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
    """The kind for kubectl: `<plural>.<group>`, or the plural in the core group."""
    kind = type(obj).kind
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural
