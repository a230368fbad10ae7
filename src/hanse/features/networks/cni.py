"""The CNI wrapper plugin: parses the input of the runtime and builds that of the delegate."""

from typing import Any

import msgspec
from msgspec import Struct

from hanse.features.networks.interfaces import format_cni_args, parse_cni_args
from hanse.model.json_input import decode_json

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
INCOMPATIBLE, BAD_ENVIRONMENT, BAD_CONFIG, TRY_AGAIN = 1, 4, 7, 11
"""Error codes of the CNI specification."""

_RUNTIME_PREFIXES = ("K8S", "IgnoreUnknown")
"""Prefixes of CNI_ARGS that only the runtime may set."""


class CniError(Exception):
    """An error that the plugin returns to the runtime."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class CniConfig(Struct, frozen=True):
    """The parsed network configuration, with the delegate's part."""

    delegate: dict[str, Any]
    plugin: str
    version: str
    kubeconfig: str = ""
    context: str = ""


class PodRef(Struct, frozen=True):
    """The pod that the runtime sets up."""

    namespace: str
    name: str
    uid: str = ""


def parse_config(text: bytes) -> CniConfig:
    """Parse the network configuration; raises `CniError` if it is invalid."""
    try:
        config = decode_json(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CniError(BAD_CONFIG, f"the network configuration is not JSON: {error}") from None
    version = str(config.get("cniVersion") or "0.4.0")
    if version not in VERSIONS:
        raise CniError(
            INCOMPATIBLE, f"cniVersion {version} is not known; use one of {', '.join(VERSIONS)}"
        )
    delegate = config.get("delegate")
    if not isinstance(delegate, dict) or not isinstance(delegate.get("type"), str):
        raise CniError(
            BAD_CONFIG, 'the network configuration needs "delegate" with the "type" of a plugin'
        )
    plugin = delegate["type"]
    if not plugin or "/" in plugin or plugin in (".", ".."):
        raise CniError(BAD_CONFIG, f"delegate.type {plugin!r} is not the name of a plugin")
    inherited: dict[str, Any] = {
        n: config[n] for n in ("name", "prevResult", "runtimeConfig") if n in config
    }
    return CniConfig(
        {"cniVersion": version, **inherited, **delegate},
        plugin,
        version,
        str(config.get("kubeconfig") or ""),
        str(config.get("context") or ""),
    )


def parse_pod(args: str) -> PodRef | None:
    """Parse the pod from CNI_ARGS; None if it is missing."""
    pairs = _parse_pairs(args)
    namespace, name = pairs.get("K8S_POD_NAMESPACE", ""), pairs.get("K8S_POD_NAME", "")
    return PodRef(namespace, name, pairs.get("K8S_POD_UID", "")) if namespace and name else None


def merge_cni_args(args: str, annotation: str) -> str:
    """CNI_ARGS with the pod's annotation added; keys of the runtime cannot be overridden.

    Raises `CniError` for an invalid annotation.
    """
    try:
        more = parse_cni_args(annotation)
    except ValueError as error:
        raise CniError(BAD_CONFIG, f"the pod's cni-args annotation: {error}") from None
    added = {n: v for n, v in more.items() if not n.startswith(_RUNTIME_PREFIXES)}
    return ";".join(part for part in (args, format_cni_args(added)) if part)


def render_error(version: str, error: CniError) -> bytes:
    """The JSON of an error."""
    return msgspec.json.encode({"cniVersion": version, "code": error.code, "msg": str(error)})


def render_versions(version: str) -> bytes:
    """The JSON of the supported versions."""
    return msgspec.json.encode({"cniVersion": version, "supportedVersions": VERSIONS})


def _parse_pairs(args: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in args.split(";") if "=" in part)
