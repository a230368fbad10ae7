"""Cached responses: a change forgets those that it concerns, and no others."""

from random import Random

import dns.message
import pytest

from hanse.dns import table
from hanse.dns.compiler import Compiler
from hanse.dns.fast_path import prepared_response
from hanse.dns.table import Table
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.zones import View
from hanse.model.snapshot import Snapshot
from tests.dns.builders import (
    WEB,
    DnsAnswer,
    cluster_snapshot,
    endpoint_slice,
    imported,
    parse_answer,
)

DB = WEB.replace("web", "db")
VIEW = View("test")


def seen(web: str) -> Snapshot:
    """Two services, of which one has this address."""
    slices = (endpoint_slice("bergen", web), endpoint_slice("bergen", "10.2.0.2", service="db"))
    return cluster_snapshot("lubeck", imported(), imported("db"), *slices)


class Cached:
    """A table that is asked by its cache first, as workers do."""

    def __init__(self) -> None:
        self.compiler = Compiler(VIEW, [ServiceZone(VIEW)])
        self.table = Table("test", Random(1))
        self.change("10.2.0.1")

    def change(self, web: str) -> None:
        self.compiler.enqueue_all(seen(web))
        self.table.apply(self.compiler.compile(seen(web)))

    def is_cached(self, name: str, rtype: str = "A") -> bool:
        return _packet(name, rtype)[2:] in self.table.response_cache

    def ask(self, name: str, rtype: str = "A") -> DnsAnswer:
        packet = _packet(name, rtype)
        found = self.table.response_cache.get(packet[2:])
        prepared = prepared_response(packet, self.table)
        answer = next(found[0]) if found is not None else prepared
        assert answer is not None
        return parse_answer(dns.message.from_wire(packet[:2] + answer))


def _packet(name: str, rtype: str) -> bytes:
    query = dns.message.make_query(name, rtype, id=7)
    return query.to_wire()


@pytest.mark.parametrize("name", [WEB, WEB.upper()])
def test_what_changed_is_answered_anew_however_it_is_written(name: str) -> None:
    cached = Cached()
    cached.ask(name)
    assert cached.is_cached(name)

    cached.change("10.2.0.9")

    assert cached.ask(name).records == ("10.2.0.9",)


def test_a_change_of_another_name_forgets_nothing() -> None:
    cached = Cached()
    cached.ask(DB)

    cached.change("10.2.0.9")

    assert cached.is_cached(DB)
    assert cached.ask(DB).records == ("10.2.0.2",)


def test_an_empty_answer_has_the_serial_of_the_last_change() -> None:
    cached = Cached()
    before = cached.ask(DB, "AAAA").message
    cached.change("10.2.0.9")
    after = cached.ask(DB, "AAAA").message

    assert before is not None
    assert after is not None
    assert after.authority[0][0].serial > before.authority[0][0].serial


def test_the_serial_itself_is_answered_anew() -> None:
    cached = Cached()
    before = cached.ask("clusterset.local", "SOA").records
    cached.change("10.2.0.9")

    assert cached.ask("clusterset.local", "SOA").records != before


def test_a_full_cache_keeps_what_it_has_for_a_while_and_then_starts_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "MIN_CACHE_SIZE", 1)
    monkeypatch.setattr(table, "CACHED_SHARE", 0)
    monkeypatch.setattr(table, "PASSED_SHARE", 3)
    cached = Cached()
    cached.ask(WEB)

    for _ in range(2):
        cached.ask(DB)
        assert cached.is_cached(WEB), "it is kept for others"
        assert not cached.is_cached(DB)
    assert cached.ask(DB).records == ("10.2.0.2",)

    assert cached.is_cached(DB)
    assert not cached.is_cached(WEB)


def test_a_table_of_many_names_caches_more_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MIN_CACHE_SIZE", 1)
    cached = Cached()
    assert len(cached.table.names) >= 6

    for name in (WEB, DB):
        cached.ask(name)

    assert cached.is_cached(WEB)
    assert cached.is_cached(DB)
