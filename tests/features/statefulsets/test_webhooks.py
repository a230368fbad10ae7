"""What a host's webhook denies: with the API's messages, the field and the remedy."""

from typing import Any

import msgspec
import pytest

from hanse.features.statefulsets.feature import StatefulSets
from hanse.features.statefulsets.names import SET
from hanse.features.statefulsets.webhooks import AutoscalerWebhook, FederatedStatefulSetWebhook
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, Deny, Operation
from hanse.model.facts import Role
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.objects import Meta, Wire
from hanse.model.ownership import OWNER
from hanse.model.snapshot import Snapshot
from tests.support.builders import cluster, snapshot, stored

BROKER_NAMESPACE = "hanse-broker"
HOOK = FederatedStatefulSetWebhook(BROKER_NAMESPACE)
WISH = "federation.kubernetes.io/statefulset-preferences"
LONG = "a-cluster-with-a-very-long-name"


def submitted(name: str = "store", annotations: Wire | None = None, **fields: Any) -> Wire:
    labels = {"app": "etcd"}
    placement = fields.pop("placement", None)
    spec: Wire = {
        "selector": {"matchLabels": labels},
        "serviceName": "etcd",
        "template": {"metadata": {"labels": labels}, "spec": {"containers": []}},
        "replicas": 3,
        **fields,
    }
    body: Wire = {"template": {"spec": spec}}
    if placement is not None:
        body["placement"] = {"clusters": placement}
    meta = {"name": name, "namespace": "shop", "annotations": annotations or {}}
    return {"metadata": meta, "spec": body}


def fleet_snapshot() -> Snapshot:
    leases = [
        stored(
            Lease(
                metadata=LeaseMeta(name=name, namespace=BROKER_NAMESPACE),
                spec=LeaseSpec(holder_identity=name),
            )
        )
        for name in ("lubeck", LONG)
    ]
    states = [cluster("lubeck", Role.LOCAL), cluster("broker", Role.BROKER)]
    return snapshot(StatefulSets(BROKER_NAMESPACE), "lubeck", states, {"broker": leases})


def verdict(
    obj: Wire, before: Wire | None = None, operation: Operation | None = None
) -> AdmissionDecision:
    verb: Operation = operation or ("UPDATE" if before else "CREATE")
    name = obj.get("metadata", {}).get("name", "")
    kind = "FederatedStatefulSet"
    review = AdmissionRequest(verb, "hanse.dev", "v1alpha1", kind, name, "shop", obj, before or {})
    return HOOK.review(review, fleet_snapshot())


def refusal(obj: Wire, before: Wire | None = None) -> str:
    found = verdict(obj, before)
    assert isinstance(found, Deny), found
    return found.message


def test_a_good_set_is_let_in() -> None:
    assert verdict(submitted()) == Allow()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"serviceName": "other"}, "'minReadySeconds' are forbidden", id="service"),
        pytest.param({"podManagementPolicy": "Parallel"}, "are forbidden", id="policy"),
        pytest.param({"selector": {"matchLabels": {"a": "b"}}}, "are forbidden", id="selector"),
    ],
)
def test_what_a_stateful_set_cannot_change_is_refused(change: Wire, words: str) -> None:
    message = refusal(submitted(**change), submitted())

    assert message.startswith("spec.template.spec: Forbidden: updates to statefulset spec")
    assert words in message


def test_what_a_stateful_set_can_change_is_let_in() -> None:
    template = {"metadata": {"labels": {"app": "etcd"}}, "spec": {"containers": [{"name": "x"}]}}
    after = submitted(replicas=9, template=template, podManagementPolicy="OrderedReady")

    assert verdict(after, submitted()) == Allow()


def test_a_name_too_long_is_refused_and_says_how_long_and_why() -> None:
    message = refusal(submitted("a-quite-long-name-of-a-set"))

    assert LONG in message
    assert "58 characters" in message
    assert "52 leave room for the revision" in message
    assert "the name may have 20 here" in message
    assert refusal(submitted("a" * 60)).count("metadata.name: ") == 1, "only once"


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        pytest.param(submitted("Store"), "metadata.name: 'Store'", id="capitals"),
        pytest.param(submitted("a.b"), "metadata.name: 'a.b'", id="dots"),
        pytest.param(
            submitted(annotations={"federation.kubernetes.io/statefulset-lb-needed": "yes"}),
            "'yes' is not 'true' or 'false'",
            id="balancers",
        ),
        pytest.param(
            submitted(annotations={"statefulsets.hanse.dev/update": "slowly"}),
            "'slowly' is not 'everywhere' or 'cluster-by-cluster'",
            id="update",
        ),
        pytest.param(
            submitted(placement=[{"name": "lubeck", "min": 5, "max": 2}]),
            "of lubeck it wants at least 5 and at most 2",
            id="min over max",
        ),
        pytest.param(
            submitted(annotations={WISH: "lubeck"}),
            f"annotation {WISH}: JSON is malformed",
            id="JSON",
        ),
        pytest.param(
            submitted(
                annotations={WISH: '{"clusters": {"lubeck": {"minReplicas": 5, "maxReplicas": 2}}}'}
            ),
            f"annotation {WISH}: of lubeck it wants at least 5 and at most 2",
            id="min over max by annotation",
        ),
        pytest.param(
            submitted(annotations={WISH: "{}"}, placement=[{"name": "lubeck", "max": 2}]),
            f"annotation {WISH}: spec.placement.clusters says it already; remove one of them",
            id="wishes in two places",
        ),
        pytest.param(
            submitted(replicas="three"), "spec.template.spec: Expected `int`", id="not a number"
        ),
    ],
)
def test_bad_input_names_the_field_and_the_remedy(obj: Wire, words: str) -> None:
    assert words in refusal(obj)


def test_preferences_that_cannot_be_met_now_are_warned_about() -> None:
    found = verdict(submitted(replicas=9, placement=[{"name": "riga", "max": 2}]))
    assert isinstance(found, Allow)
    assert "no cluster riga" in found.warnings[0]

    capped = [{"name": "lubeck", "max": 2}, {"name": LONG, "max": 2}]
    found = verdict(submitted(replicas=9, placement=capped))
    assert isinstance(found, Allow)
    assert found.warnings == ("spec.placement: 9 replicas are more than max allows, 4",)

    alone = {WISH: '{"clusters": {"lubeck": {"maxReplicas": 2}}}'}
    found = verdict(submitted(replicas=9, annotations=alone))
    assert isinstance(found, Allow)
    assert found.warnings == (f"annotation {WISH}: 9 replicas are more than max allows, 2",)


def test_deletion_and_finalizers_are_never_in_the_way() -> None:
    assert verdict({}, submitted(), "DELETE") == Allow()
    going = submitted("Store")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert verdict(going, going) == Allow()


@pytest.mark.parametrize(
    "invalid",
    [
        pytest.param(submitted("Store"), id="a name"),
        pytest.param(submitted(replicas="three"), id="a field of the StatefulSet"),
        pytest.param(submitted(placement={"a": 1}), id="a field of the set"),
        pytest.param(submitted(annotations={WISH: "lubeck"}), id="an annotation"),
    ],
)
def test_what_was_wrong_before_an_update_does_not_deny_it(invalid: Wire) -> None:
    labelled = {**invalid, "metadata": {**invalid["metadata"], "labels": {"tier": "gold"}}}
    going = {
        **invalid,
        "metadata": {**invalid["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
    }

    assert isinstance(verdict(labelled, invalid), Allow)
    assert (
        verdict(going, {**going, "metadata": {**going["metadata"], "finalizers": ["a/b"]}})
        == Allow()
    )


def test_an_update_of_the_settings_of_an_invalid_set_is_denied_until_all_are_valid() -> None:
    before = submitted(annotations={WISH: "lubeck"})
    applied = submitted(annotations={WISH: "lubeck", "kubectl.kubernetes.io/last-applied": "{}"})

    assert verdict(applied, before) == Allow()
    assert WISH in refusal(submitted(annotations={WISH: "bergen"}), before)
    assert WISH in refusal(submitted(annotations={WISH: "lubeck"}, replicas=4), before)
    assert verdict(submitted(), before) == Allow()


def test_an_existing_set_with_a_long_name_can_still_be_scaled() -> None:
    name = "a-quite-long-name-of-a-set"

    assert verdict(submitted(name, replicas=4), submitted(name)) == Allow()


def test_the_hook_is_asked_about_its_own_kind_alone() -> None:
    assert {(a.groups, a.resources) for a in HOOK.rules} == {
        (("hanse.dev",), ("federatedstatefulsets",))
    }
    assert msgspec.to_builtins(HOOK.rules[0])["required"] is False


@pytest.mark.parametrize(
    ("kind", "name", "denied"),
    [
        pytest.param("FederatedStatefulSet", "store", True, id="a set"),
        pytest.param("StatefulSet", "store-lubeck", True, id="this cluster's part of one"),
        pytest.param("StatefulSet", "plain", False, id="another StatefulSet"),
        pytest.param("Deployment", "web", False, id="a Deployment"),
    ],
)
def test_an_autoscaler_of_one_cluster_does_not_scale_a_set_of_many(
    kind: str, name: str, denied: bool
) -> None:
    meta = Meta(
        name="store-lubeck", namespace="shop", labels={SET: "store", OWNER: "statefulsets-x"}
    )
    plain = Meta(name="plain", namespace="shop")
    states = [cluster("lubeck", Role.LOCAL)]
    here = [stored(StatefulSet(metadata=one)) for one in (meta, plain)]
    snap = snapshot(StatefulSets(BROKER_NAMESPACE), "lubeck", states, {"lubeck": here})
    obj = {"spec": {"scaleTargetRef": {"kind": kind, "name": name}}}
    scaler = "HorizontalPodAutoscaler"
    review = AdmissionRequest("CREATE", "autoscaling", "v2", scaler, "web", "shop", obj, {})

    decision = AutoscalerWebhook().review(review, snap)

    assert isinstance(decision, Deny) == denied


def test_an_autoscaler_that_exists_can_be_labelled_and_deleted_but_not_changed() -> None:
    snap = snapshot(StatefulSets(BROKER_NAMESPACE), "lubeck", [cluster("lubeck", Role.LOCAL)], {})
    target = {"kind": "FederatedStatefulSet", "name": "store"}
    before: Wire = {"metadata": {"finalizers": ["a/b"]}, "spec": {"scaleTargetRef": target}}
    going = {**before, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    labelled = {**before, "metadata": {"labels": {"tier": "gold"}}}
    scaled = {**before, "spec": {**before["spec"], "maxReplicas": 9}}

    allowed = [
        AutoscalerWebhook().review(
            AdmissionRequest(
                "UPDATE",
                "autoscaling",
                "v2",
                "HorizontalPodAutoscaler",
                "web",
                "shop",
                after,
                before,
            ),
            snap,
        )
        == Allow()
        for after in (going, labelled, scaled)
    ]

    assert allowed == [True, True, False]
