"""Programs that give credentials: run as kubectl runs them, and their answers checked."""

import asyncio
import os
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec import Raw, Struct

from hanse.kube.client_config import ExecPlugin
from hanse.kube.errors import BadCredentials

TIMEOUT = timedelta(seconds=60)
_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")


class PluginCredentials(Struct, frozen=True, rename="camel"):
    """What a plugin gave: a token, a certificate with its key, or both, perhaps for a time."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    def __repr__(self) -> str:
        return "Given(<secret>)"


class _ExecCredential(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: PluginCredentials | None = None


class _Spec(Struct, frozen=True):
    interactive: bool
    cluster: Raw | msgspec.UnsetType = msgspec.UNSET


class _ExecInfo(Struct, frozen=True, rename="camel"):
    api_version: str
    spec: _Spec
    kind: str = "ExecCredential"


async def run_plugin(
    plugin: ExecPlugin, environment: Mapping[str, str] | None = None
) -> PluginCredentials:
    """Run a plugin and read what it gives; its own words go to our standard error."""
    interactive = _may_ask(plugin)
    inherited = os.environ if environment is None else environment
    told = {"KUBERNETES_EXEC_INFO": _exec_info(plugin, interactive)}
    try:
        program = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**inherited, **dict(plugin.env), **told},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f" ({plugin.install_hint.strip()})" if plugin.install_hint else ""
        raise BadCredentials(
            f"{plugin.origin}: cannot run {plugin.command}: {error.strerror}; install it{hint}"
        ) from None
    output = await _output_of(program, plugin, None if interactive else TIMEOUT)
    if program.returncode != 0:
        raise BadCredentials(
            f"{plugin.origin}: {plugin.command} ended with {program.returncode}; run it by hand"
        )
    return _given(plugin, output)


async def _output_of(
    program: asyncio.subprocess.Process, plugin: ExecPlugin, patience: timedelta | None
) -> bytes:
    """All of its output; a plugin that is not waited for any longer is ended."""
    try:
        async with asyncio.timeout(patience.total_seconds() if patience else None):
            output, _ = await program.communicate()
    except TimeoutError:
        raise BadCredentials(
            f"{plugin.origin}: {plugin.command} gave nothing for {TIMEOUT}; run it by hand"
        ) from None
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    return output


def _may_ask(plugin: ExecPlugin) -> bool:
    """Whether the plugin may talk to a person at our terminal."""
    if plugin.api_version not in _VERSIONS:
        raise BadCredentials(
            f"{plugin.origin}: exec.apiVersion {plugin.api_version!r}; use {_VERSIONS[0]}"
        )
    if plugin.interactive not in _MODES:
        raise BadCredentials(
            f"{plugin.origin}: exec.interactiveMode {plugin.interactive!r}; use one of {_MODES}"
        )
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive == "Always" and not terminal:
        raise BadCredentials(
            f"{plugin.origin}: {plugin.command} needs a terminal (interactiveMode); use a token"
        )
    return terminal and plugin.interactive != "Never"


def _exec_info(plugin: ExecPlugin, interactive: bool) -> str:
    cluster = Raw(plugin.cluster) if plugin.cluster else msgspec.UNSET
    info = _ExecInfo(plugin.api_version, _Spec(interactive, cluster))
    return msgspec.json.encode(info).decode()


def _given(plugin: ExecPlugin, output: bytes) -> PluginCredentials:
    """The credentials in a plugin's output; what is wrong with it is told without quoting it."""
    at = f"{plugin.origin}: {plugin.command}"
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.DecodeError:
        raise BadCredentials(f"{at} gave no ExecCredential; run it by hand") from None
    if answer.api_version != plugin.api_version or answer.kind != "ExecCredential":
        raise BadCredentials(
            f"{at} gave no {plugin.api_version} ExecCredential; set exec.apiVersion as it does"
        )
    given = answer.status
    if given is None or not (given.token or given.client_certificate_data):
        raise BadCredentials(f"{at} gave neither a token nor a certificate; run it by hand")
    if bool(given.client_certificate_data) != bool(given.client_key_data):
        raise BadCredentials(f"{at} gave a certificate or key without the other; run it by hand")
    return given
