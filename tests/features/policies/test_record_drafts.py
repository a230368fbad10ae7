"""The next record of a policy, whatever was observed of it."""

from typing import Literal

import pytest
from msgspec.structs import replace

from hanse.features.policies.content import content_digest, policy_key, replicated_content
from hanse.features.policies.ledger import (
    RESOLVE_ANNOTATION,
    LocalState,
    PolicyRecord,
    SupersededContent,
)
from hanse.features.policies.member_view import MemberView
from hanse.features.policies.observation import observe
from hanse.features.policies.record_drafts import RecordDraft
from hanse.features.policies.versions import EMPTY_HISTORY, append_event
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy
from tests.features.policies.fleet import acnp

KEPT = SupersededContent("lost", {"priority": 9})
EDITED, BEFORE = acnp(priority=6), acnp(priority=5)

Phase = Literal["Applied", "Pending", "Quarantined"]


def _record(phase: Phase) -> PolicyRecord:
    """A record with one version, of the policy before its edit, and what a restore superseded."""
    content = replicated_content(BEFORE)
    digest = content_digest(content)
    history = append_event(EMPTY_HISTORY, "lubeck~1", "Present", content, digest)
    here = LocalState(phase=phase, dot=history.entries[0].dot, digest=digest, uid="1")
    if phase == "Quarantined":
        here = replace(here, reason="Flapping")
    return PolicyRecord(history, here, "lubeck~1", KEPT)


def _resolved(policy: AntreaClusterNetworkPolicy) -> AntreaClusterNetworkPolicy:
    meta = policy.metadata
    marks = {**meta.annotations, RESOLVE_ANNOTATION: "keep"}
    return replace(policy, metadata=replace(meta, annotations=marks))


@pytest.mark.parametrize("max_flips", [0, 5], ids=["flaps", "is edited"])
@pytest.mark.parametrize("policy", [BEFORE, EDITED, _resolved(EDITED)], ids=["as", "other", "keep"])
@pytest.mark.parametrize("phase", ["Applied", "Pending", "Quarantined"])
def test_what_a_restore_superseded_stays_in_the_record_whatever_is_observed(
    phase: Phase, policy: AntreaClusterNetworkPolicy, max_flips: int
) -> None:
    stored = _record(phase)
    view = MemberView(
        policy_key(policy),
        "lubeck",
        policy,
        served=True,
        namespace_uid="cluster",
        definition_uid="2",
        joining=False,
        alone=False,
        joins_others=False,
        known_events=stored.history,
    )

    draft = observe(view, stored, stored.history, max_flips)

    assert isinstance(draft, RecordDraft)
    assert draft.kept == KEPT
