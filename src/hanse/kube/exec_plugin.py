"""Runs exec credential plugins as kubectl does, and validates their output."""

import asyncio
import os
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec import Raw, Struct

from hanse.kube.client_config import ExecPlugin
from hanse.kube.errors import BadCredentials
from hanse.model.json_input import decode_json

TIMEOUT = timedelta(seconds=60)
_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")


class PluginCredentials(Struct, frozen=True, rename="camel"):
    """The credentials of a plugin: a token, a certificate with its key, or both."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    def __repr__(self) -> str:
        """The name of the class and no value, since all are secret."""
        return "PluginCredentials(<secret>)"


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
    """Run an exec plugin and return the credentials that it prints; its stderr goes to ours.

    Its environment is `environment`, by default that of this process, with the configured
    variables. It reads our stdin, without a time limit, if it may prompt; else it is killed after
    TIMEOUT (60 s). Raises `BadCredentials` if it cannot run, fails, takes too long or prints none.
    """
    interactive = _may_prompt(plugin)
    inherited = os.environ if environment is None else environment
    exec_info = {"KUBERNETES_EXEC_INFO": _exec_info(plugin, interactive)}
    try:
        program = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**inherited, **dict(plugin.env), **exec_info},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f" ({plugin.install_hint.strip()})" if plugin.install_hint else ""
        raise BadCredentials(
            f"{plugin.origin}: cannot run {plugin.command}: {error.strerror}; install it{hint}"
        ) from None
    output = await _read_output(program, plugin, None if interactive else TIMEOUT)
    if program.returncode != 0:
        raise BadCredentials(
            f"{plugin.origin}: {plugin.command} ended with {program.returncode}; run it by hand"
        )
    return _parse_output(plugin, output)


async def _read_output(
    program: asyncio.subprocess.Process, plugin: ExecPlugin, limit: timedelta | None
) -> bytes:
    """Wait for the plugin's end and return its standard output; None means no time limit.

    At the limit it is killed and `BadCredentials` raised; it is killed on cancellation, too.
    """
    try:
        async with asyncio.timeout(limit.total_seconds() if limit else None):
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


def _may_prompt(plugin: ExecPlugin) -> bool:
    """Whether the plugin may prompt: stdin is a terminal and interactiveMode is not Never.

    Raises `BadCredentials` for an unknown exec.apiVersion or interactiveMode, and for
    interactiveMode Always without a terminal.
    """
    if plugin.api_version not in _API_VERSIONS:
        raise BadCredentials(
            f"{plugin.origin}: exec.apiVersion {plugin.api_version!r}; use {_API_VERSIONS[0]}"
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
    """The JSON for KUBERNETES_EXEC_INFO: whether the plugin may prompt, and the cluster if set."""
    cluster = Raw(plugin.cluster) if plugin.cluster else msgspec.UNSET
    info = _ExecInfo(plugin.api_version, _Spec(interactive, cluster))
    return msgspec.json.encode(info).decode()


def _parse_output(plugin: ExecPlugin, output: bytes) -> PluginCredentials:
    """The credentials that a plugin printed: a token, or a certificate with its key, or both.

    Raises `BadCredentials` for what is no ExecCredential of the configured version, has neither, or
    has only one of certificate and key; errors do not quote the output.
    """
    origin = f"{plugin.origin}: {plugin.command}"
    try:
        credential = decode_json(output, type=_ExecCredential)
    except msgspec.DecodeError:
        raise BadCredentials(f"{origin} gave no ExecCredential; run it by hand") from None
    if credential.api_version != plugin.api_version or credential.kind != "ExecCredential":
        raise BadCredentials(
            f"{origin} gave no {plugin.api_version} ExecCredential; set exec.apiVersion as it does"
        )
    credentials = credential.status
    if credentials is None or not (credentials.token or credentials.client_certificate_data):
        raise BadCredentials(f"{origin} gave neither a token nor a certificate; run it by hand")
    if bool(credentials.client_certificate_data) != bool(credentials.client_key_data):
        raise BadCredentials(
            f"{origin} gave a certificate or key without the other; run it by hand"
        )
    return credentials
