"""Parsers of what people and peers write end soon, and with a sentence, whatever it is."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import hanse.cli
import hanse.features
import hanse.model
from hanse.model.json_input import CUT, MAX_DEPTH, cut_off_deep, decode_json
from hanse.model.yaml_input import MAX_ALIASED, MAX_BYTES, OversizedInput, check_yaml, load_yaml

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=30,
)
YAML_TEXT = st.text(alphabet="ab01x&*[]{}<>:,-# \n'\"!|?", max_size=60)


def bomb(levels: int = 9, width: int = 9) -> str:
    """A billion laughs: a few hundred bytes that stand for `width ** levels` values."""
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels + 1)]
    return "\n".join(["a0: &a0 [x]", *lines, ""])


def depth_of(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, children), default=0) if isinstance(value, dict | list) else 0


def size_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + size_of(v) for v in value.values())
    return 1 + sum(map(size_of, value)) if isinstance(value, list) else 1


def test_a_few_bytes_that_stand_for_millions_of_values_are_refused_at_their_line() -> None:
    text = bomb()
    assert len(text) < 1000

    with pytest.raises(OversizedInput, match="aliases add more than 10000 values") as caught:
        load_yaml(text)

    assert caught.value.problem_mark is not None
    assert caught.value.problem_mark.line == 4


@pytest.mark.parametrize("text", ["2001-14-01", "0x_", "? [a]\n: b", "!!python/object:x {}", "\0"])
def test_what_no_loader_takes_is_a_yaml_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)


def test_merge_keys_are_counted_as_aliases() -> None:
    lines = ["m0: &m0 {k: v}"]
    lines += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}" for n in range(1, 9)]

    with pytest.raises(OversizedInput):
        load_yaml("\n".join(lines))


def test_aliases_as_people_write_them_are_expanded() -> None:
    assert load_yaml("a: &x {b: [1, 2]}\nc: *x\nd: {<<: *x, e: 3}\n") == {
        "a": {"b": [1, 2]},
        "c": {"b": [1, 2]},
        "d": {"b": [1, 2], "e": 3},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("[" * 50_000, "nests deeper than 100 levels", id="50,000 lists"),
        pytest.param("{a: " * 50_000, "nests deeper than 100 levels", id="50,000 mappings"),
        pytest.param("- " * 50_000 + "x", "nests deeper than 100 levels", id="50,000 dashes"),
        pytest.param("a: &a [*a]", "alias \\*a stands inside itself", id="itself"),
        pytest.param("#" * (MAX_BYTES + 1), "larger than 3072 KiB", id="large"),
        pytest.param(
            "a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 60 + "*a" + "]" * 60,
            "nests deeper than 100 levels",
            id="deep by an alias",
        ),
    ],
)
def test_yaml_beyond_a_bound_is_refused(text: str, why: str) -> None:
    with pytest.raises(OversizedInput, match=why):
        load_yaml(text)


@given(YAML_TEXT)
@settings(max_examples=300)
def test_any_text_is_a_bounded_value_or_a_yaml_error(text: str) -> None:
    try:
        value = load_yaml(text)
    except yaml.YAMLError:
        return
    assert depth_of(value) <= MAX_DEPTH
    assert size_of(value) <= 3 * len(text) + 2 * MAX_ALIASED


@given(JSON_VALUES)
def test_plain_values_are_read_as_yaml_reads_them(value: Any) -> None:
    text = yaml.safe_dump(value)

    check_yaml(text)
    assert load_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("depth", [2_000, 50_000])
@pytest.mark.parametrize("type_", [Any, dict[str, Any], dict[str, str]])
def test_deep_json_is_an_error_of_decoding(depth: int, type_: Any) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json(b'{"a":' * depth + b"1" + b"}" * depth, type=type_)


@given(JSON_VALUES, st.integers(1, 5))
def test_what_is_cut_off_is_what_is_deeper_and_nothing_else(value: Any, depth: int) -> None:
    cut = json.loads(cut_off_deep(json.dumps(value).encode(), depth))

    assert cut == shallow(value, depth)


def shallow(value: Any, depth: int) -> Any:
    if isinstance(value, dict | list) and depth == 0:
        return json.loads(CUT)
    if isinstance(value, dict):
        return {name: shallow(inner, depth - 1) for name, inner in value.items()}
    return [shallow(inner, depth - 1) for inner in value] if isinstance(value, list) else value


@given(st.binary(max_size=200), st.integers(1, 5))
def test_cutting_off_takes_any_bytes(body: bytes, depth: int) -> None:
    cut_off_deep(body, depth)


def test_what_decides_or_reads_answers_decodes_json_within_the_bound_alone() -> None:
    """A decoder of its own raises RecursionError for a peer's field that nests deeply."""
    packages = (Path(str(one.__file__)).parent for one in (hanse.model, hanse.features, hanse.cli))
    own = [
        file.name
        for package in packages
        for file in package.rglob("*.py")
        if re.search(r"json\.(Decoder|decode|loads?)\(", file.read_text())
    ]

    assert own == ["json_input.py"]
