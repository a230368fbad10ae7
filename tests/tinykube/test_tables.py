"""Tables of built-in kinds, as far as the differential cases do not show them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tinykube.builtin_resources import BUILTINS
from tinykube.resources import Object, Resource
from tinykube.tables import table
from tinykube.tables.cells import human_duration

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def ago(**span: float) -> str:
    return (NOW - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "creationTimestamp": ago(minutes=5)}, **fields}


def builtin(api_version: str, kind: str) -> Resource:
    return BUILTINS.kinds[api_version, kind]


def row(api_version: str, kind: str, obj: Object) -> dict[str, Any]:
    """One object's cells by their columns' names."""
    shown = table(builtin(api_version, kind), [obj], "None", NOW)
    names = [column["name"] for column in shown["columnDefinitions"]]
    return dict(zip(names, shown["rows"][0]["cells"], strict=False))


@pytest.mark.parametrize("resource", [one for one in BUILTINS.resources if "list" in one.verbs])
def test_every_kind_shows_its_empty_objects_too(resource: Resource) -> None:
    """An object of the right kind with nothing in it has a row with a cell for each column."""
    shown = table(resource, [named("x"), {"metadata": {"name": "y"}}], "Metadata", NOW)

    assert shown["columnDefinitions"]
    assert all(len(one["cells"]) >= len(shown["columnDefinitions"]) for one in shown["rows"])


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=-5), "<invalid>"),
        (timedelta(seconds=0), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=5), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=1), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(hours=48), "2d"),
        (timedelta(days=7, hours=23), "7d23h"),
        (timedelta(days=8, hours=1), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=735), "2y5d"),
        (timedelta(days=365 * 8 + 3), "8y"),
    ],
    ids=str,
)
def test_durations_are_shown_in_the_unit_that_fits(span: timedelta, shown: str) -> None:
    assert human_duration(span) == shown


WAITING = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
DONE = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
KILLED = {"state": {"terminated": {"exitCode": 137, "signal": 9}}}
RUNNING = {"ready": True, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        pytest.param({"phase": "Pending"}, "Pending", id="phase"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, "Evicted", id="reason"),
        pytest.param(
            {"phase": "Running", "containerStatuses": [WAITING]}, "CrashLoopBackOff", id="waiting"
        ),
        pytest.param({"phase": "Failed", "containerStatuses": [KILLED]}, "Signal:9", id="signal"),
        pytest.param(
            {
                "phase": "Running",
                "containerStatuses": [DONE, RUNNING],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
            "Running",
            id="one of two is done",
        ),
        pytest.param(
            {"phase": "Running", "containerStatuses": [DONE, RUNNING]}, "NotReady", id="not ready"
        ),
        pytest.param(
            {"phase": "Pending", "initContainerStatuses": [DONE, {"state": {"running": {}}}]},
            "Init:1/2",
            id="initializing",
        ),
        pytest.param(
            {"phase": "Pending", "initContainerStatuses": [KILLED]}, "Init:Signal:9", id="init died"
        ),
        pytest.param(
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
            },
            "SchedulingGated",
            id="gated",
        ),
    ],
)
def test_a_pods_state_is_what_its_containers_add_up_to(status: Object, shown: str) -> None:
    spec: Object = {"containers": [{}, {}], "initContainers": [{}, {}]}

    assert row("v1", "Pod", named("p", spec=spec, status=status))["Status"] == shown


def test_a_pod_that_is_being_deleted_is_shown_as_terminating() -> None:
    pod = named("p", status={"phase": "Running"})
    pod["metadata"]["deletionTimestamp"] = ago(seconds=1)

    assert row("v1", "Pod", pod)["Status"] == "Terminating"


def test_a_pod_that_has_ended_marks_its_row() -> None:
    pods = [named("p", status={"phase": "Succeeded"}), named("q", status={"phase": "Running"})]

    rows = table(builtin("v1", "Pod"), pods, "None", NOW)["rows"]

    assert [one["reason"] for one in rows[0]["conditions"]] == ["Succeeded"]
    assert "conditions" not in rows[1]


@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        pytest.param({"type": "ClusterIP"}, {}, "<none>", id="cluster"),
        pytest.param({"type": "LoadBalancer"}, {}, "<pending>", id="no address yet"),
        pytest.param(
            {"type": "LoadBalancer"},
            {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}, {"hostname": "a.example"}]}},
            "203.0.113.9,a.example",
            id="address and host name",
        ),
        pytest.param(
            {"type": "ExternalName", "externalName": "x.example"}, {}, "x.example", id="name"
        ),
        pytest.param(
            {"type": "NodePort", "externalIPs": ["192.0.2.1"]}, {}, "192.0.2.1", id="given"
        ),
    ],
)
def test_the_external_address_of_a_service(spec: Object, status: Object, shown: str) -> None:
    service = named("web", spec=spec, status=status)

    assert row("v1", "Service", service)["External-IP"] == shown


def test_a_services_ports_and_cluster_address() -> None:
    ports = [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]
    service = named("web", spec={"type": "NodePort", "clusterIPs": ["10.0.0.8"], "ports": ports})

    shown = row("v1", "Service", service)

    assert (shown["Cluster-IP"], shown["Port(s)"]) == ("10.0.0.8", "80/TCP,53:30053/UDP")
    assert shown["Selector"] == "<none>"


def test_long_lists_of_endpoints_are_cut_short() -> None:
    addresses = [{"addresses": [f"10.0.0.{last}"]} for last in range(5)]
    endpoint_slice = named("s", addressType="IPv4", ports=[{"port": 80}], endpoints=addresses)
    subset = {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}]}

    sliced = row("discovery.k8s.io/v1", "EndpointSlice", endpoint_slice)
    classic = row("v1", "Endpoints", named("e", subsets=[subset]))

    assert sliced["Endpoints"] == "10.0.0.0,10.0.0.1,10.0.0.2 + 2 more..."
    assert sliced["Ports"] == "80"
    assert classic["Endpoints"] == "10.0.0.1:80,[fd00::1]:80"


def test_both_forms_of_events_show_the_same() -> None:
    old = named(
        "e",
        type="Warning",
        reason="Bad",
        message=" it broke\n",
        involvedObject={"kind": "Pod", "name": "web"},
        lastTimestamp=ago(seconds=9),
        count=3,
    )
    new = named(
        "e",
        type="Warning",
        reason="Bad",
        note="it broke",
        regarding={"kind": "Pod", "name": "web"},
        series={"lastObservedTime": ago(seconds=9), "count": 3},
    )

    shown = [row("v1", "Event", old), row("events.k8s.io/v1", "Event", new)]

    assert shown[0] == shown[1] | {"First Seen": shown[0]["First Seen"]}
    assert shown[0]["Object"] == "pod/web"
    assert shown[0]["Message"] == "it broke"
    assert (shown[0]["Last Seen"], shown[0]["Count"]) == ("9s", 3)


def test_a_job_shows_how_long_it_runs() -> None:
    job = named("j", spec={"completions": 2}, status={"succeeded": 1, "startTime": ago(seconds=50)})

    shown = row("batch/v1", "Job", job)

    assert (shown["Status"], shown["Completions"], shown["Duration"]) == ("Running", "1/2", "50s")


def test_rows_include_the_requested_form_of_the_object() -> None:
    config = named("c", data={"a": "b"})
    resource = builtin("v1", "ConfigMap")

    def carried(include: str) -> Any:
        return table(resource, [config], include, NOW)["rows"][0]["object"]

    assert carried("Object") is config
    assert carried("None") is None
    assert carried("") == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": config["metadata"],
    }


def test_a_scale_is_shown_as_such() -> None:
    scale = {"kind": "Scale", **named("web", spec={"replicas": 3}, status={"replicas": 2})}

    shown = table(builtin("apps/v1", "Deployment"), [scale], "None", NOW)

    assert shown["rows"][0]["cells"] == ["web", 3, 2, "5m"]
