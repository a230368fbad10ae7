"""Expressions in CEL as Kubernetes has them: what can be evaluated, and evaluating it.

The library implements the language; the functions that Kubernetes adds and that are used most are
here. An expression with others is refused when it is compiled, never at evaluation.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from ipaddress import ip_address, ip_network
from itertools import pairwise
from pathlib import Path
from typing import Any

_CORE_FUNCTIONS = frozenset(
    (
        *("bool", "bytes", "contains", "double", "duration", "dyn", "endsWith", "has", "int"),
        *("matches", "size", "startsWith", "string", "timestamp", "type", "uint"),
        *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear"),
        *("getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds"),
    )
)
"""The functions of the language itself; operators and macros have names that are no identifiers."""

MAX_EXPRESSION = 16 * 1024


class CompileError(Exception):
    """An expression that is not valid, or that cannot be evaluated here."""


class EvaluationError(Exception):
    """An expression that has no value for this input."""


class Expression:
    """A compiled expression, with the names of the variables that it reads."""

    __slots__ = ("_program", "source", "variables")

    def __init__(self, source: str, program: Any) -> None:
        """Wrap a program of the library, compiled from `source`."""
        self.source = source
        self._program = program
        self.variables = frozenset(program.variables())

    def evaluate(self, scope: "Scope") -> Any:
        """The value for the variables of a scope, of any type; raises `EvaluationError`."""
        try:
            return self._program.execute(scope.context(self.variables))
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise EvaluationError(_reason(error)) from error


class Scope:
    """Variables of one evaluation; those that no expression reads are never converted."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        """Copy the variables; each is converted when an expression first reads it."""
        self._values = dict(variables)
        self._context = _library().Context(functions=FUNCTIONS)
        self._added: set[str] = set()

    def set(self, name: str, value: Any) -> None:
        """Set or replace a variable; expressions evaluated later read the new value."""
        self._values[name] = value
        self._added.discard(name)

    def context(self, names: frozenset[str]) -> Any:
        """The library's context, one per scope; adds those of the names that the scope has.

        A name that is not set is not added, so that reading it fails at evaluation.
        """
        for name in names - self._added:
            if name in self._values:
                self._context.add_variable(name, self._values[name])
                self._added.add(name)
        return self._context


@lru_cache(maxsize=4096)
def compile_expression(source: str, variables: frozenset[str]) -> Expression:
    """Compile an expression that may read these variables; cached; raises `CompileError`.

    Refused are also unknown functions, unknown variables except names that a macro seems to bind,
    and more than `MAX_EXPRESSION` characters.
    """
    if len(source) > MAX_EXPRESSION:
        raise CompileError(f"it has more than {MAX_EXPRESSION} characters")
    try:
        program = _library().compile(source)
    except ValueError as error:
        raise CompileError(f"compilation failed: {_reason(error)}") from None
    for name in program.functions():
        if name.isidentifier() and name not in _CORE_FUNCTIONS and name not in FUNCTIONS:
            raise CompileError(f"function {name} is not available in an embedded cluster")
    bound = frozenset(re.findall(r"\(\s*([A-Za-z_]\w*)\s*,", source))  # by macros
    types = {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
    for name in program.variables():
        if name.isidentifier() and name not in variables | bound | types:
            raise CompileError(f"variable {name} is not available in an embedded cluster")
    return Expression(source, program)


@cache
def _library() -> Any:
    """The extension module `cel.cel`, loaded once without importing its package `cel`.

    The package imports a command line, which takes longer than all the rest.
    """
    package = find_spec("cel")
    folders = package.submodule_search_locations if package is not None else None
    assert folders, "common-expression-language is installed with tinykube"
    folder = next(iter(folders))
    files = (Path(folder, f"cel{suffix}") for suffix in EXTENSION_SUFFIXES)
    path = next(file for file in files if file.exists())
    loader = ExtensionFileLoader("cel.cel", str(path))
    spec = spec_from_loader("cel.cel", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _reason(error: Exception) -> str:
    """The first line of an error of the library; for a KeyError `no such key` and the key."""
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    return " ".join(str(error).split("\n", maxsplit=1)[0].split())


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    """CEL `split`: at most `limit` parts, all if it is negative.

    An empty separator gives the characters.
    """
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        if limit < 0 or len(parts) <= limit:
            return parts
        return [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    """CEL `substring`: up to the end by default; ValueError outside of the text."""
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise ValueError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def _char_at(text: str, at: int) -> str:
    """CEL `charAt`: empty at the end of the text; ValueError outside of it."""
    if not 0 <= at <= len(text):
        raise ValueError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(within: Any, wanted: Any, start: int = 0) -> int:
    """CEL `indexOf` in a text or a list, -1 if not found; `start` counts for texts only."""
    if isinstance(within, str):
        return within.find(wanted, start)
    return within.index(wanted) if wanted in within else -1


def _last_index_of(within: Any, wanted: Any) -> int:
    """CEL `lastIndexOf` in a text or a list, -1 if not found."""
    if isinstance(within, str):
        return within.rfind(wanted)
    found = [at for at, value in enumerate(within) if value == wanted]
    return found[-1] if found else -1


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """CEL `replace`: the first `limit` occurrences, all if it is negative."""
    return text.replace(old, new, limit)


def _join(texts: list[str], separator: str = "") -> str:
    """CEL `join`: the texts with the separator between them, by default without any."""
    return separator.join(texts)


def _find(text: str, pattern: str) -> str:
    """CEL `find`: the first match of a regular expression, or an empty text."""
    found = re.search(pattern, text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """CEL `findAll`: the matches of a regular expression, at most `limit` unless negative."""
    found = [one[0] for one in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    """A function that applies a change to the ASCII characters of a text, and keeps others."""
    return lambda text: "".join(change(one) if one.isascii() else one for one in text)


def _is_ip(text: str) -> bool:
    """CEL `isIP`: an IPv4 address in canonical form, or an IPv6 address in any."""
    try:
        return str(ip_address(text)) == text or ":" in text
    except ValueError:
        return False


def _is_cidr(text: str) -> bool:
    """CEL `isCIDR`: an address with a prefix length; the bits of the host may be set."""
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _cidr(text: str) -> str:
    """CEL `cidr`: the text unchanged; ValueError if it is no CIDR."""
    if not _is_cidr(text):
        raise ValueError(f"network address parse error during conversion from string: {text}")
    return text


def _contains_ip(network: str, address: str) -> bool:
    """CEL `containsIP`: whether a CIDR contains an address; ValueError if either is malformed."""
    return ip_address(address) in ip_network(network, strict=False)


def _is_sorted(values: list[Any]) -> bool:
    """CEL `isSorted`: whether no value is greater than the next; True for an empty list."""
    return all(one <= other for one, other in pairwise(values))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "charAt": _char_at,
    "cidr": _cidr,
    "containsIP": _contains_ip,
    "find": _find,
    "findAll": _find_all,
    "indexOf": _index_of,
    "isCIDR": _is_cidr,
    "isIP": _is_ip,
    "isSorted": _is_sorted,
    "join": _join,
    "lastIndexOf": _last_index_of,
    "lowerAscii": _ascii(str.lower),
    "max": max,
    "min": min,
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "sum": sum,
    "trim": str.strip,
    "upperAscii": _ascii(str.upper),
}
"""Functions that Kubernetes adds to the language, those for texts, lists, patterns and networks."""
