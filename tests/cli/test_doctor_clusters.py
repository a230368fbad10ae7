"""Findings of doctor from inventories, each with its remedy."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hanse.app import Options, own_kinds
from hanse.cli.doctor.clusters import CheckContext, check_clusters
from hanse.cli.inventory import (
    AgentLease,
    ClusterInventory,
    ExportState,
    InventoryResult,
    NodeCounts,
    service_inventory,
)
from hanse.cli.permissions import Permission
from hanse.kube.transport import Validity
from hanse.model.crds import crds
from hanse.model.kinds.multicluster import ServiceExport
from hanse.runtime.compare import contains

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
KNOWN = CheckContext(NOW, crds())
HEALTHY = ClusterInventory(
    name="lubeck",
    server="https://127.0.0.1:6443",
    version="v1.35.4",
    skew=timedelta(0),
    nodes=NodeCounts(3, 3),
    agent=AgentLease("lubeck-0", timedelta(seconds=1), timedelta(seconds=15)),
    definitions={
        one["metadata"]["name"]: msgspec.Raw(msgspec.json.encode(one["spec"])) for one in crds()
    },
)


def _inventory(**changes: Any) -> ClusterInventory:
    return replace(HEALTHY, **changes)


def _ending(lifetime: timedelta, remaining: timedelta) -> ClusterInventory:
    end = NOW + remaining
    return _inventory(certificate=Validity(end - lifetime, end))


def _without(name: str) -> dict[str, msgspec.Raw]:
    return {n: one for n, one in (HEALTHY.definitions or {}).items() if n != name}


def _older(name: str) -> dict[str, msgspec.Raw]:
    existing = dict(HEALTHY.definitions or {})
    spec = msgspec.json.decode(existing[name])
    version = {**spec["versions"][0], "additionalPrinterColumns": []}
    existing[name] = msgspec.Raw(msgspec.json.encode({**spec, "versions": [version]}))
    return existing


def test_nothing_is_found_in_a_healthy_cluster() -> None:
    assert check_clusters([HEALTHY], KNOWN) == []


def test_kinds_of_features_that_are_off_are_not_missed() -> None:
    needed = {one["metadata"]["name"] for one in crds(own_kinds(Options(features=("services",))))}
    services = {n: one for n, one in (HEALTHY.definitions or {}).items() if n in needed}

    assert check_clusters([_inventory(definitions=services, features=("services",))], KNOWN) == []
    (found,) = check_clusters([_inventory(definitions=services, features=("gslb",))], KNOWN)
    assert found.problem.startswith("definitions are missing: amkoclusters.amko.vmware.com")


@pytest.mark.parametrize(
    ("inventory", "problem", "remedy"),
    [
        pytest.param(
            _inventory(expires=NOW + timedelta(days=3, hours=1)),
            "the credentials end in 3 days, on 2026-07-04 13:00 UTC",
            "log in anew as your cluster's provider says, or: kubectl config set-credentials "
            "of the user of context lubeck",
            id="credentials that end soon",
        ),
        pytest.param(
            _ending(timedelta(days=365), timedelta(days=3, hours=1)),
            "the certificate of its API server ends in 3 days, on 2026-07-04 13:00 UTC: nobody "
            "reaches it after that",
            "renew it, or ask your provider; of kubeadm's: `kubeadm certs renew all` on each "
            "control plane node, after which kube-apiserver is started anew there",
            id="a certificate that ends soon",
        ),
        pytest.param(
            _inventory(version="v1.29.3"),
            "Kubernetes v1.29.3 is not one of 1.30 to 1.35",
            "see what can be done: kubectl --context lubeck version; `kubeadm upgrade plan`, "
            "or your provider's upgrade",
            id="too old",
        ),
        pytest.param(
            _inventory(version="v1.36.0"),
            "Kubernetes v1.36.0 is not one of 1.30 to 1.35",
            "see what can be done: kubectl --context lubeck version; `kubeadm upgrade plan`, "
            "or your provider's upgrade",
            id="too new",
        ),
        pytest.param(
            _inventory(skew=timedelta(seconds=-5)),
            "its clock is 5 s behind this machine's",
            "synchronise both clocks, e.g. `timedatectl set-ntp true`",
            id="clock skew",
        ),
        pytest.param(
            _inventory(definitions=_without("serviceexports.multicluster.x-k8s.io")),
            "definitions are missing: serviceexports.multicluster.x-k8s.io",
            "hanse crds | kubectl --context lubeck apply -f -",
            id="a definition missing",
        ),
        pytest.param(
            _inventory(definitions=_older("clustersets.hanse.dev")),
            "definitions are not of this version: clustersets.hanse.dev",
            "hanse crds | kubectl --context lubeck apply -f -",
            id="an old definition",
        ),
        pytest.param(
            _inventory(denied=(Permission("watch", "services"), Permission("list", "namespaces"))),
            "these credentials may not watch services, list namespaces",
            "kubectl --context lubeck auth can-i --list",
            id="rights missing",
        ),
    ],
)
def test_each_trouble_is_found_with_its_remedy(
    inventory: InventoryResult, problem: str, remedy: str
) -> None:
    (found,) = check_clusters([inventory], KNOWN)
    assert (found.cluster, found.problem, found.remedy) == ("lubeck", problem, remedy)


@pytest.mark.parametrize(
    ("lifetime", "remaining", "is_told"),
    [
        pytest.param(timedelta(days=365), timedelta(days=8), False, id="more than a week"),
        pytest.param(timedelta(days=365), timedelta(days=6), True, id="a week"),
        pytest.param(timedelta(days=8), timedelta(days=3), False, id="renewed every few days"),
        pytest.param(timedelta(days=8), timedelta(days=1), True, id="not renewed after days"),
    ],
)
def test_a_certificate_that_is_renewed_in_time_is_no_trouble(
    lifetime: timedelta, remaining: timedelta, is_told: bool
) -> None:
    found = check_clusters([_ending(lifetime, remaining)], KNOWN)

    assert [one.code for one in found] == ["CertificateExpiring"] * is_told


def test_a_small_skew_is_no_trouble() -> None:
    assert check_clusters([_inventory(skew=timedelta(seconds=2))], KNOWN) == []


@pytest.mark.parametrize(
    ("existing", "wanted", "holds"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="what a server adds does not count"),
        pytest.param({"b": 2}, {"a": 1}, False, id="a field is missing"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, False, id="a list has more"),
        pytest.param({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]}, True, id="inside lists"),
        pytest.param({"a": "1"}, {"a": 1}, False, id="another type"),
    ],
)
def test_a_definition_contains_another(existing: Any, wanted: Any, holds: bool) -> None:
    assert contains(existing, wanted) is holds


def _export(*conditions: tuple[str, str, str, str]) -> ExportState:
    fields = ("type", "status", "reason", "message")
    status = {"conditions": [dict(zip(fields, c, strict=True)) for c in conditions]}
    export = {"metadata": {"namespace": "shop", "name": "web"}, "status": status}
    (state,) = service_inventory([msgspec.convert(export, ServiceExport)], 0).exports or ()
    return state


@pytest.mark.parametrize(
    ("conditions", "ready", "trouble"),
    [
        pytest.param([], False, "", id="nobody has looked at it yet"),
        pytest.param(
            [("Valid", "True", "Valid", ""), ("Ready", "True", "Exported", "")], True, "", id="good"
        ),
        pytest.param([("Ready", "False", "Pending", "soon")], False, "", id="pending"),
        pytest.param(
            [("Ready", "Unknown", "Disconnected", "no broker")],
            False,
            "no broker",
            id="disconnected",
        ),
        pytest.param(
            [("Valid", "False", "NoService", "there is none"), ("Ready", "False", "Pending", "")],
            False,
            "there is none",
            id="no Service",
        ),
        pytest.param(
            [("Ready", "True", "Exported", ""), ("Conflict", "True", "PortConflict", "port 80")],
            True,
            "port 80",
            id="a conflict",
        ),
        pytest.param([("Ready", "False", "Failed", "refused")], False, "refused", id="failed"),
    ],
)
def test_an_export_has_a_problem_when_a_user_must_act(
    conditions: list[tuple[str, str, str, str]], ready: bool, trouble: str
) -> None:
    assert _export(*conditions) == ExportState("shop", "web", ready, trouble)
