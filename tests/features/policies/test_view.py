"""The view of policies, from the records of all members."""

import pytest

from hanse.cli.fleet import build_fleet
from hanse.features.policies.content import FEDERATED, Content
from hanse.features.policies.ledger import LocalState, PolicyRecord, record_config_map
from hanse.features.policies.listing import MemberStatus, list_shown_policies, parse_policy_label
from hanse.features.policies.versions import EMPTY_HISTORY, History, append_event, merge
from hanse.features.policies.view import OBJECTS
from hanse.model.judgement import Judgement
from hanse.model.kinds.antrea import (
    NO_NODE,
    AntreaClusterNetworkPolicy,
    AntreaNetworkPolicy,
    ClusterGroup,
    ExternalEntity,
    ExternalEntitySpec,
)
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.objects import Meta, Object, Wire
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange
from tests.support.fleet_reads import NOW, findings, read

KEY = Key("acnp", "deny")
MADE = append_event(EMPTY_HISTORY, "lubeck~1", "Present", Content(spec={"priority": 1}), "a")
APPLIED = LocalState(phase="Applied", uid="1")


def record(history: History, here: LocalState) -> ConfigMap:
    return record_config_map(KEY, PolicyRecord(history, here))


def test_a_policy_is_shown_with_where_it_was_made_and_its_status_everywhere() -> None:
    blocked = LocalState(phase="Blocked", reason="Refused", message="no tier gold")

    (view,) = list_shown_policies(
        {"lubeck": [record(MADE, APPLIED)], "bergen": [record(MADE, blocked)], "rome": []}
    )

    assert (view.label, view.state, view.origin) == ("acnp/deny", "Present", "lubeck")
    assert view.members == {
        "bergen": MemberStatus("Blocked", "Refused", "no tier gold"),
        "lubeck": MemberStatus("Applied"),
        "rome": MemberStatus("Unknown"),
    }
    assert view.needs_attention


def test_versions_that_crossed_are_shown_with_what_was_kept() -> None:
    one = append_event(MADE, "lubeck~1", "Present", Content(spec={"priority": 2}), "b")
    other = append_event(MADE, "bergen~1", "Present", Content(spec={"priority": 3}), "c")

    (view,) = list_shown_policies({"lubeck": [record(merge(one, other), APPLIED)]})

    assert [(o.cluster, o.spec) for o in view.overruled] == [("bergen", {"priority": 3})]


def test_a_deleted_policy_is_shown_only_while_something_is_wrong_with_it() -> None:
    deleted = append_event(MADE, "bergen~1", "Deleted", Content(), "Deleted")
    quarantined = LocalState(
        phase="Quarantined", reason="Flapping", message="again and again", uid="2"
    )

    assert list_shown_policies({"lubeck": [record(deleted, LocalState(phase="Released"))]}) == []
    assert len(list_shown_policies({"lubeck": [record(deleted, quarantined)]})) == 1


def test_a_namespace_that_is_not_there_is_no_trouble() -> None:
    without_namespace = LocalState(
        phase="Blocked", reason="NamespaceMissing", message="no namespace shop"
    )

    (view,) = list_shown_policies(
        {"lubeck": [record(MADE, APPLIED)], "bergen": [record(MADE, without_namespace)]}
    )

    assert not view.needs_attention


@pytest.mark.parametrize(
    ("label", "key"),
    [
        ("acnp/deny", Key("acnp", "deny")),
        ("anp/shop/deny", Key("anp", "deny", "shop")),
        ("anp/deny", None),
        ("acnp/", None),
        ("deny", None),
        ("svc/shop/web", None),
    ],
)
def test_a_policy_is_called_by_kind_namespace_and_name(label: str, key: Key | None) -> None:
    assert parse_policy_label(label) == key


def test_quarantined_and_conflicting_policies_are_findings_with_their_remedy() -> None:
    one = append_event(MADE, "lubeck~1", "Present", Content(spec={"priority": 2}), "b")
    other = append_event(MADE, "bergen~1", "Present", Content(spec={"priority": 3}), "c")
    quarantined = LocalState(phase="Quarantined", reason="Stale", message="it differs", uid="2")

    quarantine, conflict = findings(read("bergen", record(merge(one, other), quarantined)))

    assert (quarantine.code, quarantine.subject.cluster) == ("PolicyQuarantined", "bergen")
    assert "acnp/deny is quarantined in bergen: it differs" in quarantine.summary
    assert quarantine.remedy.commands == ("hanse policies resolve acnp/deny --in bergen --keep",)
    assert conflict.code == "PolicyConflict"
    assert "--take bergen" in conflict.remedy.advice


def test_a_held_deletion_is_a_finding_that_says_that_the_policy_is_gone() -> None:
    held = LocalState(phase="Applied", reason="Held", message="9 of 9 policies are gone", uid="2")

    (found,) = findings(read("bergen", record(MADE, held)))

    assert (found.code, found.subject.cluster) == ("PolicyDeletionHeld", "bergen")
    assert found.summary == "policy acnp/deny is gone in bergen: 9 of 9 policies are gone"
    assert found.remedy.commands == ()


def test_federated_policies_with_local_peers_are_a_risk() -> None:
    rule: Wire = {"from": [{"podSelector": {}}]}
    meta = Meta(name="deny", namespace="shop", annotations={FEDERATED: "true"})
    policy = AntreaNetworkPolicy(metadata=meta, spec={"ingress": [rule]})
    plain = AntreaNetworkPolicy(metadata=Meta(name="plain", namespace="shop"), spec=policy.spec)

    (found,) = findings(read("lubeck", policy, plain))

    assert (found.code, found.severity) == ("PolicyLocalPeers", "risk")
    assert "shop/deny in lubeck: spec.ingress[0].from[0]" in found.summary


def test_groups_and_services_that_a_federated_policy_names_in_vain_are_a_risk() -> None:
    spec: Wire = {
        "ingress": [{"from": [{"group": "web"}, {"group": "gone"}]}],
        "egress": [{"toServices": [{"name": "db", "namespace": "shop"}]}],
        "appliedTo": [{"externalEntitySelector": {}}],
    }
    meta = Meta(name="deny", annotations={FEDERATED: "true"})
    policy = AntreaClusterNetworkPolicy(metadata=meta, spec=spec)
    group = ClusterGroup(metadata=Meta(name="web"))
    other = Service(metadata=Meta(name="other", namespace="shop"))

    found = list(findings(read("lubeck", policy, group, other)))

    assert [f.code for f in found] == ["PolicyNamesNothing", "PolicyNotEnforced"]
    assert "spec.ingress[0].from[1].group: there is no ClusterGroup gone" in found[0].summary
    assert "there is no Service shop/db" in found[0].summary
    assert "spec.appliedTo[0].externalEntitySelector applies it to machines" in found[1].summary


@pytest.mark.parametrize(
    ("nodes", "enforced"),
    [
        ((), False),
        (("",), False),
        ((NO_NODE,), False),
        (("vm-1",), True),
        ((NO_NODE, "vm-1"), True),
    ],
)
def test_a_policy_for_machines_is_enforced_where_an_agent_of_antrea_runs(
    nodes: tuple[str, ...], enforced: bool
) -> None:
    spec: Wire = {"appliedTo": [{"externalEntitySelector": {}}]}
    policy = AntreaClusterNetworkPolicy(metadata=Meta(name="deny"), spec=spec)
    entities = [
        ExternalEntity(
            metadata=Meta(name=f"vm-{number}", namespace="shop"),
            spec=ExternalEntitySpec(external_node=node),
        )
        for number, node in enumerate(nodes)
    ]

    codes = [f.code for f in findings(read("lubeck", policy, *entities))]

    assert ("PolicyNotEnforced" not in codes) is enforced


NAMING = AntreaClusterNetworkPolicy(
    metadata=Meta(name="deny", annotations={FEDERATED: "true"}),
    spec={
        "ingress": [{"from": [{"group": "web"}]}],
        "egress": [{"toServices": [{"name": "db", "namespace": "shop"}]}],
        "appliedTo": [{"externalEntitySelector": {}}],
    },
)
NAMED: tuple[Object, ...] = (
    ClusterGroup(metadata=Meta(name="web")),
    Service(metadata=Meta(name="db", namespace="shop")),
    ExternalEntity(
        metadata=Meta(name="vm", namespace="shop"), spec=ExternalEntitySpec(external_node="vm")
    ),
)


@pytest.mark.parametrize("named", NAMED, ids=lambda one: type(one).__name__)
def test_what_a_policy_names_is_judged_when_it_goes_and_when_it_comes(named: Object) -> None:
    """Nothing else of the policy changes."""
    others = tuple(one for one in NAMED if one is not named)
    other = AntreaNetworkPolicy(metadata=Meta(name="plain", namespace="shop"))
    whole, without = (
        build_fleet([read("lubeck", NAMING, other, *some)], NOW) for some in (NAMED, others)
    )
    fleets = [whole]
    judgement = Judgement([OBJECTS], lambda: fleets[-1])
    judgement.refresh()
    assert not judgement.findings

    fleets.append(without)
    judgement.on_change(ObjectChange("lubeck", named, None))
    judgement.refresh()
    gone = [one.code for one in judgement.findings]
    fleets.append(whole)
    judgement.on_change(ObjectChange("lubeck", None, named))
    judgement.refresh()

    assert len(gone) == 1
    assert not judgement.findings
