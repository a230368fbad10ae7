"""The options of tenant networks, also as agents of 0.1.0 were given them."""

import click
import pytest
from click.testing import CliRunner

from hanse.cli.agent.network_options import NetworkFlags, network_options, parse_network_options


def isolation(*arguments: str, **env: str) -> tuple[bool, bool]:
    """Whether guards, and whether ClusterNetworkPolicies are said to isolate networks."""
    found: list[tuple[bool, bool]] = []

    @click.command()
    @network_options
    def command(networks: NetworkFlags) -> None:
        options = parse_network_options(networks, "agent")
        found.append((options.guard, options.admin_policies))

    result = CliRunner().invoke(command, arguments, env=env, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


@pytest.mark.parametrize(
    ("arguments", "env", "guards", "policies"),
    [
        pytest.param((), {}, False, False, id="by default our NetworkPolicies"),
        pytest.param(("--network-node-guards",), {}, True, False, id="guards"),
        pytest.param((), {"HANSE_NETWORK_GUARD": "true"}, True, False, id="guards of the chart"),
        pytest.param(("--network-admin-policies",), {}, False, True, id="ClusterNetworkPolicies"),
        pytest.param(("--network-guard",), {}, False, True, id="what 0.1.0 called a guard"),
        pytest.param(("--no-network-guard",), {}, False, False, id="and not"),
    ],
)
def test_nobody_is_taken_to_run_guards_who_did_not_say_so(
    arguments: tuple[str, ...], env: dict[str, str], guards: bool, policies: bool
) -> None:
    assert isolation(*arguments, **env) == (guards, policies)
