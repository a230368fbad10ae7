"""Whether packets on bridges pass rules, and errors of nftables as one line."""

import socket
from pathlib import Path

import pytest

from hanse.features.networks.guard.transaction import ElementChange
from hanse.providers import nftables
from hanse.providers.nftables import Nftables, NftablesError, bridge_bypass


def machine(root: Path, **settings: str) -> Path:
    """A machine with a bridge and these settings of br_netfilter."""
    (root / "sys/class/net/cni0/bridge").mkdir(parents=True)
    (root / "proc/sys/net/bridge").mkdir(parents=True)
    for name, value in settings.items():
        (root / "proc/sys/net/bridge" / name.replace("_", "-")).write_text(f"{value}\n")
    return root


def test_bridges_bypass_rules_unless_the_kernel_hands_their_packets_over(tmp_path: Path) -> None:
    on = {"bridge_nf_call_iptables": "1", "bridge_nf_call_ip6tables": "1"}
    off = {**on, "bridge_nf_call_ip6tables": "0"}

    assert bridge_bypass(tmp_path) == ""
    assert bridge_bypass(machine(tmp_path / "on", **on)) == ""
    assert "br_netfilter" in bridge_bypass(machine(tmp_path / "without"))
    assert "net.bridge.bridge-nf-call-ip6tables=1" in bridge_bypass(
        machine(tmp_path / "off", **off)
    )


def test_a_refusal_is_one_line() -> None:
    try:
        rules = Nftables()
    except NftablesError as error:
        pytest.skip(str(error))
    with pytest.raises(NftablesError, match="syntax error") as refused:
        rules.run("add nonsense")
    assert "\n" not in str(refused.value)


def test_a_run_that_does_not_end_is_an_error_of_nftables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nftables, "_LONG_SECONDS", 0.01)
    monkeypatch.setattr(nftables, "_MAX_COMMANDS", 0)
    rules = object.__new__(Nftables)  # the library may be missing here

    with pytest.raises(NftablesError, match=r"has not ended after 0\.01 s"):
        rules.run("list ruleset")


def test_a_socket_that_cannot_be_opened_is_an_error_of_nftables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(socket, "socket", refuse)
    rules = object.__new__(Nftables)

    with pytest.raises(NftablesError, match="too many open files"):
        rules.change("hanse", [ElementChange(True, "pods", "10.0.0.1")])
