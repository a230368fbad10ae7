"""The CNI wrapper plugin: parses the input of the runtime and builds that of the delegate."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from hanse.features.networks.interfaces import VPC_ARGUMENT, format_cni_args, parse_cni_args
from hanse.features.networks.lookups import VPC
from hanse.features.networks.names import CNI_ARGS, MIRROR, READINESS
from hanse.model.json_input import decode_json
from hanse.model.kinds.core import Pod
from hanse.model.kinds.networks import Network

PLUGIN = "hanse"
"""The type of the plugin in a network configuration."""
CONFIG_FILE = "00-hanse.conflist"
"""Runtimes take the first file of their folder."""
STATE_FOLDER = "/var/lib/hanse-cni"
"""Where the plugin of a node and its guard exchange files, and keep what outlasts a restart."""

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
INCOMPATIBLE, BAD_ENVIRONMENT, BAD_CONFIG, TRY_AGAIN = 1, 4, 7, 11
"""Error codes of the CNI specification."""
POD_COMMANDS = ("ADD", "DEL", "CHECK")
"""The commands that are about one pod."""

_RUNTIME_PREFIXES = ("K8S", "IgnoreUnknown")
"""Prefixes of CNI_ARGS that only the runtime may set."""
_INHERITED = ("name", "prevResult", "runtimeConfig")
"""What runtimes add to the configuration of a plugin, beside `cni.dev/…`."""


class CniError(Exception):
    """An error that the plugin returns to the runtime."""

    def __init__(self, code: int, message: str) -> None:
        """An error with its code of the CNI specification, which is its `code`."""
        super().__init__(message)
        self.code = code


class CniConfig(Struct, frozen=True):
    """The parsed network configuration, with the delegate's part."""

    delegate: dict[str, Any]
    plugin: str
    version: str
    kubeconfig: str = ""
    context: str = ""


class KnownPod(Struct, frozen=True):
    """A pod, and the network that it is in; None if it is in none."""

    pod: Pod
    network: Network | None = None


class PodRef(Struct, frozen=True):
    """The pod that the runtime sets up."""

    namespace: str
    name: str
    uid: str = ""

    def is_of(self, pod: Pod) -> bool:
        """Whether its uid is that of a pod, so that the pod is no earlier or later one of its name.

        True without a uid. Runtimes know a static pod by the uid that its mirror pod has as
        annotation, which counts, too. Names are not compared.
        """
        uids = (pod.metadata.uid, pod.metadata.annotations.get(MIRROR))
        return not self.uid or self.uid in uids


def parse_config(text: bytes) -> CniConfig:
    """The configuration of the plugin and its delegate; raises `CniError` if it is invalid.

    The delegate's part gets `cniVersion` (by default 0.4.0), name and what else runtimes pass to
    each plugin, where it does not set them itself.
    """
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
        n: value for n, value in config.items() if n in _INHERITED or n.startswith("cni.dev/")
    }
    return CniConfig(
        {"cniVersion": version, **inherited, **delegate},
        plugin,
        version,
        str(config.get("kubeconfig") or ""),
        str(config.get("context") or ""),
    )


def parse_pod(args: str) -> PodRef | None:
    """The pod in CNI_ARGS; None if its namespace or name is missing."""
    pairs = _parse_pairs(args)
    namespace, name = pairs.get("K8S_POD_NAMESPACE", ""), pairs.get("K8S_POD_NAME", "")
    return PodRef(namespace, name, pairs.get("K8S_POD_UID", "")) if namespace and name else None


def merge_cni_args(args: str, annotation: str) -> str:
    """CNI_ARGS with the pairs of the pod's annotation appended.

    Left out are pairs whose key begins with `K8S` or `IgnoreUnknown`, which only the runtime sets.
    Raises `CniError` for an invalid annotation.
    """
    try:
        more = parse_cni_args(annotation)
    except ValueError as error:
        raise CniError(BAD_CONFIG, f"the pod's cni-args annotation: {error}") from None
    added = {n: v for n, v in more.items() if not n.startswith(_RUNTIME_PREFIXES)}
    return ";".join(part for part in (args, format_cni_args(added)) if part)


def pod_cni_args(ref: PodRef, known: KnownPod | None, command: str) -> str:
    """The cni-args annotation of a pod, or empty; for DEL empty, too, if the pod is gone.

    Else raises `CniError` (try again) if the pod is unknown or has another uid, and for ADD also if
    its port is not prepared or, in a network of type vpc, the annotation names no VPC. Anybody may
    annotate a pod in no network: DEL ignores that, other commands fail.
    """
    if known is None or not ref.is_of(known.pod):
        if command == "DEL":
            return ""
        uid = f" of uid {ref.uid}" if ref.uid else ""
        raise CniError(TRY_AGAIN, f"pod {ref.namespace}/{ref.name}{uid} is not there")
    if command == "ADD" and not (is_prepared(known.pod) and _has_vpc(known)):
        message = f"the network of pod {ref.namespace}/{ref.name} has not prepared its port yet"
        raise CniError(TRY_AGAIN, message)
    args = known.pod.metadata.annotations.get(CNI_ARGS, "")
    if not args or known.network is not None:
        return args
    if command == "DEL":
        return ""
    message = f"pod {ref.namespace}/{ref.name} is in no network; remove its annotation {CNI_ARGS}"
    raise CniError(TRY_AGAIN, message)


def _names_vpc(pod: Pod) -> bool:
    """Whether a pod's CNI arguments name a VPC; False if they are invalid."""
    try:
        return VPC_ARGUMENT in parse_cni_args(pod.metadata.annotations.get(CNI_ARGS, ""))
    except ValueError:
        return False


def _has_vpc(known: KnownPod) -> bool:
    """Whether a pod's CNI arguments name a VPC, whichever it is.

    True, too, if it is in no network, or its network is not of type vpc.
    """
    return known.network is None or known.network.spec.type != VPC or _names_vpc(known.pod)


def unread_pod_args(ref: PodRef, command: str, error: Exception) -> str:
    """The CNI arguments of a pod that could not be read: empty for DEL, which must not wait.

    Raises `CniError` (try again) for every other command.
    """
    if command == "DEL":
        return ""
    why = str(error) or "no answer in time"
    raise CniError(TRY_AGAIN, f"pod {ref.namespace}/{ref.name} cannot be read: {why}") from None


def is_prepared(pod: Pod) -> bool:
    """Whether a pod lacks the readiness annotation, so that its CNI arguments are final.

    Its scheduling gate does not count.
    """
    return READINESS not in pod.metadata.annotations


def wrap_config(text: bytes) -> dict[str, Any]:
    """The network configuration (.conf or .conflist) as a list, its first plugin as our delegate.

    Where the first plugin is ours already, it is replaced by one with the innermost delegate.
    Raises `CniError` for a text that names no plugin, or a later plugin that gives pods another
    MAC.
    """
    config, plugins = _parse_plugins(text)
    if any(_changes_mac(one) for one in plugins[1:]):
        message = (
            "its plugin tuning sets mac, and pods may send with the MAC of the first plugin alone"
        )
        raise CniError(BAD_CONFIG, f"{message}; set the MAC there, or not at all")
    if "plugins" not in config:
        config = {name: config[name] for name in ("cniVersion", "name") if name in config}
    return {**config, "plugins": [_wrapped(_innermost(plugins[0])), *plugins[1:]]}


def uses_our_plugin(text: bytes) -> bool:
    """Whether the first plugin of a network configuration is of type `hanse`.

    Raises `CniError` if it names no plugin or is no JSON.
    """
    _, plugins = _parse_plugins(text)
    return bool(plugins[0]["type"] == PLUGIN)


def _parse_plugins(text: bytes) -> tuple[dict[str, Any], list[Any]]:
    """The configuration and its list of plugins, itself if it is a single one.

    Raises `CniError` if it is no JSON, or its first plugin has no type.
    """
    try:
        config = decode_json(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CniError(BAD_CONFIG, f"it is not JSON: {error}") from None
    plugins = config.get("plugins", [config])
    first = plugins[0] if isinstance(plugins, list) and plugins else None
    if not isinstance(first, dict) or not isinstance(first.get("type"), str):
        raise CniError(BAD_CONFIG, "it names no plugin")
    return config, plugins


def _innermost(plugin: dict[str, Any]) -> dict[str, Any]:
    """The plugin itself, or what ours delegates to, which keeps the capabilities of ours.

    Raises `CniError` if ours has no delegate.
    """
    while plugin["type"] == PLUGIN:
        delegate = plugin.get("delegate")
        if not isinstance(delegate, dict) or not isinstance(delegate.get("type"), str):
            raise CniError(BAD_CONFIG, f"its plugin {PLUGIN} has no delegate")
        shown = {name: plugin[name] for name in ("capabilities",) if name in plugin}
        plugin = {**shown, **delegate}
    return plugin


def _changes_mac(plugin: Any) -> bool:
    """Whether a plugin is `tuning` with a `mac`."""
    return isinstance(plugin, dict) and plugin.get("type") == "tuning" and bool(plugin.get("mac"))


def _wrapped(plugin: Mapping[str, Any]) -> dict[str, Any]:
    """Our plugin's configuration with this plugin as delegate, and its capabilities, if any."""
    shown = {"capabilities": plugin["capabilities"]} if "capabilities" in plugin else {}
    return {"type": PLUGIN, **shown, "delegate": dict(plugin)}


def render_error(version: str, error: CniError) -> bytes:
    """The JSON of an error as the CNI specification has it: cniVersion, code and msg."""
    return msgspec.json.encode({"cniVersion": version, "code": error.code, "msg": str(error)})


def render_versions(version: str) -> bytes:
    """The JSON that answers VERSION, in the form of a CNI `version`: the supported versions."""
    return msgspec.json.encode({"cniVersion": version, "supportedVersions": VERSIONS})


def _parse_pairs(args: str) -> dict[str, str]:
    """The `key=value` parts of CNI_ARGS; others are ignored, and the last value of a key counts."""
    return dict(part.split("=", 1) for part in args.split(";") if "=" in part)
