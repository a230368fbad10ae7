"""The reference provider: addresses are given once, confirmed, listed and returned."""

import json
import socket
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from hanse.providers.address_book import AddressBook, InvalidRequest, serving_book
from hanse.providers.network_ipam import AddressProvider

POOL = IPv4Network("10.60.0.0/23")
FAR = {"network": "acme.far", "namespace": "acme-web", "service": "web"}


def ask(book: AddressBook, action: str, **more: Any) -> dict[str, Any]:
    return book.answer({"action": action, **FAR, **more})


def test_each_network_has_a_range_of_its_own_until_none_is_left() -> None:
    book = AddressBook(POOL)

    assert ask(book, "describe") == {"ranges": ["10.60.0.0/24"], "dnsServiceIP": "10.60.0.10"}
    assert ask(book, "describe", network="bolt.far")["ranges"] == ["10.60.1.0/24"]
    with pytest.raises(InvalidRequest, match="no range left"):
        ask(book, "describe", network="third.far")


def test_an_address_is_given_once_and_the_same_to_the_same_request() -> None:
    book = AddressBook(POOL)
    first = ask(book, "allocate", request="r-1")

    assert ask(book, "allocate", request="r-1") == first
    assert ask(book, "allocate", request="r-2") != first
    assert ask(book, "allocate", request="r-3", dry_run=True) == ask(
        book, "allocate", request="r-4"
    )
    with pytest.raises(InvalidRequest, match=r"10\.60\.0\.1 is not free"):
        ask(book, "allocate", request="r-5", address="10.60.0.1")
    assert ask(book, "allocate", request="r-6", address="10.60.0.77") == {"address": "10.60.0.77"}
    given = [ask(book, "allocate", request=f"more-{n}")["address"] for n in range(200)]
    assert "10.60.0.10" not in given
    assert len(set(given)) == len(given)


@pytest.mark.parametrize("wanted", ["10.60.0.16/28", "10.60.0.0", "10.60.0.255", "10.61.0.7", "x"])
def test_what_is_no_address_of_a_host_in_the_network_is_not_given(wanted: str) -> None:
    with pytest.raises(InvalidRequest, match=r"is not free in 10\.60\.0\.0/24"):
        ask(AddressBook(POOL), "allocate", request="r-1", address=wanted)


def test_what_is_not_confirmed_expires_and_what_is_stays_until_its_release() -> None:
    now = 0.0
    book = AddressBook(POOL, clock=lambda: now)
    held = ask(book, "allocate", request="r-1")["address"]
    lost = ask(book, "allocate", request="r-2")["address"]
    ports = [{"name": "", "protocol": "TCP", "port": 80, "target": 8080, "addresses": ["10.1.0.4"]}]
    ask(book, "confirm", address=held, uid="u-1", ports=ports)
    now = 61.0

    assert ask(book, "allocate", request="r-3")["address"] == lost
    entry = {"address": held, "namespace": "acme-web", "service": "web", "uid": "u-1"}
    assert ask(book, "list") == {"addresses": [entry]}
    assert book.networks["acme.far"].addresses[held].ports == ports
    with pytest.raises(InvalidRequest, match="is of acme-web/web"):
        ask(book, "confirm", address=held, uid="u-2")
    ask(book, "release", address=held, uid="u-0")  # of an earlier Service
    assert ask(book, "list") == {"addresses": [entry]}
    ask(book, "release", address=held, uid="u-1")
    assert ask(book, "list") == {"addresses": []}


def test_a_file_keeps_the_book(tmp_path: Path) -> None:
    file = tmp_path / "book.json"
    given = ask(AddressBook(POOL, file), "allocate", request="r-1")

    assert ask(AddressBook(POOL, file), "allocate", request="r-1") == given
    assert list(json.loads(file.read_text())) == ["acme.far"]


@pytest.mark.anyio
async def test_over_http_answers_and_errors_arrive() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    async with serving_book(listener, AddressBook(POOL)) as url:
        provider = AddressProvider(url)

        assert (await provider(action="describe", **FAR))["dnsServiceIP"] == "10.60.0.10"
        with pytest.raises(OSError, match="answered 409: action: it is one of"):
            await provider(action="steal", **FAR)
