"""Whether nodes with containers can run on this machine, and what is missing if not."""

import os
import shutil
import sys
from pathlib import Path

from hanse.local.real.errors import NodesUnsupported

CNI_PLUGINS = Path("/usr/lib/cni")
"""Where Debian's containernetworking-plugins are."""

_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "sysctl": "procps",
}


def require_support() -> None:
    """Raise `NodesUnsupported`, with the remedy, without Linux, root or the needed packages."""
    if sys.platform != "linux":
        raise NodesUnsupported("nodes with containers need Linux; use --nodes simulated")
    if os.geteuid() != 0:
        raise NodesUnsupported("nodes with containers need root; use sudo, or --nodes simulated")
    if missing := missing_packages():
        raise NodesUnsupported(
            f"nodes with containers need the packages {' '.join(missing)}; install them, "
            f"on Debian with `apt-get install --no-install-recommends {' '.join(missing)}`"
        )


def missing_packages() -> list[str]:
    """The Debian packages of the programs and CNI plugins that are missing, sorted."""
    wanted = {package for name, package in _PACKAGES.items() if shutil.which(name) is None}
    if not all((CNI_PLUGINS / plugin).is_file() for plugin in ("ptp", "host-local", "loopback")):
        wanted.add("containernetworking-plugins")
    return sorted(wanted)
