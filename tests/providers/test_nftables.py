"""Whether packets on bridges pass rules, and errors of nftables as one line."""

from pathlib import Path

import pytest

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
