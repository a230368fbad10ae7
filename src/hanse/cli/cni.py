"""`hanse cni`: a CNI plugin that adds a pod's cni-args and delegates to another plugin."""

import asyncio
import os
import shutil
import sys
from datetime import timedelta
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from hanse.cli.clusters import open_client
from hanse.cli.process import run_async
from hanse.features.networks.cni import (
    BAD_CONFIG,
    BAD_ENVIRONMENT,
    POD_COMMANDS,
    CniConfig,
    CniError,
    KnownPod,
    PodRef,
    merge_cni_args,
    parse_config,
    parse_pod,
    pod_cni_args,
    render_error,
    render_versions,
    unread_pod_args,
)
from hanse.features.networks.membership import network_of
from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.errors import BadCredentials, KubeError
from hanse.kube.optional_reads import read_or_none
from hanse.model.json_input import decode_json
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.kinds.networks import Network

READ_TIMEOUT = timedelta(seconds=10)
COMMANDS = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")


class CniCall(Struct, frozen=True):
    """The environment and the configuration that a runtime passes."""

    environment: dict[str, str]
    config: bytes


class CniResult(Struct, frozen=True):
    """The exit status and output for the runtime."""

    status: int
    out: bytes = b""
    err: bytes = b""


async def run_call(call: CniCall) -> CniResult:
    """Run one CNI call: answer VERSION, and delegate other CNI commands to the configured plugin.

    For pod commands CNI_ARGS get the pod's annotation. An unknown command, or a `CniError`, becomes
    status 1 and JSON.
    """
    command = call.environment.get("CNI_COMMAND", "")
    version = "1.0.0"
    if command not in COMMANDS:
        message = f"CNI_COMMAND {command!r} is none of {', '.join(COMMANDS)}"
        return CniResult(1, render_error(version, CniError(BAD_ENVIRONMENT, message)))
    try:
        if command == "VERSION":
            return CniResult(0, render_versions(_parse_version(call.config)))
        config = parse_config(call.config)
        version = config.version
        args = call.environment.get("CNI_ARGS", "")
        if command in POD_COMMANDS:
            args = merge_cni_args(args, await _annotation(config, parse_pod(args), command))
        return await _delegate(call, config, args)
    except CniError as error:
        return CniResult(1, render_error(version, error))


async def _annotation(config: CniConfig, ref: PodRef | None, command: str) -> str:
    """The cni-args annotation of a pod, read from the API server; "" if CNI_ARGS name no pod.

    For DEL also "" if the pod is gone, cannot be read, or is in no network. Other commands raise
    `CniError` (try again) then, in no network only if it is annotated; ADD also while the pod's
    port is not prepared.
    """
    if ref is None:
        return ""
    try:
        known = await _read_pod(config, ref)
    except (KubeError, BadCredentials, TimeoutError) as error:
        return unread_pod_args(ref, command, error)
    return pod_cni_args(ref, known, command)


async def _read_pod(config: CniConfig, ref: PodRef) -> KnownPod | None:
    """Read a pod and its network by the kubeconfig of the plugin configuration, or the default one.

    None if the pod does not exist. Raises `KubeError`, or `TimeoutError` after `READ_TIMEOUT`.
    """
    file = Path(config.kubeconfig) if config.kubeconfig else None
    access = credentials.find_credentials(file, context=config.context)
    async with open_client(access) as client, asyncio.timeout(READ_TIMEOUT.total_seconds()):
        pod = await read_or_none(client, Pod, ref.name, ref.namespace)
        if pod is None:
            return None
        return KnownPod(pod, await _read_network(client, pod))


async def _read_network(client: Client, pod: Pod) -> Network | None:
    """Read the Network that a pod is in, by its namespace and label.

    None if the pod is in none, or the Network does not exist. Raises `KubeError`, also if the
    namespace does not exist: the account needs to get namespaces and networks, beside pods.
    """
    namespace = await client.read(Namespace, pod.metadata.namespace)
    name = network_of(pod, namespace, lambda _: True)
    return await read_or_none(client, Network, str(name)) if name is not None else None


async def _delegate(call: CniCall, config: CniConfig, args: str) -> CniResult:
    """Run the delegate plugin from CNI_PATH with these CNI_ARGS and its configuration on stdin.

    Returns its exit status and output unchanged; raises `CniError` if it is not installed.
    """
    program = shutil.which(config.plugin, path=call.environment.get("CNI_PATH", ""))
    if program is None:
        where = call.environment.get("CNI_PATH") or "an empty CNI_PATH"
        raise CniError(BAD_CONFIG, f"plugin {config.plugin} is not in {where}; install it there")
    environment = {**call.environment, "CNI_ARGS": args}
    process = await asyncio.create_subprocess_exec(
        program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    out, err = await process.communicate(msgspec.json.encode(config.delegate))
    return CniResult(process.returncode or 0, out, err)


def _parse_version(config: bytes) -> str:
    """The cniVersion of a configuration; 1.0.0 if it has none or is not JSON."""
    try:
        return str(decode_json(config, type=dict[str, object]).get("cniVersion", "1.0.0"))
    except msgspec.DecodeError:
        return "1.0.0"


@click.command("cni")
@click.pass_context
def command(context: click.Context) -> None:
    """Be a CNI plugin that hands a pod's cni-args on to another plugin.

    Runtimes call it by the CNI protocol: CNI_COMMAND and its like in the environment, the network
    configuration on standard input. It reads the pod's annotation arktos.futurewei.com/cni-args,
    adds it to CNI_ARGS, and calls the plugin of "delegate", whose answer is the answer.

    \b
    Examples:
      printf '#!/bin/sh\\nexec hanse cni\\n' > /opt/cni/bin/hanse && chmod +x /opt/cni/bin/hanse
      {"cniVersion": "1.0.0", "name": "pods", "type": "hanse", "kubeconfig": "FILE",
       "delegate": {"type": "mizarcni"}}
    """
    call = CniCall(dict(os.environ), sys.stdin.buffer.read())
    result = run_async(lambda: run_call(call))
    sys.stdout.buffer.write(result.out)
    sys.stderr.buffer.write(result.err)
    sys.stdout.flush()
    context.exit(result.status)
