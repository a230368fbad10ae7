"""Export records: encoding, decoding, and invalid records."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.services.merge import merge_exports
from hanse.features.services.names import (
    EXPORTED_AT,
    PRIORITY,
    RECORD,
    SOURCE_CLUSTER,
    TO_CLUSTERS,
    WEIGHT,
)
from hanse.features.services.records import (
    SCHEMA,
    ExportRecord,
    build_record,
    decode_record,
    encode_record,
    read_exports,
)
from hanse.model.kinds.discovery import EndpointSlice
from tests.features.services.builders import (
    PROFILES,
    export,
    port,
    published_slices,
    record,
    service,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def slice_with_record(text: str, like: ExportRecord | None = None) -> EndpointSlice:
    """A slice on the broker whose record is any text."""
    endpoint_slice = published_slices(like or record("lubeck"))[0]
    return replace(
        endpoint_slice, metadata=replace(endpoint_slice.metadata, annotations={RECORD: text})
    )


def slice_with_fields(**fields: Any) -> EndpointSlice:
    """A slice on the broker with a record that differs from a good one in some fields."""
    content = {**msgspec.to_builtins(record("lubeck")), **fields}
    return slice_with_record(msgspec.json.encode(content).decode())


def test_a_record_is_decoded_as_it_was_encoded() -> None:
    annotations = {TO_CLUSTERS: "visby, bergen", WEIGHT: "3", PRIORITY: "20"}
    content = build_record(
        export(annotations=annotations, exported_labels={"tier": "gold"}), service(), "lubeck"
    )

    [endpoint_slice] = published_slices(content)

    assert decode_record(endpoint_slice) == content
    assert (content.to, content.weight, content.priority) == (("bergen", "visby"), 3, 20)
    assert content.exported_labels == {"tier": "gold"}


def test_agents_of_version_0_1_read_and_write_the_same_record() -> None:
    """Its text: another one would be a conflict, or unread, while versions are mixed."""
    text = (
        '{"cluster":"lubeck","exportedAt":"2025-12-31T23:59:59Z","ipFamilies":["IPv4"],'
        '"name":"web","namespace":"shop","ports":[{"name":"http","port":80}],'
        '"type":"ClusterSetIP"}'
    )
    exported = build_record(export(), service(internal_traffic_policy="Cluster"), "lubeck")
    local = build_record(export(), service(internal_traffic_policy="Local"), "lubeck")

    assert encode_record(exported) == text
    assert msgspec.json.decode(encode_record(local))["internalTrafficPolicy"] == "Local"


def test_one_record_counts_for_each_cluster_whatever_the_order() -> None:
    one, other = record("lubeck", port(80)), record("lubeck", port(81))
    slices = [
        replace(p, metadata=replace(p.metadata, name=name))
        for name, r in (("a", one), ("b", other))
        for p in published_slices(r)
    ]

    assert read_exports(slices, None).records == read_exports(slices[::-1], None).records == (one,)


def test_an_unstated_schema_is_the_first() -> None:
    content = msgspec.json.decode(encode_record(record("lubeck")))
    content.pop("schema", None)

    assert decode_record(slice_with_record(msgspec.json.encode(content).decode())) == record(
        "lubeck"
    )


def test_a_record_of_a_later_version_is_known_to_be_one_and_not_read() -> None:
    reported = read_exports(
        [slice_with_fields(schema=SCHEMA + 1, type="Anycast"), *published_slices(record("riga"))],
        None,
    )

    assert reported.newer == {"lubeck"}
    assert [r.cluster for r in reported.records] == ["riga"]


BAD = {
    "no JSON": slice_with_record("{"),
    "another shape": slice_with_record("[1]"),
    "a time without a zone": slice_with_fields(exportedAt="2026-01-01T00:00:00"),
    "no time": slice_with_fields(exportedAt="yesterday"),
    "an unknown type": slice_with_fields(type="ExternalName"),
    "a port out of range": slice_with_fields(ports=[{"port": 70000}]),
    "no port": slice_with_fields(ports=[]),
    "one name twice": slice_with_fields(ports=[{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]),
    "one port twice": slice_with_fields(ports=[{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]),
    "too many ports": slice_with_fields(
        ports=[{"port": n, "name": f"p{n}"} for n in range(1, 102)]
    ),
    "a long name": slice_with_fields(ports=[{"port": 1, "name": "a" * 64}]),
    "a bad label": slice_with_fields(exportedLabels={"tier": "not a label"}),
    "a label of ours": slice_with_fields(exportedLabels={"hanse.dev/owner": "me"}),
    "an older agent's label": slice_with_fields(
        exportedLabels={"lighthouse.submariner.io/sourceCluster": "bergen"}
    ),
    "huge annotations": slice_with_fields(exportedAnnotations={"note": "x" * 200_000}),
    "a bad timeout": slice_with_fields(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}}),
    "a bad weight": slice_with_fields(weight=-1),
    "another cluster's name": slice_with_fields(cluster="bergen"),
    "another service's name": slice_with_fields(name="bank"),
    "another namespace": slice_with_fields(namespace="bank"),
}


@pytest.mark.parametrize("endpoint_slice", BAD.values(), ids=list(BAD))
def test_a_bad_record_is_no_record_and_others_are_imported(endpoint_slice: EndpointSlice) -> None:
    reported = read_exports([endpoint_slice, *published_slices(record("visby"))], None)

    assert [r.cluster for r in reported.records] == ["visby"]
    assert reported.newer == frozenset()


def test_a_cluster_with_a_name_that_no_import_takes_is_left_out() -> None:
    endpoint_slice = published_slices(record("Under_Score"))[0]
    assert endpoint_slice.metadata.labels[SOURCE_CLUSTER] == "Under_Score"

    assert read_exports([endpoint_slice], None).records == ()


@settings(deadline=None, max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from([f.encode_name for f in msgspec.structs.fields(ExportRecord)]),
        json_values,
        max_size=3,
    )
)
def test_decoding_and_merging_any_record_does_not_fail(
    content: dict[str, Any],
) -> None:
    reported = read_exports(
        [slice_with_fields(**content), *published_slices(record("visby"))], None
    )

    assert "visby" in {r.cluster for r in reported.records}
    for profile in PROFILES:
        assert merge_exports(reported.records, profile) is not None


@pytest.mark.parametrize("text", ["", "-1", "1001", "3.5", "three", "٣", "9" * 5000])
def test_a_weight_that_is_none_is_ignored(text: str) -> None:
    assert build_record(export(annotations={WEIGHT: text}), service(), "lubeck").weight is None


HOUR = 3600.0
LONG_AGO, THEN, LATER = 1000 * HOUR, 100 * HOUR, 90 * HOUR
"""Ages in seconds: before there was a broker, its first hour, and ten hours later."""


@pytest.mark.parametrize(
    ("stated", "created", "proven"),
    [
        pytest.param(LONG_AGO, LATER, LATER, id="never older than its slice"),
        pytest.param(LATER, THEN, LATER, id="younger, if its cluster says so"),
        pytest.param(LONG_AGO, THEN, LONG_AGO, id="as stated, when all publish anew"),
    ],
)
def test_an_export_is_no_older_than_the_broker_knows(
    stated: float, created: float, proven: float
) -> None:
    slices = [stored(s, age=created) for s in published_slices(record("lubeck", age=stated))]

    [read] = read_exports(slices, EPOCH - timedelta(seconds=THEN)).records

    assert read.exported_at == EPOCH - timedelta(seconds=proven)


def test_a_record_that_is_made_older_later_wins_nothing() -> None:
    """The slice was created when all published anew, and its annotation cannot be changed."""
    honest, others = record("visby", age=LATER), record("lubeck", age=THEN)
    [created] = published_slices(honest)
    text = encode_record(replace(honest, exported_at=EPOCH - timedelta(seconds=LONG_AGO)))
    annotations = {**created.metadata.annotations, RECORD: text}
    lying = replace(created, metadata=replace(created.metadata, annotations=annotations))
    lying = stored(lying, age=THEN)

    read = read_exports([lying, *published_slices(others)], EPOCH - timedelta(seconds=THEN))

    assert [r.cluster for r in read.records] == ["lubeck", "visby"]


@pytest.mark.parametrize("text", ["", "yesterday", "2020-01-01T00:00:00", "0001-01-01", "9" * 99])
def test_a_time_that_cannot_be_read_proves_nothing(text: str) -> None:
    [created] = published_slices(record("lubeck", age=LONG_AGO))
    annotations = {**created.metadata.annotations, EXPORTED_AT: text}
    changed = replace(created, metadata=replace(created.metadata, annotations=annotations))

    [read] = read_exports([stored(changed, age=THEN)], EPOCH - timedelta(seconds=THEN)).records

    assert read.exported_at == EPOCH - timedelta(seconds=THEN)
