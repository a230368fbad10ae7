"""Deletions that an agent holds, as too much vanished at once; pure.

An agent knows them as facts. For people who read its cluster they stand in an annotation of its
Lease, as long as they are held.
"""

from collections.abc import Iterable
from shlex import quote

import msgspec

from hanse.model.facts import DeletionsHeld
from hanse.model.findings import Finding, Ref, Severity, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.json_input import decode_json
from hanse.model.kinds.coordination import Lease
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import ClusterId
from hanse.model.ownership import ALLOW_MASS_DELETION

HELD_DELETIONS = "hanse.dev/held-deletions"
"""Annotation of an agent's Lease: JSON of `DeletionsHeld`."""


def hold_annotations(held: Iterable[DeletionsHeld]) -> dict[str, str]:
    """The annotation of an agent's Lease: JSON of all held deletions, by cluster and feature.

    Without any its value is empty, which removes it.
    """
    found = sorted(held, key=lambda one: one.key)
    return {HELD_DELETIONS: msgspec.json.encode(found).decode() if found else ""}


def reported_holds(lease: Lease | None) -> tuple[DeletionsHeld, ...]:
    """The held deletions in a Lease's annotation; none if it is missing or cannot be parsed."""
    text = lease.metadata.annotations.get(HELD_DELETIONS, "") if lease is not None else ""
    try:
        return decode_json(text, tuple[DeletionsHeld, ...]) if text else ()
    except msgspec.DecodeError:
        return ()


def held_finding(agent: ClusterId, held: DeletionsHeld, snapshot: MultiClusterSnapshot) -> Finding:
    """A finding MassDeletionHeld about a feature in a cluster, by the agent of another or the same.

    Its remedy is advice only, which names the kubectl command that allows the deletions: the cause
    is to be found first.
    """
    where = held.where.rpartition("/")[2]
    allow = f"annotate namespace {SYSTEM_NAMESPACE} {ALLOW_MASS_DELETION}={quote(held.feature)}"
    return Finding(
        code="MassDeletionHeld",
        severity=Severity.DEGRADED,
        subject=Ref("Feature", held.feature, cluster=where),
        summary=f"the agent of {agent} holds deletions by {held.feature} in {where}: too much "
        "vanished at once; it lists every cluster once more, and deletes what is still gone",
        remedy=remedy(
            advice="find out why so much is gone, and bring it back; if it is meant, and a cluster "
            f"that does not answer delays the list: `{snapshot.kubectl(agent, allow)}`"
        ),
    )
