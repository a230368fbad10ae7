"""Read the built-in kinds' field names, numbers and types from the Kubernetes Go modules.

    python tools/builtin_fields.py "$(go env GOMODCACHE)/k8s.io" v0.35.4

Prints the table that `tinykube.builtin_types` loads: only facts that a client sees on the
wire, for the kinds the embedded cluster serves and what they are made of.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOTS = {
    "core/v1": (
        "Namespace Pod Service Endpoints Node Secret ConfigMap ServiceAccount Event Binding "
        "PersistentVolumeClaim PersistentVolume ResourceQuota LimitRange PodTemplate "
        "ReplicationController"
    ),
    "apps/v1": "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision",
    "autoscaling/v1": "Scale",
    "batch/v1": "Job CronJob",
    "policy/v1": "PodDisruptionBudget Eviction",
    "networking/v1": "Ingress IngressClass NetworkPolicy ServiceCIDR IPAddress",
    "discovery/v1": "EndpointSlice",
    "coordination/v1": "Lease",
    "events/v1": "Event",
    "rbac/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "admissionregistration/v1": (
        "MutatingWebhookConfiguration ValidatingWebhookConfiguration "
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
    ),
    "scheduling/v1": "PriorityClass",
    "storage/v1": "StorageClass",
    "authentication/v1": "TokenRequest TokenReview SelfSubjectReview",
    "authorization/v1": (
        "SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview "
        "SelfSubjectRulesReview"
    ),
    "apiextensions/v1": "CustomResourceDefinition",
    "meta/v1": "ObjectMeta ListMeta DeleteOptions Status",
}
SCALARS = {
    "string": "string", "bool": "bool", "[]byte": "bytes", "byte": "int32", "float64": "number",
    "int32": "int32", "int64": "int64", "int": "int64", "uint32": "int32", "uint64": "int64",
}  # fmt: skip
# Types with a JSON form of their own; the decoder knows each by name.
SPECIAL = {
    "meta/v1.Time": "time", "meta/v1.MicroTime": "microtime", "meta/v1.Duration": "duration",
    "meta/v1.FieldsV1": "json", "resource.Quantity": "quantity",
    "intstr.IntOrString": "intorstring",
    "runtime.RawExtension": "json", "runtime.Object": "json", "types.UID": "string",
    "apiextensions/v1.JSON": "any", "apiextensions/v1.JSONSchemaPropsOrBool": "any",
    "apiextensions/v1.JSONSchemaPropsOrArray": "any", "types.NodeName": "string",
    "apiextensions/v1.JSONSchemaPropsOrStringArray": "any", "types.NamespacedName": "string",
}  # fmt: skip
IMPORTED = {
    "metav1": "meta/v1",
    "apiv1": "core/v1",
    "corev1": "core/v1",
    "authenticationv1": "authentication/v1",
}
STRUCT = re.compile(r"^type (\w+) struct ?\{(?:\n(.*?)^)?\}", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^type (\w+) (?!struct\b|interface\b|=)([\w.\[\]*]+)", re.MULTILINE)
FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.\[\]*]+)\s+`(.*)`", re.MULTILINE)


class GoStruct(Struct):
    """One struct of a package: its fields' source lines with the comments before them."""

    package: str
    body: str


class Sources:
    """The Go types of the packages in ROOTS, by their names in our table."""

    def __init__(self, modules: Path, version: str) -> None:
        self.structs: dict[str, GoStruct] = {}
        self.named: dict[str, str] = {}
        for package in ROOTS:
            match package.split("/")[0]:
                case "meta":
                    folder = modules / f"apimachinery@{version}" / "pkg/apis/meta/v1"
                case "apiextensions":
                    folder = modules / f"apiextensions-apiserver@{version}" / "pkg/apis" / package
                case _:
                    folder = modules / f"api@{version}" / package
            for file in sorted(folder.glob("*types*.go")) + sorted(folder.glob("micro_time.go")):
                self._read(package, file.read_text())

    def _read(self, package: str, text: str) -> None:
        for name, body in STRUCT.findall(text):
            self.structs[f"{package}.{name}"] = GoStruct(package, body)
        for name, target in NAMED.findall(text):
            self.named[f"{package}.{name}"] = self._qualified(package, target)

    def _qualified(self, package: str, name: str) -> str:
        prefix, name = re.match(r"((?:\[\]|\*|map\[[\w.]+\])*)(.*)", name).groups()  # type: ignore[union-attr]
        if prefix == "[]" and name == "byte":
            return "[]byte"
        if name in SCALARS:
            return prefix + name
        if "." in name:
            alias, _, name = name.rpartition(".")
            own = {"v1": package if package == "meta/v1" else "core/v1"}
            package = own.get(alias) or IMPORTED.get(alias, alias)
        return f"{prefix}{package}.{name}"

    def type_of(self, package: str, written: str) -> str:
        """The type as the table says it: `*` pointer, `[]` list, `{}` map of strings, a name."""
        name = self._qualified(package, written)
        marks = ""
        while True:
            if name in SCALARS:
                return marks + SCALARS[name]
            if name in SPECIAL:
                return marks + SPECIAL[name]
            if mark := re.match(r"\[\]|\*|map\[[\w./]+\]", name):
                marks += "{}" if mark[0].startswith("map") else mark[0]
                name = name[mark.end() :]
            elif name.endswith(".ExtraValue"):
                return marks + "items"  # on the wire a message around a list of strings
            elif name in self.named:
                name = self.named[name]
            else:
                return marks + name

    def fields(self, name: str) -> Iterator[tuple[int, str]]:
        """Each field's number and its line in the table, in the order of numbers."""
        struct = self.structs[name]
        start = 0
        for found in FIELD.finditer(struct.body):
            comment, start = struct.body[start : found.start()], found.end()
            tags = dict(re.findall(r'(\w+):"([^"]*)"', found[3]))
            if "protobuf" not in tags or tags.get("json", "-") == "-":
                continue
            kind = self.type_of(struct.package, found[2])
            json_name, *options = tags["json"].split(",")
            if "inline" in options:
                json_name = "+"
            omitted = "omitempty" in options
            required = "+required" in comment or not (omitted or "+optional" in comment)
            line = [json_name + ("!" if required and json_name != "+" else ""), kind]
            if omitted == required and json_name != "+":
                line.append("omitted" if omitted else "kept")
            if "patchStrategy" in tags:
                line.append(f"patch={tags['patchStrategy']}")
            if "patchMergeKey" in tags:
                line.append(f"key={tags['patchMergeKey']}")
            number = int(tags["protobuf"].split(",")[1])
            yield number, f"  {number} " + " ".join(line)


def table(modules: Path, version: str) -> Iterator[str]:
    """The whole table: every type reachable from ROOTS."""
    sources = Sources(modules, version)
    wanted = [f"{package}.{kind}" for package, kinds in ROOTS.items() for kind in kinds.split()]
    seen: set[str] = set()
    blocks: dict[str, list[str]] = {}
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        lines = [line for _, line in sorted(sources.fields(name))]
        blocks[name] = lines
        types = (line.split()[2].lstrip("*[]{}") for line in lines)
        wanted.extend(kind for kind in types if "." in kind)
    yield f"# {version}: number, name (! required, + inlined), type (* pointer, [] list, {{}} map)"
    for name in sorted(blocks):
        is_kind = "TypeMeta `json" in sources.structs[name].body
        yield f"{name} kind" if is_kind else name
        yield from blocks[name]


if __name__ == "__main__":
    print("\n".join(table(Path(sys.argv[1]), sys.argv[2])))
