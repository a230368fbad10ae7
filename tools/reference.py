"""The API reference, made from the definitions of our kinds by `make reference`."""

from collections.abc import Iterator
from typing import Any

from hanse.model.crds import crds

INTRODUCTION = """\
# API reference

Every kind that Hanse brings, field by field. Made by `make reference` from the structs that the
program itself decodes; `hanse crds` prints the same as definitions, and `kubectl explain` shows
them in a cluster.
"""


def reference() -> str:
    """The whole page."""
    definitions = sorted(
        crds(), key=lambda crd: (crd["spec"]["group"], crd["spec"]["names"]["kind"])
    )
    parts = [INTRODUCTION, *_contents(definitions)]
    for definition in definitions:
        parts += ["", *_kind(definition)]
    return "\n".join(parts).rstrip() + "\n"


def _contents(definitions: list[dict[str, Any]]) -> Iterator[str]:
    yield "| kind | group | scope | short names |"
    yield "|---|---|---|---|"
    for crd in definitions:
        spec, names = crd["spec"], crd["spec"]["names"]
        short = ", ".join(f"`{name}`" for name in names.get("shortNames", ())) or "-"
        link = f"[{names['kind']}](#{names['kind'].lower()})"
        yield f"| {link} | `{spec['group']}` | {spec['scope'].lower()} | {short} |"


def _kind(crd: dict[str, Any]) -> Iterator[str]:
    spec = crd["spec"]
    served = [one for one in spec["versions"] if one["served"]]
    versions = ", ".join(f"`{spec['group']}/{one['name']}`" for one in served)
    schema = next(one for one in served if one["storage"])["schema"]["openAPIV3Schema"]
    yield f"## {spec['names']['kind']}"
    yield ""
    yield f"{schema.get('description', '')} Versions: {versions}."
    yield ""
    yield "| field | type | |"
    yield "|---|---|---|"
    for name, field in schema["properties"].items():
        if name not in ("apiVersion", "kind", "metadata"):
            yield from _field(name, field, name in schema.get("required", ()))


def _field(path: str, schema: dict[str, Any], required: bool) -> Iterator[str]:
    yield f"| `{path}` | {_type(schema)} | {_about(schema, required)} |"
    inner = schema.get("items", schema)
    below = f"{path}[]" if "items" in schema else path
    for name, field in inner.get("properties", {}).items():
        yield from _field(f"{below}.{name}", field, name in inner.get("required", ()))


def _type(schema: dict[str, Any]) -> str:
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema['items'])}s"
    if "additionalProperties" in schema:
        return "map"
    return kind


def _about(schema: dict[str, Any], required: bool) -> str:
    told = [schema.get("description", "")]
    if required:
        told.append("Required.")
    if "enum" in schema:
        told.append("One of " + ", ".join(f"`{one}`" for one in schema["enum"]) + ".")
    if "default" in schema and not isinstance(schema["default"], dict | list):
        told.append(
            f"Default: `{schema['default']}`.".replace("`True`", "`true`").replace(
                "`False`", "`false`"
            )
        )
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        told.append(f"From {low} to {high}.")
    rules = [
        rule["message"] for rule in schema.get("x-kubernetes-validations", ()) if "message" in rule
    ]
    told += [f"{rule[:1].upper()}{rule[1:]}." for rule in rules]
    return " ".join(part for part in told if part).replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    print(reference(), end="")
