"""nftables of this machine, through libnftables: commands apply together or not at all."""

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from hanse.features.networks.guard.transaction import ElementChange, render_changes
from hanse.providers.nft_netlink import NetlinkError, change_elements

_LIBRARY = "libnftables.so.1"
_MAX_COMMANDS = 256 * 1024
_MAX_CHANGES = 1000
"""More than these do not fit into one message to the kernel."""
_LONG_SECONDS = 120.0


_BRIDGE_SETTINGS = ("bridge-nf-call-iptables", "bridge-nf-call-ip6tables")


def bridge_bypass(system: Path = Path("/")) -> str:
    """Why packets between pods on a bridge of this machine do not pass any rules; empty: they do.

    Rules see bridged packets only with the kernel module br_netfilter and its settings.
    """
    bridges = sorted(path.parent.name for path in (system / "sys/class/net").glob("*/bridge"))
    if not bridges:
        return ""
    for setting in _BRIDGE_SETTINGS:
        file = system / "proc/sys/net/bridge" / setting
        if not file.is_file():
            return f"bridge {bridges[0]} bypasses the rules; load the kernel module br_netfilter"
        if file.read_text().strip() == "0":
            return f"bridge {bridges[0]} bypasses the rules; set net.bridge.{setting}=1"
    return ""


class NftablesError(Exception):
    """Commands that nftables refused, or a machine without it; the message says why."""


class Nftables:
    """A context of libnftables; use it from one thread at a time."""

    def __init__(self) -> None:
        """Load the library; raises `NftablesError` where it is not installed."""
        try:
            self._library = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise NftablesError(f"{_LIBRARY} cannot be loaded: {error}; install nftables") from None
        new = self._declare("nft_ctx_new", ctypes.c_void_p, ctypes.c_uint32)
        pointer = ctypes.c_void_p
        self._run = self._declare("nft_run_cmd_from_buffer", ctypes.c_int, pointer, ctypes.c_char_p)
        self._output = self._declare("nft_ctx_get_output_buffer", ctypes.c_char_p, pointer)
        self._error = self._declare("nft_ctx_get_error_buffer", ctypes.c_char_p, pointer)
        self._context = pointer(new(0))
        for buffer in ("nft_ctx_buffer_output", "nft_ctx_buffer_error"):
            self._declare(buffer, ctypes.c_int, pointer)(self._context)

    def run(self, commands: str) -> str:
        """Run commands as one transaction and return their output; raises `NftablesError`.

        Long ones run in a process of their own, for two minutes at most, whose memory is free
        afterwards.
        """
        if len(commands) > _MAX_COMMANDS:
            return _run_in_subprocess(commands)
        status, output, error = self.run_now(commands)
        if status != 0:
            raise NftablesError(error)
        return output

    def run_now(self, commands: str) -> tuple[int, str, str]:
        """Run commands in this process; returns status, output, and first line of the error.

        The status is 0 for success, and the error then means nothing; it is a general text if there
        is none.
        """
        status: int = self._run(self._context, commands.encode())
        output: bytes = self._output(self._context) or b""
        error: bytes = self._error(self._context) or b""
        text = error.decode("utf-8", "replace").strip() or "nftables refused the commands"
        return status, output.decode("utf-8", "replace"), text.splitlines()[0]

    def change(self, table: str, changes: Sequence[ElementChange]) -> None:
        """Add and remove elements of sets of an `inet` table in the kernel, all or none.

        Raises `NftablesError`.
        """
        if len(changes) > _MAX_CHANGES:
            self.run(render_changes(changes))
            return
        try:
            change_elements(table, changes)
        except NetlinkError as error:
            raise NftablesError(str(error)) from None

    def _declare(self, name: str, result: Any, *arguments: Any) -> Any:
        """A function of the library, with its result and argument types declared."""
        function = getattr(self._library, name)
        function.restype = result
        function.argtypes = list(arguments)
        return function


def _run_in_subprocess(commands: str) -> str:
    """Run commands in a process of their own, for two minutes at most, and return their output.

    Raises `NftablesError`.
    """
    program = (
        "import sys; from hanse.providers.nftables import run_input; sys.exit(run_input(sys.stdin))"
    )
    try:
        ended = subprocess.run(  # noqa: S603 - this very program
            [sys.executable, "-c", program],
            input=commands,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONG_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise NftablesError(f"nftables has not ended after {_LONG_SECONDS} s") from None
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines() or ["nftables refused the commands"]
        raise NftablesError(lines[-1])
    return ended.stdout


def run_input(commands: TextIO) -> str | None:
    """Run the commands in a file, and write their output to stdout; returns the error, or None.

    Raises `NftablesError` if the library is not installed.
    """
    library = Nftables()
    status, output, error = library.run_now(commands.read())
    sys.stdout.write(output)
    return error if status else None
