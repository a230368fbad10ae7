"""Renders an installation as plain manifests or as the files of a Helm chart."""

import json
from typing import Any

import yaml

from hanse import __version__
from hanse.cli.manifests.objects import chart_files
from hanse.cli.manifests.rights import crd_files, rights_files
from hanse.cli.manifests.value_source import HelmValues, PlainValues
from hanse.cli.manifests.values import Values, schema, values_yaml
from hanse.cli.yaml_text import to_yaml

CHART = {
    "apiVersion": "v2",
    "name": "hanse",
    "description": "A federation control plane for Kubernetes: many clusters, one network.",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "kubeVersion": ">=1.30.0-0",
    "keywords": ["multi-cluster", "federation", "dns", "gslb"],
}

NOTES = """\
Hanse {{ .Chart.AppVersion }} runs as cluster {{ .Values.clusterId }}.

  kubectl -n hanse-system get pods
  hanse status
  hanse doctor
{{- if .Values.dns.enabled }}

Let the cluster's own DNS hand {{ .Values.dns.zone }} over: add to the Corefile what this prints,
with the address that `kubectl -n hanse-system get service hanse-dns` shows:

  hanse dns corefile ADDRESS
{{- end }}
{{- if and .Values.gslb.enabled (not (.Capabilities.APIVersions.Has "amko.vmware.com/v1alpha1")) }}

The kind AMKOCluster is defined now; run `helm upgrade` once more, which creates the object.
{{- end }}
"""


def render_manifests(values: Values, *, with_crds: bool = True, only_rights: bool = False) -> str:
    """All manifests whose condition holds for the values, as YAML; CRDs first, unless left out.

    With `only_rights` only the agent's account, namespaces and rights, never CRDs or workloads.
    """
    source = PlainValues(values)
    installed = (*(crd_files() if with_crds else ()), *chart_files())
    files = rights_files() if only_rights else installed
    return to_yaml([one for f in files if f.when.holds(values) for one in f.objects(source)])


def render_chart() -> dict[str, str]:
    """The texts of the chart's files by path, with Helm templates for values; writes nothing.

    Each file of objects is within a Helm `if` of its condition; Namespaces and CRDs are never
    deleted by Helm.
    """
    files = {
        "Chart.yaml": yaml.dump(CHART, sort_keys=False),
        "values.yaml": "# What can be chosen, with its defaults.\n" + values_yaml(Values()),
        "values.schema.json": json.dumps(schema(), indent=2) + "\n",
        "templates/NOTES.txt": NOTES,
    }
    for file in (*crd_files(), *chart_files()):
        text = to_yaml([_keep(one) for one in file.objects(HelmValues())])
        files[f"templates/{file.name}.yaml"] = file.when.guard(text)
    return files


def _keep(obj: dict[str, Any]) -> dict[str, Any]:
    """The object; of a Namespace or CRD a copy annotated so that Helm never deletes it."""
    if obj["kind"] not in ("Namespace", "CustomResourceDefinition"):
        return obj
    known = obj["metadata"].get("annotations", {})
    annotations = {**known, "helm.sh/resource-policy": "keep"}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
