"""Properties of the compiler, of rotation, and of a server that gets arbitrary packets."""

import gc
import os
import random
import socket
from collections import Counter
from collections.abc import Iterator
from random import Random

import dns.message
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.dns.batch import Batch
from hanse.dns.compiler import Compiler
from hanse.dns.fast_path import serve_datagrams
from hanse.dns.messages import Delta
from hanse.dns.questions import MalformedMessage, parse_question
from hanse.dns.responder import respond
from hanse.dns.selection import MAX_CYCLE, weighted_order
from hanse.dns.table import Table
from hanse.dns.transfers import respond_by_stream
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.names import InvalidName, child_name, name_text, parent_name, wire_name
from hanse.model.dns.zones import View
from hanse.model.facts import Phase
from hanse.model.objects import Object
from hanse.model.snapshot import ObjectChange
from tests.dns.builders import (
    WEB,
    ZONE,
    ZoneResolver,
    cluster_snapshot,
    endpoint_slice,
    imported,
    pod,
    rules,
)
from tests.support.zones import compiled

FUZZED = int(os.environ.get("HANSE_FUZZED_PACKETS", "5000"))
"""Packets sent at parser and server each; a long run takes a million."""

SEED = int(os.environ.get("HANSE_FUZZ_SEED", "7"))
BASES = [
    dns.message.make_query(WEB, rtype, use_edns=edns).to_wire()
    for rtype in ("A", "SRV", "TXT", "ANY")
    for edns in (False, 0)
]

SERVICES, CLUSTERS = ("web", "db"), ("bergen", "lubeck")


@st.composite
def _fleet(draw: st.DrawFn) -> tuple[Object, ...]:
    objects: list[Object] = []
    for service in SERVICES:
        if draw(st.booleans()):
            headless = draw(st.booleans())
            kind = imported(service, type_="Headless" if headless else "ClusterSetIP")
            objects.append(kind)
        for number, cluster in enumerate(CLUSTERS):
            match draw(st.sampled_from(("none", "empty", "ready", "down", "two"))):
                case "empty":
                    objects.append(endpoint_slice(cluster, service=service))
                case "ready":
                    objects.append(
                        endpoint_slice(cluster, f"10.{number}.0.1", service=service, weight=2)
                    )
                case "down":
                    down = pod(f"10.{number}.0.1", ready=False)
                    objects.append(endpoint_slice(cluster, down, service=service))
                case "two":
                    pods = (pod(f"10.{number}.0.2", hostname="a"), pod(f"10.{number}.0.3"))
                    objects.append(
                        endpoint_slice(cluster, *pods, service=service, ports=[("x", 1)])
                    )
    return tuple(objects)


@given(st.lists(_fleet(), min_size=1, max_size=5), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_compiling_step_by_step_gives_what_compiling_from_scratch_gives(
    fleets: list[tuple[Object, ...]], most: int
) -> None:
    view = View("test", local="lubeck")
    compiler, table = Compiler(view, [ServiceZone(view)]), Table("test", Random(1))
    table.apply(compiler.full_delta())
    before: tuple[Object, ...] = ()
    compiler.enqueue_all(cluster_snapshot("lubeck"))
    for objects in fleets:
        observed = cluster_snapshot("lubeck", *objects)
        for change in _changes(before, objects):
            compiler.on_change(change, observed)
        while compiler.due:
            table.apply(compiler.compile(observed, most))
        before = objects

    fresh = compiled(view, [ServiceZone(view)], observed)

    assert _content(compiler.full_delta()) == _content(fresh)
    scratch = Table("test", Random(1))
    scratch.apply(fresh)
    assert table.names == scratch.names
    assert table.answers.keys() == scratch.answers.keys()
    assert len(compiler) == len(fresh.nodes)


def _changes(before: tuple[Object, ...], after: tuple[Object, ...]) -> Iterator[ObjectChange]:
    old = {(type(o), o.name): o for o in before}
    new = {(type(o), o.name): o for o in after}
    for name in old.keys() | new.keys():
        if old.get(name) != new.get(name):
            yield ObjectChange("lubeck", old.get(name), new.get(name))


def _content(delta: Delta) -> dict[bytes, object]:
    return {named.name: named.rrsets for named in delta.nodes}


def test_a_change_recompiles_only_what_it_concerns() -> None:
    view = View("test")
    many = [imported(f"s{n}") for n in range(100)]
    pieces = [endpoint_slice("bergen", f"10.0.0.{n}", service=f"s{n}") for n in range(100)]
    compiler = Compiler(view, [ServiceZone(view)])
    observed = cluster_snapshot("lubeck", *many, *pieces)
    compiler.enqueue_all(observed)
    compiler.compile(observed)

    after = endpoint_slice("bergen", "10.9.9.9", service="s7")
    observed = cluster_snapshot("lubeck", *many, *pieces[:7], after, *pieces[8:])
    compiler.on_change(ObjectChange("lubeck", pieces[7], after), observed)
    delta = compiler.compile(observed)

    names = {name_text(named.name) for named in delta.nodes}
    assert names == {f"s7.shop.svc.{ZONE}.", f"bergen.s7.shop.svc.{ZONE}."}
    assert not delta.removed


def test_a_change_that_changes_no_answer_notifies_nobody() -> None:
    view = View("test")
    objects = (imported(), endpoint_slice("bergen", "10.2.0.1"))
    compiler, observed = Compiler(view, [ServiceZone(view)]), cluster_snapshot("lubeck", *objects)
    compiler.enqueue_all(observed)
    serial = compiler.compile(observed).serial

    compiler.enqueue_all(observed)
    delta = compiler.compile(observed)

    assert (delta.nodes, delta.removed, delta.serial) == ((), (), serial)


def test_names_stand_until_a_new_reader_has_listed_what_they_are_of() -> None:
    """An agent that restarts has read nothing yet, or half of it."""
    view, gone = (
        View("test"),
        (imported("old"), endpoint_slice("bergen", "10.2.0.9", service="old")),
    )
    kept = (imported(), endpoint_slice("bergen", "10.2.0.1"))
    compiler, observed = (
        Compiler(view, [ServiceZone(view)]),
        cluster_snapshot("lubeck", *kept, *gone),
    )
    compiler.start_reading(observed)
    before = _content(compiler.compile(observed))

    half_read = cluster_snapshot("lubeck", kept[0], phase=Phase.CONNECTING)
    compiler.start_reading(half_read)
    compiler.on_change(ObjectChange("lubeck", None, kept[0]), half_read)

    assert not compiler.due
    assert _content(compiler.full_delta()) == before

    read = cluster_snapshot("lubeck", *kept)
    compiler.on_change(ObjectChange("lubeck", None, kept[1]), read)
    delta = compiler.compile(read)

    assert not delta.nodes
    assert delta.removed
    assert all(b"\x03old" in name for name in delta.removed)


def test_a_change_of_the_fleets_rules_is_taken_in() -> None:
    view = View("test")
    objects = (
        imported(),
        endpoint_slice("bergen", "10.2.0.1"),
        endpoint_slice("lubeck", "10.0.0.1"),
    )
    compiler, table = Compiler(view, [ServiceZone(view)]), Table("test", Random(1))
    table.apply(compiler.full_delta())
    observed = cluster_snapshot("lubeck", *objects)
    compiler.enqueue_all(observed)
    table.apply(compiler.compile(observed))

    after = rules(bergen=0)
    observed = cluster_snapshot("lubeck", *objects, fleet=after)
    compiler.on_change(ObjectChange("broker", None, after), observed)
    table.apply(compiler.compile(observed))

    query = dns.message.make_query(WEB, "A").to_wire()
    answers = {respond(query, table, stream=True) for _ in range(4)}
    assert len(answers) == 1


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_weights_are_met_within_two_percent(weights: list[int]) -> None:
    order = weighted_order(tuple(weights))

    given_out = Counter(order[n % len(order)] for n in range(10_000))

    assert len(order) <= MAX_CYCLE + len(weights)
    for index, weight in enumerate(weights):
        assert abs(given_out[index] / 10_000 - weight / sum(weights)) < 0.02


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=5))
def test_weights_below_zero_count_as_zero_and_somebody_always_has_a_turn(
    weights: list[int],
) -> None:
    order = weighted_order(tuple(weights))

    assert order == weighted_order(tuple(max(weight, 0) for weight in weights))
    assert order


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_turns_are_spread_smoothly(weights: list[int]) -> None:
    order = weighted_order(tuple(weights)) * 2
    reduced = weighted_order(tuple(weights))

    for index in range(len(weights)):
        share = reduced.count(index) / len(reduced)
        observed = 0
        for n, one in enumerate(order, start=1):
            observed += one == index
            assert abs(observed - n * share) <= len(weights), "never far ahead, never far behind"


@given(st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    try:
        question = parse_question(b"\0" * 12 + noise)
    except MalformedMessage:
        return
    assert question.text == noise[: len(question.text)]


@given(st.lists(st.from_regex(r"[a-z0-9_-]{1,20}", fullmatch=True), min_size=1, max_size=6))
def test_names_survive_a_round_trip(labels: list[str]) -> None:
    text = ".".join(labels)

    name = wire_name(text)

    assert name_text(name) == text + "."
    assert child_name(labels[0], parent_name(name)) == name


@pytest.mark.parametrize("bad", ["a..b", "x" * 64, "ü.de", ".".join(["a" * 60] * 5)], ids=repr)
def test_a_text_that_is_no_name_is_refused(bad: str) -> None:
    with pytest.raises(InvalidName):
        wire_name(bad)


def _noise(random_: random.Random) -> bytes:
    """A packet that is random, or nearly a question."""
    base = bytearray(random_.choice(BASES))
    match random_.randrange(5):
        case 0:
            return random_.randbytes(random_.randrange(0, 600))
        case 1:
            for _ in range(random_.randrange(1, 6)):
                base[random_.randrange(len(base))] = random_.randrange(256)
        case 2:
            del base[random_.randrange(len(base)) :]
        case 3:
            at = random_.randrange(len(base))
            base[at:at] = random_.randbytes(random_.randrange(1, 40))
        case _:
            base[12] = 0xC0
            base[13] = random_.randrange(256)
    return bytes(base)


def test_whatever_is_sent_the_table_answers_well_formed_or_not_at_all() -> None:
    random_ = Random(SEED)
    table = ZoneResolver(
        cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))
    ).table
    for _ in range(FUZZED):
        packet = _noise(random_)
        answer = respond(packet, table, stream=False)
        if answer is not None:
            assert answer[:2] == packet[:2]
            assert answer[2] & 0x80
            assert len(answer) <= 1232
            dns.message.from_wire(answer, ignore_trailing=False)


def test_the_hot_path_and_the_careful_path_agree_about_everything() -> None:
    random_, batch = Random(SEED + 1), Batch(socket.AF_INET)
    table = ZoneResolver(
        cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))
    ).table
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as theirs,
    ):
        ours.bind(("127.0.0.1", 0))
        theirs.connect(ours.getsockname())
        ours.setblocking(False)
        theirs.setblocking(False)
        for number in range(0, FUZZED, 3):
            packets = [_noise(random_) for _ in range(1 + number % 5)]
            for packet in packets:
                theirs.send(packet)
            serve_datagrams(ours, batch, table)  # on loopback what is sent is there
            expected = [respond(packet, table, stream=False) for packet in packets]
            for answer in expected:
                if answer is not None:
                    assert theirs.recv(65535) == answer, packets
            with pytest.raises(BlockingIOError):
                theirs.recv(65535)


def test_answering_leaves_nothing_for_a_garbage_collector_to_find() -> None:
    random_ = Random(SEED + 2)
    table = ZoneResolver(
        cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))
    ).table
    packets = [_noise(random_) for _ in range(500)]
    gc.collect()
    gc.disable()
    try:
        for packet in packets:
            respond(packet, table, stream=False)
            respond_by_stream(packet, table, "192.0.2.1")
        found = gc.collect()
    finally:
        gc.enable()

    assert found == 0, "workers collect no garbage"


def test_an_answer_that_is_remembered_is_forgotten_when_anything_changes() -> None:
    view = View("test")
    compiler, table = Compiler(view, [ServiceZone(view)]), Table("test", Random(1))
    query = dns.message.make_query(WEB, "A").to_wire()
    answer: list[bytes] = []
    batch = Batch(socket.AF_INET)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as theirs,
    ):
        ours.bind(("127.0.0.1", 0))
        theirs.connect(ours.getsockname())
        ours.setblocking(False)
        theirs.settimeout(20)
        for address in ("10.2.0.1", "10.2.0.2"):
            observed = cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", address))
            compiler.enqueue_all(observed)
            table.apply(compiler.compile(observed))
            for _ in range(2):
                theirs.send(query)
                serve_datagrams(ours, batch, table)
                answer.append(theirs.recv(512)[-4:])

    assert answer == [b"\x0a\2\0\1"] * 2 + [b"\x0a\2\0\2"] * 2
