"""Every option of the agent and of the name server can be chosen by a value of the chart."""

import typing
from collections.abc import Iterator
from typing import Any

import click
import msgspec
import pytest
from click.core import ParameterSource

from hanse.cli.agent.command import command as agent_command
from hanse.cli.dns.command import command as dns_command
from hanse.cli.manifests.objects import chart_files
from hanse.cli.manifests.value_source import PlainValues
from hanse.cli.manifests.values import Values

COMMANDS: dict[str, click.Command] = {"agent": agent_command, "dns": dns_command}

INSTALLED = {
    "agent": {
        "listen": "the port of probes and of the Service",
        "identity": "the pod's name",
        "namespace": "the pod's own",
        "default_network_template_path": "a mounted file; its text is networks.template",
        "dashboard_token_file": "a mounted file; its Secret is dashboard.tokenSecret",
    },
    "dns": {
        "listen": "the port of the Service",
        "metrics_listen": "the port of probes",
        "cache": "a folder of the pod, which survives its containers",
        "network": "of the name servers of tenant networks, which the agent runs",
        "follow": "the same",
        "namespaces": "the same",
        "networks": "of the name server that networks share, which is installed beside",
        "domain": "the same",
    },
}
"""The options that an installation decides, and by what."""


@pytest.mark.parametrize("program", COMMANDS)
def test_every_option_follows_a_value(program: str) -> None:
    default = _options(program, {})
    moved: set[str] = set()
    for change in _changes(Values()):
        options = _options(program, change)
        moved |= {name for name, value in options.items() if value != default[name]}

    wanted = {name for param in _own_options(COMMANDS[program]) if (name := param.name)}

    assert moved == wanted - set(INSTALLED[program])


def test_a_template_of_networks_is_mounted_and_restarts_agents() -> None:
    before, after = _objects({}), _objects({"networks": {"template": "metadata: {name: mine}"}})
    maps = [found["ConfigMap", "hanse-network-template"]["data"] for found in (before, after)]
    pods = [found["Deployment", "hanse-agent"]["spec"]["template"] for found in (before, after)]
    [path] = [one["value"] for one in _environment(pods[1]) if "TEMPLATE_PATH" in one["name"]]
    mounts = {
        one["mountPath"]: one["name"] for one in pods[1]["spec"]["containers"][0]["volumeMounts"]
    }
    volumes = {one["name"]: one for one in pods[1]["spec"]["volumes"]}

    assert maps[1] == {"template": "metadata: {name: mine}"}
    assert maps[0] != maps[1]
    assert pods[0]["metadata"] != pods[1]["metadata"]
    assert volumes[mounts[path.removesuffix("/template")]]["configMap"]["name"] == (
        "hanse-network-template"
    )


def _own_options(command: click.Command) -> list[click.Option]:
    """The options of a command itself, not those that all commands have."""
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


def _options(program: str, change: dict[str, Any]) -> dict[str, Any]:
    """The options as the program in the pod understands them; fails for what it refuses."""
    template = _objects(change)["Deployment", f"hanse-{program}"]["spec"]["template"]
    environment = {one["name"]: one["value"] for one in _environment(template) if "value" in one}
    [_, *arguments] = template["spec"]["containers"][0]["args"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        context = COMMANDS[program].make_context(program, arguments, resilient_parsing=False)
    given = {ParameterSource.ENVIRONMENT, ParameterSource.COMMANDLINE}
    return {
        name: context.params.get(name) if context.get_parameter_source(name) in given else None
        for param in _own_options(COMMANDS[program])
        if (name := param.name)
    }


def _environment(template: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = template["spec"]["containers"][0]["env"]
    return found


def _objects(change: dict[str, Any]) -> dict[tuple[str, str], Any]:
    values = msgspec.convert({"clusterId": "lubeck", **change}, Values)
    source = PlainValues(values)
    files = [file for file in chart_files() if file.name in COMMANDS]
    found = [one for file in files for one in file.objects(source)]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def _changes(values: msgspec.Struct) -> Iterator[dict[str, Any]]:
    """Values with one changed, for each value."""
    hints = typing.get_type_hints(type(values))
    for one in msgspec.structs.fields(values):
        current = getattr(values, one.name)
        if isinstance(current, msgspec.Struct):
            yield from ({one.encode_name: change} for change in _changes(current))
        else:
            yield {one.encode_name: _other(hints[one.name], current)}


def _other(hint: Any, current: Any) -> Any:
    """Another value of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return next(one for one in arguments if one not in ("", current))
    if origin is list:
        return [_other(arguments[0], next(iter(current), ""))]
    if isinstance(current, bool):
        return not current
    if isinstance(current, int):
        return current + 1
    if origin is dict:
        return {"other": "other"}
    return "other"
