"""Renders an installation as plain manifests or as the files of a Helm chart."""

import json
from typing import Any

import yaml

from hanse import __version__
from hanse.cli.manifests.objects import chart_files
from hanse.cli.manifests.value_source import HelmValues, PlainValues
from hanse.cli.manifests.values import Values, schema, values_yaml
from hanse.cli.yaml_text import to_yaml
from hanse.model.crds import crds

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
"""


def render_manifests(values: Values, *, with_crds: bool = True) -> str:
    """All manifests for a cluster as YAML, with given values."""
    source = PlainValues(values)
    wanted = [
        one for _, on, make in chart_files() if not on or source.value(on) for one in make(source)
    ]
    return to_yaml([*(crds() if with_crds else ()), *wanted])


def render_chart() -> dict[str, str]:
    """The files of the chart, by path."""
    files = {
        "Chart.yaml": yaml.dump(CHART, sort_keys=False),
        "values.yaml": "# What can be chosen, with its defaults.\n" + values_yaml(Values()),
        "values.schema.json": json.dumps(schema(), indent=2) + "\n",
        "templates/NOTES.txt": NOTES,
    }
    for crd in crds():
        files[f"crds/{crd['metadata']['name']}.yaml"] = to_yaml([crd])
    for name, on, make in chart_files():
        text = to_yaml([_keep_namespace(one) for one in make(HelmValues())])
        guarded = f"{{{{- if .Values.{on} }}}}\n{text}{{{{- end }}}}\n" if on else text
        files[f"templates/{name}.yaml"] = guarded
    return files


def _keep_namespace(obj: dict[str, Any]) -> dict[str, Any]:
    """Annotate a Namespace so that Helm keeps it: it holds objects that are not ours."""
    if obj["kind"] != "Namespace":
        return obj
    annotations = {"helm.sh/resource-policy": "keep"}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
