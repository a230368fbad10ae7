"""nftables of this machine, through libnftables: commands apply together or not at all."""

import ctypes
from pathlib import Path
from typing import Any

_LIBRARY = "libnftables.so.1"


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
        """Run commands as one transaction and return their output; raises `NftablesError`."""
        status = self._run(self._context, commands.encode())
        output: bytes = self._output(self._context) or b""
        error: bytes = self._error(self._context) or b""
        if status != 0:
            text = error.decode("utf-8", "replace").strip() or "nftables refused the commands"
            raise NftablesError(text.splitlines()[0])
        return output.decode("utf-8", "replace")

    def _declare(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self._library, name)
        function.restype = result
        function.argtypes = list(arguments)
        return function
