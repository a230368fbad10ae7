"""What is said of clusters that refuse what agents write."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.app.views import examine
from hanse.cli.fleet import ClusterRead
from hanse.features.fleet.writes import RefusedWritesView
from hanse.kube.watch_events import Listed
from hanse.model.broker_namespace import MEMBER
from hanse.model.conditions import condition
from hanse.model.facts import (
    ClusterState,
    Facts,
    HeartbeatState,
    HolderState,
    LeaseLiveness,
    Phase,
    Role,
    WriteOutcome,
)
from hanse.model.findings import Finding, judge
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.admission import ValidatingWebhookConfiguration
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, ServiceAccount
from hanse.model.kinds.federation import Federation
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import ServiceExport, ServiceExportStatus, ServiceImport
from hanse.model.objects import ClusterObjectRef, Meta, ObjectRef
from hanse.model.refused_writes import refusal_annotations, refused_writes, reported_refusals
from hanse.model.snapshot import Snapshot, Watch
from tests.support.builders import meta, stored
from tests.support.fleet_reads import NOW, findings, read

DOWN = (
    'Internal error occurred: failed calling webhook "policy.example.com": failed to call '
    'webhook: Post "https://policy.example/validate?timeout=1s": connection refused'
)
OF_BERGEN = {MEMBER: "bergen"}
STRICT = stored(
    ValidatingWebhookConfiguration(
        metadata=Meta(name="strict"), webhooks=({"name": "other"}, {"name": "policy.example.com"})
    )
)
WEBHOOKS = Watch(Role.LOCAL, ValidatingWebhookConfiguration, optional=True)


def outcome(message: str, name: str = "web", where: str = "bergen") -> WriteOutcome:
    ref = ObjectRef(ServiceImport.kind, name, "shop")
    return WriteOutcome(ClusterObjectRef(where, ref), "Failed", message, NOW)


def reporting(
    *outcomes: WriteOutcome,
    extra: dict[Watch, Listed[Any]] | None = None,
    name: str = "bergen",
) -> ClusterRead:
    """A cluster whose agent says in its Lease what it could not write."""
    found = read(name)
    annotations = refusal_annotations(outcomes)
    lists = {
        watch: Listed(
            tuple(
                replace(one, metadata=replace(one.metadata, annotations=annotations))
                for one in listed.objects
            ),
            "1",
        )
        if watch.kind is Lease
        else listed
        for watch, listed in found.lists.items()
    }
    return replace(found, lists={**lists, **(extra or {})})


def knowing(fact: WriteOutcome) -> Snapshot:
    """What the agent of bergen has itself."""
    facts = Facts()
    facts.put(fact)
    return Snapshot({}, facts, NOW, "bergen")


def only(*reads: ClusterRead) -> Finding:
    (found,) = findings(*reads)
    return found


def test_a_webhook_that_is_down_is_told_with_its_configuration() -> None:
    refused = outcome(DOWN), outcome(DOWN, "api")

    found = only(reporting(*refused, extra={WEBHOOKS: Listed((STRICT,), "1")}))

    assert (found.code, str(found.subject)) == (
        "WebhookDown",
        "Webhook policy.example.com in bergen",
    )
    assert found.summary.startswith(
        "bergen refuses what the agent of bergen writes, ServiceImport.multicluster.x-k8s.io "
        "shop/api and 1 more, by Webhook policy.example.com of ValidatingWebhookConfiguration "
        "strict: "
    )
    (command,) = found.remedy.commands
    assert command == (
        "kubectl --context bergen patch validatingwebhookconfiguration strict --type json -p "
        '\'[{"op": "add", "path": "/webhooks/1/failurePolicy", "value": "Ignore"}]\''
    )


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        ('admission webhook "a.b" denied the request: no', "Webhook a.b in bergen"),
        (
            "ValidatingAdmissionPolicy 'frozen' with binding 'all' denied request: not now",
            "ValidatingAdmissionPolicy frozen in bergen",
        ),
        (
            'services "x" is forbidden: exceeded quota: few, requested: services=1',
            "ResourceQuota shop/few in bergen",
        ),
    ],
)
def test_what_is_refused_on_purpose_its_administrator_has_to_allow(
    message: str, subject: str
) -> None:
    found = only(reporting(outcome(message)))

    assert (found.code, str(found.subject)) == ("WriteRefused", subject)
    assert not found.remedy.commands
    assert found.remedy.ask == "the administrator of bergen"


def test_an_agent_that_may_not_write_at_home_gets_its_rights_again() -> None:
    message = (
        'services is forbidden: User "system:serviceaccount:hanse-system:hanse-agent" cannot '
        'create resource "services" in API group "" in the namespace "shop"'
    )

    found = only(reporting(outcome(message)))

    assert str(found.subject) == "ServiceAccount hanse-system/hanse-agent in bergen"
    (command,) = found.remedy.commands
    assert command.startswith("hanse manifests --cluster-id bergen ")
    assert command.endswith("--rights | kubectl --context bergen apply -f -")


def test_a_supervisor_that_may_not_write_into_a_member_gets_its_rights_by_joining_again() -> None:
    message = (
        'services is forbidden: User "system:serviceaccount:antrea-plus-system:'
        'hanse-supervisor-lubeck" cannot create resource "services" in API group ""'
    )
    league = Federation(metadata=Meta(name="league"))
    told = reporting(
        outcome(message),
        extra={Watch(Role.LOCAL, Federation): Listed((league,), "1")},
        name="lubeck",
    )

    found = only(told, read("bergen"))

    assert found.code == "WriteRefused"
    assert found.remedy.commands == (
        "hanse join --federation league --cluster-id bergen --context bergen --supervisor lubeck",
    )


def test_an_agent_says_the_same_of_what_it_could_not_write() -> None:
    fleet = MultiClusterSnapshot({"bergen": knowing(outcome(DOWN))})
    view = RefusedWritesView()

    assert list(view.keys(fleet)) == ["bergen"]
    item = view.render("bergen", fleet)

    assert item is not None
    (told,) = judge(item.findings)
    doctor = only(reporting(outcome(DOWN)))
    assert (told.code, told.subject, told.severity) == (
        doctor.code,
        doctor.subject,
        doctor.severity,
    )


def test_the_import_of_an_exporting_cluster_is_a_consequence_of_the_webhook() -> None:
    text = f"it is not imported here: {DOWN}"
    export = stored(
        ServiceExport(
            metadata=meta("web", "shop"),
            status=ServiceExportStatus(
                conditions=(condition("ImportedHere", False, "ImportFailed", text),)
            ),
        )
    )
    exports = {Watch(Role.LOCAL, ServiceExport): Listed((export,), "1")}

    found = only(reporting(outcome(DOWN), extra=exports))

    assert found.code == "WebhookDown"
    assert [one.subject.kind for one in found.consequences] == ["ServiceExport"]


def test_other_failures_of_writes_are_not_reported() -> None:
    assert refusal_annotations([outcome("conflict"), outcome("web exists already")]) == {
        "hanse.dev/refused-writes": ""
    }
    assert list(refused_writes(knowing(outcome("it does not answer")))) == []
    assert reported_refusals(None) == ()


OWN = DOWN.replace("policy.example.com", "networks-pods-0.webhooks.hanse.dev")


def test_a_webhook_of_an_agent_that_does_not_run_is_a_consequence_of_that() -> None:
    found = only(reporting(outcome(OWN), name="lubeck"), read("bergen", agent=60))

    assert (found.code, str(found.subject)) == ("AgentSilent", "Cluster bergen")
    assert found.remedy.commands == ("hanse local start agent bergen",)
    assert [one.subject.kind for one in found.consequences] == ["Webhook"]


@pytest.mark.parametrize(
    ("local", "commands"),
    [
        (True, ("hanse local stop agent bergen", "hanse local start agent bergen")),
        (
            False,
            ("kubectl --context bergen -n hanse-system rollout restart deployment/hanse-agent",),
        ),
    ],
)
def test_a_webhook_of_an_agent_that_runs_and_does_not_answer_is_served_by_another_run_of_it(
    local: bool, commands: tuple[str, ...]
) -> None:
    (found,) = findings(reporting(outcome(OWN), name="lubeck"), read("bergen"), local=local)

    assert found.code == "WebhookDown"
    assert found.remedy.commands == commands


def test_a_quota_does_not_explain_an_agent_that_is_silent() -> None:
    quota = outcome('services "x" is forbidden: exceeded quota: few, requested: services=1')

    found = findings(reporting(quota, name="lubeck"), read("bergen", agent=60))

    assert {one.code for one in found} == {"WriteRefused", "AgentSilent"}


@pytest.mark.parametrize("local", [True, False])
def test_an_agent_whose_own_lease_is_refused_is_silent_by_who_refuses_it(local: bool) -> None:
    silent = read("bergen", agent=60, refused_renewal=DOWN)

    (found,) = findings(silent, local=local)

    assert (found.code, str(found.subject)) == (
        "WebhookDown",
        "Webhook policy.example.com in bergen",
    )
    assert "Lease.coordination.k8s.io hanse-system/hanse-agent" in found.summary
    assert [one.subject.kind for one in found.consequences] == ["Cluster"]


def test_members_that_a_broker_refuses_their_leases_are_silent_by_who_refuses_them() -> None:
    since = NOW - timedelta(seconds=50)
    beat = HeartbeatState("hub", False, since, namespace="hanse-broker", refusal=DOWN)
    hub = ClusterState("hub", frozenset({Role.BROKER}), Phase.SYNCED, NOW, "", listed=True)
    home = ClusterState("bergen", frozenset({Role.LOCAL}), Phase.SYNCED, NOW, "", listed=True)
    silent = LeaseLiveness("hub", "hanse-broker", "bergen", "bergen", HolderState.SILENT, since)
    facts = Facts()
    for fact in (beat, hub, home, silent):
        facts.put(fact)
    fleet = MultiClusterSnapshot({"bergen": Snapshot({}, facts, NOW, "bergen")})

    (found,) = examine(fleet).findings

    assert (found.code, str(found.subject)) == ("WebhookDown", "Webhook policy.example.com in hub")
    assert "Lease.coordination.k8s.io hanse-broker/bergen" in found.summary
    assert [str(one.subject) for one in found.consequences] == ["Cluster bergen"]


def test_an_agent_whose_renewals_a_webhook_refuses_is_silent_by_the_webhook() -> None:
    told = reporting(outcome(DOWN, where="gslb/bergen"), name="lubeck")

    found = only(told, read("bergen", agent=60))

    assert (found.code, str(found.subject)) == (
        "WebhookDown",
        "Webhook policy.example.com in bergen",
    )
    assert [one.subject.kind for one in found.consequences] == ["Cluster"]


def test_rights_that_went_with_the_brokers_namespace_follow_from_its_loss() -> None:
    user = "system:serviceaccount:hanse-broker-accounts:bergen"
    denied = f'slices is forbidden: User "{user}" cannot create resource "slices"'
    account = ServiceAccount(metadata=meta("bergen", "hanse-broker-accounts", labels=OF_BERGEN))
    spaces = (Namespace(metadata=Meta(name="hanse-broker-accounts")),)
    rules = ClusterSet(metadata=Meta(name="default"))
    hub = read("hub", stored(rules), stored(account), *map(stored, spaces), agent=None)

    found = findings(reporting(outcome(denied, where="hub")), hub)

    (lost,) = (one for one in found if one.code == "BrokerNamespaceMissing")
    assert "WriteRefused" not in [one.code for one in found]
    assert any("bergen" in one.summary for one in lost.consequences)
