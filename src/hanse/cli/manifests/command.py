"""`hanse manifests`: print an installation, its values, or write its Helm chart."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hanse.cli.errors import InputError

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")

if TYPE_CHECKING:
    from hanse.cli.manifests.values import Values


@click.command("manifests")
@click.option("--cluster-id", default="", metavar="ID", help="This cluster's name in the fleet.")
@click.option(
    "-f",
    "--values",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A YAML file of values, as for the chart.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="One value, as image.tag=1.0 or dns.enabled=false. Repeatable.",
)
@click.option(
    "--features",
    default="",
    metavar="NAMES",
    help="What the agent does, parted by commas: the value features. [default: all]",
)
@click.option("--explain", is_flag=True, help="Print each right of the agent and why, instead.")
@click.option("--no-crds", is_flag=True, help="Without the definitions of kinds.")
@click.option("--rights", is_flag=True, help="Only the agent's account, namespaces and rights.")
@click.option(
    "--chart",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write the Helm chart into a new folder instead.",
)
@click.option("--show-values", is_flag=True, help="Print every value with its meaning instead.")
def command(
    cluster_id: str,
    file: Path | None,
    settings: tuple[str, ...],
    features: str,
    explain: bool,
    no_crds: bool,
    rights: bool,
    chart: Path | None,
    show_values: bool,
) -> None:
    """Print what an installation is made of, or write its Helm chart.

    The agent with its rights, its Service, its budget and its network policy, the name server, and
    the definitions of all kinds; the Helm chart is made of the same. `hanse join` comes first: it
    makes the Secret by which the agent reaches the broker.

    \b
    Examples:
      hanse manifests --cluster-id lubeck | kubectl apply --server-side -f -
      hanse manifests --cluster-id lubeck --set image.repository=registry.example/hanse
      hanse manifests --show-values >values.yaml
      hanse manifests --chart ./hanse
      helm install hanse ./hanse --set clusterId=lubeck --take-ownership
    """
    from hanse.cli.manifests.explain import render_explanation
    from hanse.cli.manifests.render import render_chart, render_manifests
    from hanse.cli.manifests.values import Values, values_yaml

    if show_values:
        click.echo(values_yaml(Values()), nl=False)
    elif chart is not None:
        _write_files(render_chart(), chart)
    elif explain:
        values = _parse_values(cluster_id or "this-cluster", file, settings, features)
        click.echo(render_explanation(values), nl=False)
    else:
        values = _parse_values(cluster_id, file, settings, features)
        click.echo(render_manifests(values, with_crds=not no_crds, only_rights=rights), nl=False)


def _write_files(files: dict[str, str], folder: Path) -> None:
    """Write the files below a folder, which is created, and print their number to stderr.

    Raises `InputError` if the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"--chart {folder}: it is not empty; name a new folder")
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    click.echo(f"{len(files)} files are in {folder}", err=True)


def _parse_values(
    cluster_id: str, file: Path | None, settings: tuple[str, ...], features: str
) -> "Values":
    """The values of a file, overridden by --set, then by --cluster-id and --features.

    --features also brings the features that those named require. Raises `InputError` for an unknown
    or invalid value, and without a clusterId.
    """
    import msgspec

    from hanse.cli.feature_options import parse_features_option
    from hanse.cli.manifests.values import Values
    from hanse.model.naming import CLUSTER_ID

    tree = _read_values(file) if file is not None else {}
    for setting in settings:
        _set_value(tree, setting)
    if cluster_id:
        tree["clusterId"] = cluster_id
    if features:
        tree["features"] = list(parse_features_option(features))
    named = tree.get("clusterId")
    if not named:
        raise InputError("clusterId is not chosen; name this cluster with --cluster-id")
    if isinstance(named, str) and not CLUSTER_ID.fullmatch(named):
        raise InputError(
            f"--cluster-id {named[:70]!r} is not a DNS label; use at most 63 lower-case letters, "
            "digits and hyphens, such as lubeck"
        )
    try:
        return msgspec.convert(tree, Values)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{_describe_error(str(error))}; see `hanse manifests --show-values`"
        ) from None


def _describe_error(error: str) -> str:
    """A decoder's error as `PATH: what is wrong`, with the value's path first.

    For an unknown value it is `there is no value PATH`.
    """
    what, _, where = error.partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    unknown = _UNKNOWN.fullmatch(what)
    if unknown is not None:
        return f"there is no value {path + '.' if path else ''}{unknown[1]}"
    return f"{path}: {what[:1].lower()}{what[1:]}".replace("`", "")


def _read_values(file: Path) -> dict[str, Any]:
    """The mapping in a YAML file, {} for an empty file.

    Raises `InputError` if it cannot be read, is not YAML, or holds something else.
    """
    import yaml

    from hanse.model.yaml_input import load_yaml

    try:
        tree = load_yaml(file.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", "") or getattr(error, "problem", "") or "it is not YAML"
        raise InputError(f"--values {file}: {why}; name a YAML file") from None
    if not isinstance(tree, dict):
        raise InputError(f"--values {file}: it holds no names and values; see --show-values")
    return tree


def _set_value(tree: dict[str, Any], setting: str) -> None:
    """Set NAME=VALUE in the tree, in place; dots in NAME make nested groups, and VALUE is YAML.

    Raises `InputError` for other text, or if a group on the way is a plain value.
    """
    import yaml

    from hanse.model.yaml_input import load_yaml

    path, equals, text = setting.partition("=")
    if not equals or not path:
        raise InputError(f"--set {setting!r} is not NAME=VALUE; write it as image.tag=1.0")
    *parents, last = path.split(".")
    place = tree
    for parent in parents:
        below = place.setdefault(parent, {})
        if not isinstance(below, dict):
            raise InputError(f"--set {path}: {parent} is no group of values; see --show-values")
        place = below
    try:
        place[last] = load_yaml(text)
    except yaml.YAMLError as error:
        why = getattr(error, "problem", "") or "it is not YAML"
        raise InputError(f"--set {path}: {why}; write it as image.tag=1.0") from None
