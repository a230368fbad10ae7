"""Any value of any of our structs, for laws that hold for all of them."""

import types
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import Struct
from msgspec.structs import fields

_TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
_SCALARS: dict[Any, SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(min_value=-(2**31), max_value=2**31),
    str: _TEXT,
    bytes: st.binary(max_size=6),
    datetime: st.integers(1_500_000_000, 1_900_000_000).map(
        lambda second: datetime.fromtimestamp(second, UTC)
    ),
    types.NoneType: st.none(),
    Any: st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | _TEXT,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
        max_leaves=3,
    ),
}


def values_of(type_: Any) -> SearchStrategy[Any]:
    """Values of a field's type, whatever its annotations ask for: the decoder reads them all."""
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if isinstance(type_, type) and issubclass(type_, Struct):
        return structs_of(type_)
    args = get_args(type_)
    origin = get_origin(type_)
    if origin is Annotated:
        return values_of(args[0])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(_TEXT, values_of(args[1]), max_size=2)
    assert origin in (Union, types.UnionType), f"no values of {type_}"
    return st.one_of(*(values_of(arg) for arg in args))


@cache
def structs_of(struct: type[Struct]) -> SearchStrategy[Any]:
    """Values of a struct, each field that has a default being there or not."""
    required = {f.name: values_of(f.type) for f in fields(struct) if f.required}
    optional = {f.name: values_of(f.type) for f in fields(struct) if not f.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda known: struct(**known))
