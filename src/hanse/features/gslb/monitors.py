"""Health monitors in ConfigMaps: read, validated, and applied to what is generated.

`healthMonitorRefs` are complete monitors. A `healthMonitorTemplate` with a port is one, too;
without a port it changes the generated monitors, which keep their protocol, port and path.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Struct

from hanse.features.gslb.backends import is_host_name
from hanse.features.gslb.paths import is_http_path
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.globalservice import MAX_PAYLOAD, Monitor, MonitorType
from hanse.model.kinds.gslb import NAMESPACE, GlobalDeploymentPolicySpec, GSLBHostRuleSpec
from hanse.model.snapshot import Snapshot

MonitorSpec: TypeAlias = GlobalDeploymentPolicySpec | GSLBHostRuleSpec
_TYPES: tuple[str, ...] = get_args(MonitorType)
_NUMBERS = {
    "port": (1, 65535),
    "interval": (1, 3600),
    "timeout": (1, 3600),
    "up": (1, 50),
    "down": (1, 50),
}
_TIMES = frozenset(_NUMBERS) - {"port"}
_HTTP, _GRPC = ("HTTP", "HTTPS"), ("GRPC", "GRPCS")
_TYPES_WITH = {
    "path": _HTTP,
    "method": _HTTP,
    "headers": _HTTP,
    "codes": _HTTP,
    "serverName": ("TLS", "HTTPS", "GRPCS"),
    "service": _GRPC,
    "request": ("UDP",),
    "response": ("UDP",),
}
"""The types of monitors for which a field means something."""
_FIELDS = ("type", *_NUMBERS, *_TYPES_WITH)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\x20-\x7e]*")
_RESERVED_HEADERS = ("host", "connection", "content-length", "transfer-encoding", "user-agent")
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)|([^\\])", re.DOTALL)
_LETTERS = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}


class MonitorChoice(Struct, frozen=True):
    """How the members of a host are watched."""

    control_plane_only: bool = False
    monitors: tuple[Monitor, ...] = ()
    """Configured ones, instead of those that are generated."""
    template: Mapping[str, str] = {}
    """What generated ones have otherwise."""

    def monitors_of(self, generated: Monitor | None) -> tuple[Monitor, ...]:
        """The monitors of a member or path: configured ones, else `generated` by the template.

        With control_plane_only just a TCP monitor of the generated one's port. Empty if none is
        configured or generated.
        """
        if self.control_plane_only:
            return (Monitor(type="TCP", port=generated.port),) if generated is not None else ()
        if self.monitors:
            return self.monitors
        return (_with_template_fields(generated, self.template),) if generated is not None else ()


def choose_monitors(
    policy: GlobalDeploymentPolicySpec, rule: GSLBHostRuleSpec | None, snapshot: Snapshot
) -> MonitorChoice:
    """How the members of a host are watched: by its rule, or else by the policy.

    By readiness alone if that is set; else by the refs or template of the first that names any.
    """
    only = policy.control_plane_hm_only
    if rule is not None and rule.control_plane_hm_only is not None:
        only = rule.control_plane_hm_only
    if only:
        return MonitorChoice(control_plane_only=True)
    for spec in (rule, policy):
        if spec is not None and (spec.health_monitor_refs or spec.health_monitor_template):
            return _read_choice(spec, snapshot)
    return MonitorChoice()


def list_referenced_monitors(specs: Iterable[MonitorSpec]) -> tuple[str, ...]:
    """The names of all monitors and templates that policies and host rules refer to, sorted.

    Each once; empty names are left out.
    """
    names = [n for s in specs for n in (*s.health_monitor_refs, s.health_monitor_template)]
    return tuple(sorted({name for name in names if name}))


def monitors_error(spec: MonitorSpec, snapshot: Snapshot) -> str:
    """The first ConfigMap of monitors that is missing or invalid, with its field; else empty."""
    template, refs = spec.health_monitor_template, spec.health_monitor_refs
    if template and (error := _config_map_error(template, snapshot, template=True)):
        return f"spec.healthMonitorTemplate: {error}"
    for index, name in enumerate(refs):
        if error := _config_map_error(name, snapshot, template=False):
            return f"spec.healthMonitorRefs[{index}]: {error}"
    return ""


def parse_monitor(data: Mapping[str, str]) -> Monitor:
    """The monitor in a ConfigMap's data; raises ValueError if the data is invalid."""
    return msgspec.convert(dict(data), Monitor, strict=False)


def monitor_errors(data: Mapping[str, str], *, template: bool = False) -> Iterator[str]:
    """The errors of a ConfigMap's data, each with its field and the values that are allowed.

    A type is needed, a port except in a template of HTTP or HTTPS, and for UDP a request.
    """
    kind = data.get("type", "")
    needed = ["type"]
    needed += [] if template and "port" not in data and kind in _HTTP else ["port"]
    needed += ["request"] if kind == "UDP" else []
    for field in needed:
        if field not in data:
            yield f"{field}: it is needed"
    for field, value in data.items():
        if error := _field_error(field, value, kind):
            yield f"{field}: {error}"


def decode_payload(text: str) -> bytes:
    r"""The bytes of a payload: `\xHH` is one, `\n`, `\r`, `\t` and `\\` as usual; else UTF-8.

    Other escapes and a backslash at the end give nothing.
    """
    return b"".join(
        bytes.fromhex(byte) if byte else _LETTERS.get(letter, b"") if letter else plain.encode()
        for byte, letter, plain in _ESCAPE.findall(text)
    )


def _read_choice(spec: MonitorSpec, snapshot: Snapshot) -> MonitorChoice:
    """The monitors of a policy or rule: of its template, or else of its refs.

    Invalid ones are left out. A template without a port is for each backend to complete.
    """
    if name := spec.health_monitor_template:
        data = _valid_data(name, snapshot, template=True)
        if data is None:
            return MonitorChoice()
        if "port" not in data:
            return MonitorChoice(template=data)
        return MonitorChoice(monitors=(parse_monitor(data),))
    found = [_valid_data(name, snapshot, template=False) for name in spec.health_monitor_refs]
    return MonitorChoice(monitors=tuple(parse_monitor(data) for data in found if data is not None))


def _valid_data(name: str, snapshot: Snapshot, *, template: bool) -> Mapping[str, str] | None:
    """The data of a monitor's or template's ConfigMap here; None if it is missing or invalid."""
    if _config_map_error(name, snapshot, template=template):
        return None
    config_map = snapshot.get(snapshot.local, ConfigMap, name, NAMESPACE)
    return config_map.data if config_map is not None else None


def _config_map_error(name: str, snapshot: Snapshot, *, template: bool) -> str:
    """The error if a ConfigMap here is missing or describes no monitor or template; else empty."""
    config_map = snapshot.get(snapshot.local, ConfigMap, name, NAMESPACE)
    if config_map is None:
        return f"there is no ConfigMap {name} in {NAMESPACE}; create it"
    error = next(monitor_errors(config_map.data, template=template), "")
    return f"ConfigMap {name} describes no monitor: {error}" if error else ""


def _with_template_fields(generated: Monitor, template: Mapping[str, str]) -> Monitor:
    """A generated monitor with those fields of a template that mean something for its type.

    Times and counts (interval, timeout, up, down) always do; type and port are never changed.
    """
    own: dict[str, Any] = msgspec.to_builtins(generated)
    changes = {
        field: value
        for field, value in template.items()
        if field in _TIMES or generated.type in _TYPES_WITH.get(field, ())
    }
    return msgspec.convert({**own, **changes}, Monitor, strict=False) if changes else generated


def _field_error(field: str, value: str, kind: str) -> str:
    """The error of a monitor's field: unknown, invalid, or unused by its type; else empty.

    A path may be given for any type; an empty value is an error only of the type and of numbers.
    """
    if field not in _FIELDS:
        return f"it is no field of a monitor; there are {', '.join(_FIELDS)}"
    if field == "type":
        return "" if value in _TYPES else f"{value[:50]!r} is none of {', '.join(_TYPES)}"
    if field in _NUMBERS:
        low, high = _NUMBERS[field]
        plain = re.fullmatch(r"0|[1-9][0-9]{0,8}", value) is not None
        good = plain and low <= int(value) <= high
        return "" if good else f"{value[:50]!r} is not from {low} to {high}"
    if kind in _TYPES and kind not in _TYPES_WITH[field] and field != "path":
        return f"it has no meaning for {kind}; leave it out"
    return _TEXT_ERRORS[field](value) if value else ""


def _path_error(value: str) -> str:
    """The error of a text that is no path of an HTTP request; else empty."""
    if is_http_path(value):
        return ""
    return "it must begin with / and have no blanks or other than ASCII letters"


def _method_error(value: str) -> str:
    """The error of a method that is neither HEAD nor GET; else empty."""
    return "" if value in ("HEAD", "GET") else f"{value[:50]!r} is neither HEAD nor GET"


def _headers_error(value: str) -> str:
    """The error of lines that are no headers or reserved ones, or too long; else empty."""
    for line in value.splitlines():
        if not _HEADER.fullmatch(line):
            return f"{line[:50]!r} is no header; write one in a line, as Name: value"
        if line.partition(":")[0].lower() in _RESERVED_HEADERS:
            return f"{line.partition(':')[0]} is set by the probe itself; leave it out"
    return "" if len(value) <= 2048 else "it has more than 2048 characters"


def _codes_error(value: str) -> str:
    """The error of a text that is no list of up to 51 codes or classes as `3xx`; else empty."""
    if re.fullmatch(r"[1-5](\d\d|xx)(,[1-5](\d\d|xx)){0,50}", value):
        return ""
    return f"{value[:50]!r} are no status codes; write them as 200,204,3xx"


def _server_name_error(value: str) -> str:
    """The error of a text that is no host name; else empty."""
    return "" if is_host_name(value) else f"{value[:50]!r} is no host name"


def _service_error(value: str) -> str:
    """The error of a text that is no name of a gRPC service; else empty."""
    if re.fullmatch(r"[A-Za-z0-9_.]{1,253}", value):
        return ""
    return f"{value[:50]!r} is no service of gRPC; write it as shop.v1.Cart"


def _payload_error(value: str) -> str:
    """The error of a payload that is too long or has an unknown escape; else empty."""
    if len(value) > MAX_PAYLOAD:
        return f"it has more than {MAX_PAYLOAD} characters"
    rest = _ESCAPE.sub(lambda m: "" if m[2] is None or m[2] in _LETTERS else "?", value)
    return r"it has an escape other than \xHH, \n, \r, \t and \\" if rest else ""


_TEXT_ERRORS: dict[str, Callable[[str], str]] = {
    "path": _path_error,
    "method": _method_error,
    "headers": _headers_error,
    "codes": _codes_error,
    "serverName": _server_name_error,
    "service": _service_error,
    "request": _payload_error,
    "response": _payload_error,
}
