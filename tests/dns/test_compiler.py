"""The compiler: what one key does to the names of others."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from hanse.dns.compiler import Compiler
from hanse.model.dns.names import wire_name
from hanse.model.dns.records import ZoneNode
from hanse.model.dns.zones import View
from hanse.model.kinds.core import Service
from hanse.model.objects import Meta
from hanse.model.plan import Key
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch
from tests.dns.builders import cluster_snapshot

SNAPSHOT = cluster_snapshot("lubeck")
WEB, BAD = Key("name", "web"), Key("name", "bad")


class Source:
    """Names below example.org, some of which cannot be built."""

    name = "names"
    view = View("any")
    watches: tuple[Watch, ...] = ()
    zones: tuple[bytes, ...] = (wire_name("example.org"),)

    def __init__(self) -> None:
        self.failing: set[Key] = set()

    def synced(self, snapshot: Snapshot) -> bool:
        return True

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        yield from (BAD, WEB)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        raise OverflowError("an object as nobody expects it")

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        def build(key: Key) -> Sequence[ZoneNode]:
            if key in self.failing:
                raise OverflowError("int too big to convert")
            return (ZoneNode(wire_name(f"{key.name}.example.org")),)

        return build


def test_a_key_that_fails_costs_its_own_names_alone_and_keeps_those_that_it_had() -> None:
    source = Source()
    compiler = Compiler(View("any"), (source,))
    source.failing = {BAD}

    compiler.enqueue_all(SNAPSHOT)
    first = compiler.compile(SNAPSHOT)
    failures = compiler.take_failures()
    source.failing = {WEB}
    compiler.enqueue_all(SNAPSHOT)
    second = compiler.compile(SNAPSHOT)

    assert wire_name("web.example.org") in {node.name for node in first.nodes}
    assert [(key, str(error)) for key, error in failures] == [(BAD, "int too big to convert")]
    assert [node.name for node in second.nodes] == [wire_name("bad.example.org")]
    assert second.removed == ()


def test_a_change_that_a_source_cannot_map_to_keys_is_reported() -> None:
    compiler = Compiler(View("any"), (Source(),))

    compiler.on_change(ObjectChange("lubeck", None, Service(metadata=Meta(name="web"))), SNAPSHOT)

    assert compiler.due, "or nobody would take the failure"
    assert [str(error) for _, error in compiler.take_failures()] == [
        "an object as nobody expects it"
    ]
    assert compiler.keeps
    compiler.enqueue_kept(SNAPSHOT)
    built = compiler.compile(SNAPSHOT)
    assert {wire_name(f"{key.name}.example.org") for key in (WEB, BAD)} <= {
        node.name for node in built.nodes
    }


def test_a_key_that_fails_is_tried_again_and_reported_once() -> None:
    source = Source()
    compiler = Compiler(View("any"), (source,))
    source.failing = {WEB}
    compiler.enqueue_all(SNAPSHOT)
    compiler.compile(SNAPSHOT)
    compiler.take_failures()

    compiler.enqueue_kept(SNAPSHOT)
    compiler.compile(SNAPSHOT)
    again = compiler.take_failures()
    source.failing = set()
    compiler.enqueue_kept(SNAPSHOT)
    mended = compiler.compile(SNAPSHOT)

    assert again == []
    assert [node.name for node in mended.nodes] == [wire_name("web.example.org")]
    assert not compiler.keeps


class BrokenSource(Source):
    """A source that can do nothing."""

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        raise OverflowError("keys")

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        raise OverflowError("records")


def test_a_source_that_can_do_nothing_ends_no_other() -> None:
    broken, source = BrokenSource(), Source()
    compiler = Compiler(View("any"), (broken, source))

    compiler.enqueue_all(SNAPSHOT)
    compiler.enqueue(0, WEB)
    built = compiler.compile(SNAPSHOT)

    assert wire_name("web.example.org") in {node.name for node in built.nodes}
    assert {str(error) for _, error in compiler.take_failures()} == {"keys", "records"}
