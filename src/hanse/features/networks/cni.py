"""The wrapper plugin's part of the CNI protocol: what it is told, and what its delegate is told."""

from typing import Any

import msgspec
from msgspec import Struct

from hanse.features.networks.interfaces import format_cni_args, parse_cni_args

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
INCOMPATIBLE, BAD_ENVIRONMENT, BAD_CONFIG, TRY_AGAIN = 1, 4, 7, 11
"""Error codes of the protocol."""

_RUNTIMES = ("K8S", "IgnoreUnknown")
"""What only a runtime says of a pod."""


class CniError(Exception):
    """What a runtime is told instead of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class CniConfig(Struct, frozen=True):
    """The wrapper's own configuration, and all of it as the delegate will see parts of it."""

    delegate: dict[str, Any]
    plugin: str
    version: str
    kubeconfig: str = ""
    context: str = ""


class PodRef(Struct, frozen=True):
    """The pod that a runtime sets up."""

    namespace: str
    name: str
    uid: str = ""


def parse_config(text: bytes) -> CniConfig:
    """The configuration on standard input; raises `CniError` where it is none."""
    try:
        told = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CniError(BAD_CONFIG, f"the network configuration is not JSON: {error}") from None
    version = str(told.get("cniVersion") or "0.4.0")
    if version not in VERSIONS:
        raise CniError(
            INCOMPATIBLE, f"cniVersion {version} is not known; use one of {', '.join(VERSIONS)}"
        )
    delegate = told.get("delegate")
    if not isinstance(delegate, dict) or not isinstance(delegate.get("type"), str):
        raise CniError(
            BAD_CONFIG, 'the network configuration needs "delegate" with the "type" of a plugin'
        )
    plugin = delegate["type"]
    if not plugin or "/" in plugin or plugin in (".", ".."):
        raise CniError(BAD_CONFIG, f"delegate.type {plugin!r} is not the name of a plugin")
    inherited: dict[str, Any] = {
        n: told[n] for n in ("name", "prevResult", "runtimeConfig") if n in told
    }
    return CniConfig(
        {"cniVersion": version, **inherited, **delegate},
        plugin,
        version,
        str(told.get("kubeconfig") or ""),
        str(told.get("context") or ""),
    )


def parse_pod(args: str) -> PodRef | None:
    """The pod that a runtime names in CNI_ARGS; None where it names none."""
    told = _pairs(args)
    namespace, name = told.get("K8S_POD_NAMESPACE", ""), told.get("K8S_POD_NAME", "")
    return PodRef(namespace, name, told.get("K8S_POD_UID", "")) if namespace and name else None


def merge_cni_args(args: str, annotation: str) -> str:
    """CNI_ARGS with a pod's own added; what runtimes say of it stays theirs to say."""
    try:
        more = parse_cni_args(annotation)
    except ValueError as error:
        raise CniError(BAD_CONFIG, f"the pod's cni-args annotation: {error}") from None
    added = {n: v for n, v in more.items() if not n.startswith(_RUNTIMES)}
    return ";".join(part for part in (args, format_cni_args(added)) if part)


def render_error(version: str, error: CniError) -> bytes:
    """An error as runtimes read it."""
    return msgspec.json.encode({"cniVersion": version, "code": error.code, "msg": str(error)})


def render_versions(version: str) -> bytes:
    """The versions that are understood."""
    return msgspec.json.encode({"cniVersion": version, "supportedVersions": VERSIONS})


def _pairs(args: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in args.split(";") if "=" in part)
