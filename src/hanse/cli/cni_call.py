"""One call by a runtime: the pod is read, the delegate is run, its answer is ours."""

import asyncio
import shutil
from datetime import timedelta
from pathlib import Path

import msgspec
from msgspec import Struct

from hanse.features.networks.cni import (
    BAD_CONFIG,
    BAD_ENVIRONMENT,
    TRY_AGAIN,
    CniConfig,
    CniError,
    PodRef,
    merge_cni_args,
    parse_config,
    parse_pod,
    render_error,
    render_versions,
)
from hanse.features.networks.names import CNI_ARGS
from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.errors import BadCredentials, KubeError, NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.model.kinds.core import Pod

PATIENCE = timedelta(seconds=10)
COMMANDS = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")
_FOR_A_POD = ("ADD", "DEL", "CHECK")


class CniCall(Struct, frozen=True):
    """What a runtime says."""

    environment: dict[str, str]
    config: bytes


class CniResult(Struct, frozen=True):
    """What it is answered."""

    status: int
    out: bytes = b""
    err: bytes = b""


async def run_call(call: CniCall) -> CniResult:
    """Answer one call; every error is told as the protocol has it."""
    command = call.environment.get("CNI_COMMAND", "")
    version = "1.0.0"
    if command not in COMMANDS:
        told = f"CNI_COMMAND {command!r} is none of {', '.join(COMMANDS)}"
        return CniResult(1, render_error(version, CniError(BAD_ENVIRONMENT, told)))
    try:
        if command == "VERSION":
            return CniResult(0, render_versions(_version_in(call.config)))
        config = parse_config(call.config)
        version = config.version
        args = call.environment.get("CNI_ARGS", "")
        if command in _FOR_A_POD:
            args = merge_cni_args(args, await _annotation(config, parse_pod(args), command))
        return await _delegated(call, config, args)
    except CniError as error:
        return CniResult(1, render_error(version, error))


async def _annotation(config: CniConfig, ref: PodRef | None, command: str) -> str:
    """What the provider says of a pod; a pod that is gone has nothing more to say."""
    if ref is None:
        return ""
    try:
        pod = await _read(config, ref)
    except NotFound:
        if command == "DEL":
            return ""
        raise CniError(TRY_AGAIN, f"pod {ref.namespace}/{ref.name} is not there") from None
    except (KubeError, BadCredentials, TimeoutError) as error:
        if command == "DEL":
            return ""  # what cannot be asked must not keep a pod from going
        why = str(error) or "no answer in time"
        raise CniError(TRY_AGAIN, f"pod {ref.namespace}/{ref.name} cannot be read: {why}") from None
    if ref.uid and pod.metadata.uid != ref.uid:
        return ""  # another pod by that name
    return pod.metadata.annotations.get(CNI_ARGS, "")


async def _read(config: CniConfig, ref: PodRef) -> Pod:
    file = Path(config.kubeconfig) if config.kubeconfig else None
    client = Client(HttpTransport(credentials.found(file, context=config.context)))
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            return await client.read(Pod, ref.name, ref.namespace)
    finally:
        await client.close()


async def _delegated(call: CniCall, config: CniConfig, args: str) -> CniResult:
    """Run the other plugin as the runtime would have; its answer is passed on as it is."""
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


def _version_in(config: bytes) -> str:
    try:
        return str(msgspec.json.decode(config, type=dict[str, object]).get("cniVersion", "1.0.0"))
    except msgspec.DecodeError:
        return "1.0.0"
