"""Each control of the Pod Security Standards, by each of its fields, against allowed values."""

from typing import Any

import pytest

from hanse.model.pod_security import (
    APPARMOR_ANNOTATION,
    BASELINE_CAPABILITIES,
    RESTRICTED_VOLUMES,
    SAFE_SYSCTLS,
    violations,
)
from tests.model.pod_security_cases import BASELINE, CONTAINERS, RESTRICTED, put, template


def fields_of(found: tuple[Any, ...]) -> list[str]:
    return [each.field for each in found]


@pytest.mark.parametrize(("path", "allowed", "denied"), BASELINE)
def test_baseline_judges_each_field(
    path: str, allowed: tuple[Any, ...], denied: tuple[Any, ...]
) -> None:
    for value in allowed:
        assert violations(put(template(), path, value), "baseline") == (), value
    for value in denied:
        found = violations(put(template(), path, value), "baseline")
        assert fields_of(found) == [f"spec.{path}"], value


@pytest.mark.parametrize("at", CONTAINERS)
def test_baseline_allows_only_the_default_capabilities_to_be_added(at: str) -> None:
    path = f"{at}.securityContext.capabilities.add"

    fine = put(template(), path, sorted(BASELINE_CAPABILITIES))
    assert violations(fine, "baseline") == ()
    denied: tuple[Any, ...] = ("SYS_ADMIN", "NET_ADMIN", "NET_RAW", "ALL", "chown", {})
    for name in denied:
        found = violations(put(template(), path, ["CHOWN", name]), "baseline")
        assert fields_of(found) == [f"spec.{path}[1]"]


def test_baseline_allows_every_volume_but_those_of_the_host() -> None:
    for source in (*RESTRICTED_VOLUMES, "nfs", "iscsi", "image"):
        assert (
            violations(put(template(), "volumes[0]", {"name": "v", source: {}}), "baseline") == ()
        )

    bad = put(template(), "volumes[0].hostPath", {"path": "/"})
    assert fields_of(violations(bad, "baseline")) == ["spec.volumes[0].hostPath"]
    empty = put(template(), "volumes[0].hostPath", {})
    assert fields_of(violations(empty, "baseline")) == ["spec.volumes[0].hostPath"]


def test_baseline_allows_only_safe_sysctls() -> None:
    path = "securityContext.sysctls"

    fine = put(template(), path, [{"name": name, "value": "1"} for name in sorted(SAFE_SYSCTLS)])
    assert violations(fine, "baseline") == ()
    for name in ("kernel.msgmax", "net.ipv4.ip_forward", "vm.swappiness", None):
        found = violations(put(template(), path, [{"name": name}]), "baseline")
        assert fields_of(found) == [f"spec.{path}[0].name"]


@pytest.mark.parametrize(
    ("value", "allowed"),
    [("runtime/default", True), ("localhost/mine", True), ("", True), ("unconfined", False)],
)
def test_baseline_reads_the_older_annotation_of_apparmor(value: str, allowed: bool) -> None:
    judged = template()
    judged["metadata"]["annotations"] = {f"{APPARMOR_ANNOTATION}c": value, "other": "unconfined"}

    assert (violations(judged, "baseline") == ()) is allowed


@pytest.mark.parametrize(("path", "allowed", "denied"), RESTRICTED)
def test_restricted_judges_each_field(
    path: str, allowed: tuple[Any, ...], denied: tuple[Any, ...]
) -> None:
    for value in allowed:
        assert violations(put(template("restricted"), path, value), "restricted") == (), value
    for value in denied:
        judged = put(template("restricted"), path, value)
        assert fields_of(violations(judged, "restricted")) == [f"spec.{path}"], value
        assert violations(judged, "baseline") == (), "it is no matter of baseline"


@pytest.mark.parametrize(("path", "allowed", "denied"), BASELINE)
def test_restricted_denies_all_that_baseline_denies(
    path: str, allowed: tuple[Any, ...], denied: tuple[Any, ...]
) -> None:
    for value in denied:
        judged = put(template("restricted"), path, value)
        assert f"spec.{path}" in fields_of(violations(judged, "restricted"))


def test_restricted_wants_non_root_of_the_pod_or_of_each_container() -> None:
    pod, path = "securityContext.runAsNonRoot", "securityContext.runAsNonRoot"
    judged = put(template("restricted"), pod, ...)
    assert len(violations(judged, "restricted")) == 3
    for at in CONTAINERS:
        put(judged, f"{at}.{path}", True)
    assert violations(judged, "restricted") == ()

    put(judged, pod, False)
    assert fields_of(violations(judged, "restricted")) == [f"spec.{pod}"]


def test_restricted_wants_a_seccomp_profile_of_the_pod_or_of_each_container() -> None:
    judged = put(template("restricted"), "securityContext.seccompProfile", ...)
    assert len(violations(judged, "restricted")) == 3
    for at in CONTAINERS:
        put(judged, f"{at}.securityContext.seccompProfile.type", "Localhost")
    assert violations(judged, "restricted") == ()


def test_restricted_allows_only_one_capability_and_some_volumes() -> None:
    add = "containers[0].securityContext.capabilities.add"
    assert violations(put(template("restricted"), add, ["NET_BIND_SERVICE"]), "restricted") == ()
    found = violations(put(template("restricted"), add, ["CHOWN"]), "restricted")
    assert fields_of(found) == [f"spec.{add}[0]"]

    for source in sorted(RESTRICTED_VOLUMES):
        judged = put(template("restricted"), "volumes[0]", {"name": "v", source: {}})
        assert violations(judged, "restricted") == ()
    for source in ("nfs", "iscsi", "gcePersistentDisk", "flexVolume", "image", "rbd"):
        judged = put(template("restricted"), "volumes[0]", {"name": "v", source: {}})
        assert fields_of(violations(judged, "restricted")) == [f"spec.volumes[0].{source}"]


def test_what_windows_lacks_is_not_asked_of_its_pods() -> None:
    judged = template()
    judged["spec"]["os"] = {"name": "windows"}
    judged["spec"]["securityContext"] = {"runAsNonRoot": True}

    assert violations(judged, "restricted") == ()


def test_privileged_denies_nothing() -> None:
    judged = put(put(template(), "hostPID", True), "volumes[0].hostPath", {"path": "/"})

    assert violations(judged, "privileged") == ()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("containers", {"0": {"securityContext": {"privileged": True}}}),
        ("containers", ["c"]),
        ("volumes", "hostPath"),
        ("securityContext", ["hostPID"]),
        ("containers[0].securityContext", "privileged"),
        ("containers[0].securityContext.capabilities", ["SYS_ADMIN"]),
        ("containers[0].securityContext.capabilities.add", "SYS_ADMIN"),
        ("containers[0].ports", {"hostPort": 1}),
        ("containers[0].livenessProbe", "host"),
    ],
)
def test_a_field_of_another_type_hides_nothing(path: str, value: Any) -> None:
    assert violations(put(template(), path, value), "baseline") != ()


def test_fields_are_named_from_where_the_template_stands() -> None:
    found = violations(put(template(), "hostPID", True), "baseline", "spec.template.spec.template")

    assert fields_of(found) == ["spec.template.spec.template.spec.hostPID"]
