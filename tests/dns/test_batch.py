"""Batches of datagrams: each client gets the responses to its own queries."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import dns.message
import pytest

from hanse.dns.batch import BATCH_SIZE, MAX_DATAGRAM, Batch
from hanse.dns.fast_path import serve_datagrams
from hanse.dns.limits import Limiter
from hanse.dns.table import Table
from tests.dns.builders import WEB, ZoneResolver, cluster_snapshot, endpoint_slice, imported

FAMILIES = {"v4": (socket.AF_INET, "127.0.0.1"), "v6": (socket.AF_INET6, "::1")}


@pytest.fixture(params=FAMILIES)
def ours(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A socket that questions come to."""
    family, host = FAMILIES[request.param]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.bind((host, 0))
        sock.setblocking(False)
        yield sock


@pytest.fixture
def clients(ours: socket.socket) -> Iterator[list[socket.socket]]:
    """Three who ask it."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(socket.socket(ours.family, socket.SOCK_DGRAM)) for _ in range(3)
        ]
        for client in made:
            client.connect(ours.getsockname())
            client.setblocking(False)
        yield made


@pytest.fixture(params=[True, False], ids=["together", "one by one"])
def batch(request: pytest.FixtureRequest, ours: socket.socket) -> Batch:
    """Room for what comes, by one call for many or, as where there is none, by one for each."""
    return Batch(ours.family, mmsg=request.param)


def table_of(address: str) -> Table:
    return ZoneResolver(
        cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", address))
    ).table


def asked(number: int) -> bytes:
    query = dns.message.make_query(WEB, "A")
    query.id = number
    return query.to_wire()


def heard(client: socket.socket) -> list[int]:
    """The ids of the answers that a client has got."""
    ids: list[int] = []
    while True:
        try:
            ids.append(dns.message.from_wire(client.recv(MAX_DATAGRAM)).id)
        except BlockingIOError:
            return ids


def test_every_client_of_a_batch_gets_its_own_answers_and_noise_gets_none(
    ours: socket.socket, clients: list[socket.socket], batch: Batch
) -> None:
    table = table_of("10.2.0.1")
    sent = [asked(1), b"", asked(2), b"\0" * 5, asked(3), asked(4), b"\1"]

    for packet in sent:
        for client in clients:
            client.send(packet)
    serve_datagrams(ours, batch, table)

    assert [heard(client) for client in clients] == [[1, 2, 3, 4]] * 3


def test_what_is_more_than_a_batch_waits_for_the_next(
    ours: socket.socket, clients: list[socket.socket], batch: Batch
) -> None:
    table = table_of("10.2.0.1")

    for number in range(BATCH_SIZE + 3):
        clients[0].send(asked(number))
    serve_datagrams(ours, batch, table)

    assert heard(clients[0]) == list(range(BATCH_SIZE))
    serve_datagrams(ours, batch, table)
    assert heard(clients[0]) == [BATCH_SIZE, BATCH_SIZE + 1, BATCH_SIZE + 2]
    serve_datagrams(ours, batch, table)
    assert heard(clients[0]) == []


def test_a_long_datagram_is_cut_and_the_next_one_is_whole(
    ours: socket.socket, clients: list[socket.socket], batch: Batch
) -> None:
    clients[0].send(b"a" * (MAX_DATAGRAM + 100))
    clients[1].send(b"b" * MAX_DATAGRAM)
    clients[2].send(b"c")

    assert batch.receive(ours.fileno()) == 3
    assert [batch.packet(n) for n in range(3)] == [b"a" * MAX_DATAGRAM, b"b" * MAX_DATAGRAM, b"c"]


def test_clients_are_distinguished_by_their_addresses(
    ours: socket.socket, clients: list[socket.socket], batch: Batch
) -> None:
    for client in clients:
        client.send(b"hello")

    batch.receive(ours.fileno())

    names = [client.getsockname() for client in clients]
    assert [batch.client(n) for n in range(3)] == names
    assert {batch.address(n) for n in range(3)} == {socket.inet_pton(ours.family, names[0][0])}


class _Strict(Limiter):
    """Limits loopback, too, which is where tests ask from."""

    def allows(self, client: bytes) -> bool:
        return super().allows(b"\xc0" + client[1:])


def test_who_asks_too_much_is_held_back_in_the_middle_of_a_batch(
    ours: socket.socket, clients: list[socket.socket], batch: Batch
) -> None:
    table = table_of("10.2.0.1")
    limiter = _Strict(2, lambda: 100.0)

    for number in range(6):
        clients[0].send(asked(number))
    serve_datagrams(ours, batch, table, limiter)

    assert heard(clients[0]) == [0, 1, 3, 5], "every other one is told to come by TCP"
    assert limiter.dropped == 4


def test_an_answer_that_cannot_be_sent_keeps_nobody_from_theirs(
    ours: socket.socket, clients: list[socket.socket], batch: Batch
) -> None:
    for number, client in enumerate(clients):
        client.send(asked(number))
    batch.receive(ours.fileno())
    for (_, _, _, size), taken in zip(batch.slots, (40, 70_000, 40), strict=False):
        batch.sizes[size] = taken  # no datagram is as long as the second

    batch.send(ours.fileno(), 0, len(clients))

    assert clients[0].recv(MAX_DATAGRAM) == asked(0)[:40]
    assert clients[2].recv(MAX_DATAGRAM) == asked(2)[:40]
    with pytest.raises(BlockingIOError):
        clients[1].recv(MAX_DATAGRAM)
