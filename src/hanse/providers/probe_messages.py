"""What probes send and how answers are judged: HTTP, and the health service of gRPC.

gRPC is spoken in a few constant frames of HTTP/2 (RFC 9113): one request, whose headers are HPACK
literals, and of the answer only the frames with the message. An HTTP/2 library would bring three
packages for that; what it does beyond, a probe has no use for.
"""

from hanse.model.probes import NO_DETAILS, ProbeTarget

MAX_RESPONSE = 4096
"""Bytes of a response that are read."""
CLOSED = "the connection was closed"


def request_bytes(target: ProbeTarget, *, keep: bool = False) -> bytes:
    """The request of HTTP(S) or gRPC(S) to a target; for TCP, TLS and UDP the configured bytes.

    These are empty by default. `keep` asks for a connection that is used again: only of HTTP.
    """
    match target.type:
        case "HTTP" | "HTTPS":
            return http_request(target, keep=keep)
        case "GRPC" | "GRPCS":
            return grpc_request(target)
        case _:
            return (target.details or NO_DETAILS).request


def answer_failure(target: ProbeTarget, received: bytes, *, ended: bool) -> str | None:
    """The failure that an answer means, empty for none; None while more has to be read.

    HTTP is judged once it has a line or 4096 bytes, gRPC once it has a message, both when it has
    `ended`. Other types are judged at once: what was received so far has to contain the expected
    bytes.
    """
    details = target.details or NO_DETAILS
    match target.type:
        case "HTTP" | "HTTPS":
            complete = b"\r\n" in received or ended or len(received) >= MAX_RESPONSE
            return http_failure(received, details.codes) if complete else None
        case "GRPC" | "GRPCS":
            return grpc_failure(received, ended=ended)
        case _:
            return "" if details.response in received else "its answer is not the expected one"


def http_request(target: ProbeTarget, *, keep: bool) -> bytes:
    """A request without body, HEAD by default, to the path and host of a target.

    Characters of these that could break out of their line are left out; headers are added as they
    are configured. The connection closes after it unless `keep`.
    """
    details = target.details or NO_DETAILS
    path = "".join(c for c in target.path if c.isascii() and c.isprintable() and c != " ") or "/"
    host = "".join(c for c in target.host or target.address if c.isascii() and c.isprintable())
    lines = [
        f"{details.method or 'HEAD'} {path} HTTP/1.1",
        f"Host: {host}",
        "User-Agent: hanse-probe",
        f"Connection: {'keep-alive' if keep else 'close'}",
        *details.headers.splitlines(),
    ]
    if "accept:" not in details.headers.lower():
        lines.append("Accept: */*")
    return "\r\n".join((*lines, "", "")).encode()


def http_failure(answer: bytes, codes: str = "") -> str:
    """The failure that a response means, also an empty one or one that is no HTTP.

    Empty if its status is in `codes` (default: 2xx, 3xx).
    """
    line = answer.partition(b"\r\n")[0].decode("ascii", "replace")
    version, _, rest = line.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/") or not (code.isascii() and code.isdecimal()):
        return "it does not speak HTTP" if answer else CLOSED
    good = codes.lower().split(",") if codes else ("2xx", "3xx")
    return "" if code in good or f"{code[0]}xx" in good else f"HTTP status {code}"


# -- gRPC

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _END_HEADERS, _PADDED = 1, 4, 8
_FRAME_HEADER = 9
_MAX_GRPC_RESPONSE = 65_536
_STATES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
NO_HEALTH = "it gives no health by gRPC"


def grpc_request(target: ProbeTarget) -> bytes:
    """The connection preface and a call of grpc.health.v1.Health/Check for the target's service."""
    service = (target.details or NO_DETAILS).service.encode()
    message = b"\x0a" + _varint(len(service)) + service if service else b""
    headers = (
        b"\x83"  # :method POST
        + (b"\x87" if target.type == "GRPCS" else b"\x86")  # :scheme
        + b"\x04"  # :path
        + _hpack_string(b"/grpc.health.v1.Health/Check")
        + b"\x01"  # :authority
        + _hpack_string((target.host or target.address).encode("ascii", "replace"))
        + b"\x0f\x10"  # content-type
        + _hpack_string(b"application/grpc")
        + b"\x00"
        + _hpack_string(b"te")
        + _hpack_string(b"trailers")
        + b"\x0f\x2b"  # user-agent
        + _hpack_string(b"hanse-probe")
    )
    body = b"\x00" + len(message).to_bytes(4, "big") + message
    return (
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS, 1, headers)
        + _frame(_DATA, _END_STREAM, 1, body)
    )


def grpc_failure(received: bytes, *, ended: bool) -> str | None:
    """The failure that an answer means, empty if it is SERVING; None while it is incomplete.

    It is also a failure if it has `ended`, or is too long, without a message.
    """
    rest, message = received, b""
    if len(rest) > 3 and rest[3] != _SETTINGS:
        return "it does not speak HTTP/2"
    while len(rest) >= _FRAME_HEADER:
        length, kind, flags = int.from_bytes(rest[:3], "big"), rest[3], rest[4]
        payload = rest[_FRAME_HEADER : _FRAME_HEADER + length]
        if len(payload) < length:
            break
        rest = rest[_FRAME_HEADER + length :]
        if kind == _DATA:
            pad = payload[0] if flags & _PADDED and payload else 0
            message += payload[1 : len(payload) - pad] if flags & _PADDED else payload
            if (state := _health_state(message)) is not None:
                return "" if state == "SERVING" else f"its health by gRPC is {state}"
        elif kind in (_RST_STREAM, _GOAWAY):
            return NO_HEALTH
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            return NO_HEALTH
    if len(received) >= _MAX_GRPC_RESPONSE:
        return NO_HEALTH
    return (NO_HEALTH if received else CLOSED) if ended else None


def _health_state(message: bytes) -> str | None:
    """The state in a prefixed HealthCheckResponse, UNKNOWN without any; None while incomplete."""
    if len(message) < 5 or len(message) < 5 + int.from_bytes(message[1:5], "big"):
        return None
    body = message[5:]
    if body[:1] != b"\x08":  # field 1 is left out for its first value
        return _STATES[0]
    return _STATES[body[1]] if len(body) > 1 and body[1] < len(_STATES) else _STATES[0]


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """An HTTP/2 frame with its header."""
    header = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return header + payload


def _hpack_string(text: bytes) -> bytes:
    """An HPACK string without Huffman coding."""
    if len(text) < 127:
        return bytes((len(text),)) + text
    return b"\x7f" + _varint(len(text) - 127) + text


def _varint(number: int) -> bytes:
    """A number in groups of seven bits, as HPACK and protobuf have it."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)
