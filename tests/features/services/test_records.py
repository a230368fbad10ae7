"""Records: what is written is read again, and what is bad harms nobody."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.services.merge import merge_exports
from hanse.features.services.names import PRIORITY, RECORD, SOURCE_CLUSTER, TO_CLUSTERS, WEIGHT
from hanse.features.services.records import (
    SCHEMA,
    ExportRecord,
    build_record,
    decode_record,
    encode_record,
    read_exports,
)
from hanse.model.kinds.discovery import EndpointSlice
from tests.features.services.builders import PROFILES, export, on_broker, port, record, service

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def saying(text: str, like: ExportRecord | None = None) -> EndpointSlice:
    """A slice on the broker whose record is any text."""
    endpoint_slice = on_broker(like or record("lubeck"))[0]
    return replace(
        endpoint_slice, metadata=replace(endpoint_slice.metadata, annotations={RECORD: text})
    )


def saying_otherwise(**fields: Any) -> EndpointSlice:
    """A slice on the broker with a record that differs from a good one in some fields."""
    said = {**msgspec.to_builtins(record("lubeck")), **fields}
    return saying(msgspec.json.encode(said).decode())


def test_what_an_export_says_is_read_as_it_was_said() -> None:
    marks = {TO_CLUSTERS: "visby, bergen", WEIGHT: "3", PRIORITY: "20"}
    said = build_record(export(marks=marks, exported_labels={"tier": "gold"}), service(), "lubeck")

    [endpoint_slice] = on_broker(said)

    assert decode_record(endpoint_slice) == said
    assert (said.to, said.weight, said.priority) == (("bergen", "visby"), 3, 20)
    assert said.exported_labels == {"tier": "gold"}


def test_one_record_counts_for_each_cluster_whatever_the_order() -> None:
    one, other = record("lubeck", port(80)), record("lubeck", port(81))
    slices = [
        replace(p, metadata=replace(p.metadata, name=name))
        for name, r in (("a", one), ("b", other))
        for p in on_broker(r)
    ]

    assert read_exports(slices).records == read_exports(slices[::-1]).records == (one,)


def test_an_unstated_schema_is_the_first() -> None:
    said = msgspec.json.decode(encode_record(record("lubeck")))
    said.pop("schema", None)

    assert decode_record(saying(msgspec.json.encode(said).decode())) == record("lubeck")


def test_a_record_of_a_later_version_is_known_to_be_one_and_not_read() -> None:
    told = read_exports(
        [saying_otherwise(schema=SCHEMA + 1, type="Anycast"), *on_broker(record("riga"))]
    )

    assert told.newer == {"lubeck"}
    assert [r.cluster for r in told.records] == ["riga"]


BAD = {
    "no JSON": saying("{"),
    "another shape": saying("[1]"),
    "a time without a zone": saying_otherwise(exportedAt="2026-01-01T00:00:00"),
    "no time": saying_otherwise(exportedAt="yesterday"),
    "an unknown type": saying_otherwise(type="ExternalName"),
    "a port out of range": saying_otherwise(ports=[{"port": 70000}]),
    "no port": saying_otherwise(ports=[]),
    "one name twice": saying_otherwise(ports=[{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]),
    "one port twice": saying_otherwise(ports=[{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]),
    "too many ports": saying_otherwise(ports=[{"port": n, "name": f"p{n}"} for n in range(1, 102)]),
    "a long name": saying_otherwise(ports=[{"port": 1, "name": "a" * 64}]),
    "a bad label": saying_otherwise(exportedLabels={"tier": "not a label"}),
    "a label of ours": saying_otherwise(exportedLabels={"hanse.dev/owner": "me"}),
    "an older agent's label": saying_otherwise(
        exportedLabels={"lighthouse.submariner.io/sourceCluster": "bergen"}
    ),
    "huge annotations": saying_otherwise(exportedAnnotations={"note": "x" * 200_000}),
    "a bad timeout": saying_otherwise(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}}),
    "a bad weight": saying_otherwise(weight=-1),
    "another cluster's name": saying_otherwise(cluster="bergen"),
    "another service's name": saying_otherwise(name="bank"),
    "another namespace": saying_otherwise(namespace="bank"),
}


@pytest.mark.parametrize("endpoint_slice", BAD.values(), ids=list(BAD))
def test_a_bad_record_is_no_record_and_others_are_imported(endpoint_slice: EndpointSlice) -> None:
    told = read_exports([endpoint_slice, *on_broker(record("visby"))])

    assert [r.cluster for r in told.records] == ["visby"]
    assert told.newer == frozenset()


def test_a_cluster_with_a_name_that_no_import_takes_is_left_out() -> None:
    endpoint_slice = on_broker(record("Under_Score"))[0]
    assert endpoint_slice.metadata.labels[SOURCE_CLUSTER] == "Under_Score"

    assert read_exports([endpoint_slice]).records == ()


@settings(deadline=None, max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from([f.encode_name for f in msgspec.structs.fields(ExportRecord)]),
        json_values,
        max_size=3,
    )
)
def test_whatever_a_record_says_reading_and_merging_it_does_not_fail(said: dict[str, Any]) -> None:
    told = read_exports([saying_otherwise(**said), *on_broker(record("visby"))])

    assert "visby" in {r.cluster for r in told.records}
    for profile in PROFILES:
        assert merge_exports(told.records, profile) is not None


@pytest.mark.parametrize("text", ["", "-1", "1001", "3.5", "three", "٣", "9" * 5000])
def test_a_weight_that_is_none_is_ignored(text: str) -> None:
    assert build_record(export(marks={WEIGHT: text}), service(), "lubeck").weight is None
