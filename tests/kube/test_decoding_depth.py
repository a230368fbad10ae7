"""An object that nests too deeply hides no other, and is named."""

import pytest

from hanse.kube.decoding import decode_list_page, decode_object, decode_watch_event
from hanse.kube.errors import UndecodableObject
from hanse.kube.watch_events import DeletedUnreadable, Unreadable
from hanse.model.kinds.core import Service

META = b'"metadata":{"name":"deep","namespace":"shop","resourceVersion":"7"}'


def deep_object(levels: int, *, first: bytes = META) -> bytes:
    spec = b'"spec":{"unknown":' + b'{"a":' * levels + b'"]}{["' + b"}" * (levels + 1)
    return b"{" + first + b"," + spec + b"}"


@pytest.mark.parametrize("levels", [990, 2_000, 50_000])
def test_a_deep_object_in_a_list_hides_no_other(levels: int) -> None:
    good = b'{"metadata":{"name":"good","namespace":"shop"}}'
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%s,%s]}' % (deep_object(levels), good)

    page = decode_list_page(body, Service)

    assert [obj.name for obj in page.objects] == ["good"]
    assert [(one.namespace, one.name) for one in page.unreadable] == [("shop", "deep")]
    assert page.unreadable[0].reason == "it nests deeper than 100 levels"
    assert page.metadata.resource_version == "9"


@pytest.mark.parametrize("levels", [990, 50_000])
def test_a_deep_object_behind_one_that_is_wrong_hides_no_other(levels: int) -> None:
    wrong = b'{"metadata":{"name":"wrong"},"spec":{"ports":7}}'
    good = b'{"metadata":{"name":"good"}}'
    body = b'{"metadata":{},"items":[%s,%s,%s]}' % (wrong, deep_object(levels), good)

    page = decode_list_page(body, Service)

    assert [obj.name for obj in page.objects] == ["good"]
    assert [one.name for one in page.unreadable] == ["wrong", "deep"]


@pytest.mark.parametrize("levels", [990, 50_000])
def test_a_watch_goes_on_after_a_deep_object(levels: int) -> None:
    body = deep_object(levels)

    changed = decode_watch_event(b'{"type":"MODIFIED","object":%s}' % body, Service)
    deleted = decode_watch_event(b'{"type":"DELETED","object":%s}' % body, Service)

    assert changed == Unreadable("shop", "deep", "it nests deeper than 100 levels", "7")
    assert deleted == DeletedUnreadable("shop", "deep", "7")


def test_a_deep_object_alone_is_undecodable() -> None:
    with pytest.raises(UndecodableObject, match="nests deeper"):
        decode_object(deep_object(50_000), Service)
