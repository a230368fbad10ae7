"""Ports that are free, and the names of those who hold the others."""

import asyncio
import os
import socket
from contextlib import closing
from datetime import timedelta

import pytest

from hanse.local.real.errors import PortInUse
from hanse.local.real.ports import (
    BELOW_EPHEMERAL,
    PortReservations,
    find_port_owner,
    is_port_free,
    wait_until_free,
)
from tests.support.ports import free_ports


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_free_ports_differ_and_stay_clear_of_outgoing_connections() -> None:
    ports = free_ports(50)

    assert len(set(ports)) == 50
    assert all(port in BELOW_EPHEMERAL and is_port_free(port) for port in ports)


def test_a_reserved_port_is_not_reserved_again_until_it_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(PortReservations()) as mine, closing(PortReservations()) as others:
        [port] = mine.reserve(1)
        monkeypatch.setattr("hanse.local.real.ports.BELOW_EPHEMERAL", range(port, port + 1))

        assert others.reserve(1) == free_ports(1) == []
        mine.close()
        assert others.reserve(1) == [port]


def test_a_port_in_use_is_not_kept_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PortReservations()) as mine, closing(PortReservations()) as others:
        with listener() as used:
            port = used.getsockname()[1]
            monkeypatch.setattr("hanse.local.real.ports.BELOW_EPHEMERAL", range(port, port + 1))
            assert mine.reserve(1) == []

        assert others.reserve(1) == [port]


def test_the_owner_of_a_port_is_found() -> None:
    with listener() as held:
        holder = find_port_owner(held.getsockname()[1])

    assert holder is not None
    assert holder.pid == os.getpid()
    assert holder.program


def test_a_free_port_has_no_owner() -> None:
    assert find_port_owner(free_ports(1)[0]) is None


async def test_a_port_that_stays_in_use_is_an_error_that_names_its_owner() -> None:
    with listener() as held, pytest.raises(PortInUse, match=f"held by process {os.getpid()} "):
        await wait_until_free(held.getsockname()[1], within=timedelta(0))


async def test_a_port_that_becomes_free_is_waited_for() -> None:
    held = listener()
    asyncio.get_running_loop().call_later(0.05, held.close)

    await wait_until_free(held.getsockname()[1], within=timedelta(seconds=10))

    assert held.fileno() == -1
