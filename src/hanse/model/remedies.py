"""Commands that mend what several features find, to be pasted as they stand."""

import json
import re
from collections.abc import Collection
from datetime import timedelta
from shlex import quote

from hanse.model.findings import Remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Service
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, Object

LEAVING_AFTER = timedelta(minutes=2)
"""How long a `hanse leave` may take before that is a finding: it waits no longer for anything."""

_ANNOTATION = re.compile(r"^annotation ([A-Za-z0-9./_-]+)[: =]")
_FIELD = re.compile(r"^(spec(?:\.\w+|\[\d+\])+): ")
_STEP = re.compile(r"\w+")
_OBSTACLE = re.compile(r"([\w.]+) (?:([\w.-]+)/)?([\w.-]+) exists already and it was not made")
_RIVAL = re.compile(r"(\w+) ([\w.-]+)/([\w.-]+), not made by Hanse, has it")
_KEYS = frozenset({"cluster", "clusterID", "id", "name"})


def start_pods_commands(
    where: ClusterId, namespace: str, name: str, snapshot: MultiClusterSnapshot, *, unready: bool
) -> tuple[str, ...]:
    """A kubectl command for Deployments and StatefulSets with the labels of a Service's selector.

    It scales them from 0 to 1, leaving those with replicas, or if `unready` restarts them. () where
    the Service is not known here, or has no selector.
    """
    found = snapshot.get(where, Service, name, namespace)
    if found is None or not found.spec.selector:
        return ()
    chosen = ",".join(f"{label}={value}" for label, value in found.spec.selector.items())
    verb = "rollout restart" if unready else "scale --current-replicas=0 --replicas=1"
    return (snapshot.kubectl(where, f"{verb} deployment,statefulset -l {chosen}", namespace),)


def broker_namespace_option(namespace: str) -> str:
    """` --broker-namespace NAMESPACE` for a command; empty for the default namespace."""
    return f" --broker-namespace {namespace}" if namespace != BROKER_NAMESPACE else ""


def join_broker_command(
    broker: ClusterId,
    cluster: ClusterId,
    snapshot: MultiClusterSnapshot,
    namespace: str = BROKER_NAMESPACE,
) -> str:
    """The `hanse join` command by which a cluster joins a broker, or gets what it lacks there."""
    place = broker_namespace_option(namespace)
    joined = f"--broker {snapshot.context_argument(broker)}{place} --cluster-id {cluster}"
    return f"hanse join {joined} --context {snapshot.context_argument(cluster)}"


def join_federation_command(
    federation: str, member: ClusterId, supervisor: ClusterId, snapshot: MultiClusterSnapshot
) -> str:
    """The command that gives a supervisor a new token for a member of its Federation."""
    place = f"--cluster-id {member} --context {snapshot.context_argument(member)}"
    asked = f"--supervisor {snapshot.context_argument(supervisor)}"
    return f"hanse join --federation {federation} {place} {asked}"


def delete_obstacle_commands(
    where: ClusterId, message: str, snapshot: MultiClusterSnapshot
) -> tuple[str, ...]:
    """A kubectl command that deletes the object that a message calls not made by Hanse; else ()."""
    found = _OBSTACLE.search(message)
    if found is None:
        return ()
    kind, namespace, name = found.groups()
    return (snapshot.kubectl(where, f"delete {kind} {name}", namespace or ""),)


def correct_rival_remedy(where: ClusterId, message: str, snapshot: MultiClusterSnapshot) -> Remedy:
    """A remedy to edit the object that a message says has the same name as one of ours.

    It has no command: it asks the object's author, and advises `kubectl edit`. Where the message
    names no object it asks the administrator of the cluster.
    """
    found = _RIVAL.search(message)
    if found is None:
        advice = f"mend what the message names; the agent of {where} tries again by itself"
        return Remedy(advice, ask=f"the administrator of {where}")
    kind, namespace, name = found.groups()
    edit = snapshot.kubectl(where, f"edit {kind.lower()} {name}", namespace)
    return Remedy(
        f"take the name out of it: `{edit}`", ask=f"the author of {kind} {namespace}/{name}"
    )


def erase_ranges_commands(
    broker: ClusterId, members: Collection[ClusterId], snapshot: MultiClusterSnapshot
) -> tuple[str, ...]:
    """kubectl commands that empty the ranges of members in the ClusterSets of a broker.

    There is one for each of these members that has ranges there; () if none has. Any range is
    allowed then.
    """
    return tuple(
        snapshot.kubectl(broker, f"patch clusterset {rules.name} --type json -p {quote(patch)}")
        for rules in snapshot.all(broker, ClusterSet)
        for number, one in enumerate(rules.spec.clusters)
        if one.id in members and one.ranges
        for path in (f"/spec/clusters/{number}/ranges",)
        for patch in (json.dumps([{"op": "add", "path": path, "value": []}]),)
    )


def erase_annotation_commands(
    obj: Object, where: ClusterId, message: str, snapshot: MultiClusterSnapshot
) -> tuple[str, ...]:
    """A kubectl command that removes the annotation that a message begins with; else ().

    The default then counts, as for those who never set it.
    """
    found = _ANNOTATION.match(message)
    if found is None:
        return ()
    arguments = f"annotate {resource_of(obj)} {obj.name} {found[1]}-"
    return (snapshot.kubectl(where, arguments, obj.namespace),)


def erase_field_commands(
    obj: Object, where: ClusterId, message: str, snapshot: MultiClusterSnapshot
) -> tuple[str, ...]:
    """A kubectl command that removes the field of spec that a message begins with; else ().

    If the field is the key of an entry in a list, it removes the whole entry. To be called only for
    kinds where less of a spec is never more of what it does: that is not checked.
    """
    found = _FIELD.match(message)
    if found is None:
        return ()
    steps = _STEP.findall(found[1])
    if steps[-1] in _KEYS and steps[-2].isdigit():
        steps.pop()  # an entry without its key is no entry: all of it goes
    patch = json.dumps([{"op": "remove", "path": "/" + "/".join(steps)}])
    arguments = f"patch {resource_of(obj)} {obj.name} --type json -p {quote(patch)}"
    return (snapshot.kubectl(where, arguments, obj.namespace),)


def resource_of(obj: Object) -> str:
    """The kind for kubectl: `<plural>.<group>`, or the plural in the core group."""
    kind = type(obj).kind
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural
