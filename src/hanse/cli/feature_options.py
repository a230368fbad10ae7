"""The option by which features are switched on, the same for every command."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hanse.cli.errors import InputError
from hanse.model.feature_names import FEATURES, UnknownFeature, parse_features

Command = TypeVar("Command", bound=Callable[..., Any])


def features_option(about: str) -> Callable[[Command], Command]:
    """Decorate a command with `--features`; `about` says what they decide there."""
    return click.option(
        "--features",
        default="all",
        show_default=True,
        envvar="HANSE_FEATURES",
        show_envvar=True,
        metavar="NAMES",
        callback=_parse,
        help=f"{about}, parted by commas: {', '.join(FEATURES)}.",
    )


def _parse(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:  # noqa: ARG001 - click's signature
    """Callback of --features: the features, with those that they require, or `InputError`."""
    try:
        return parse_features(text)
    except UnknownFeature as error:
        raise InputError(f"--features: {error}") from None


def features_argument(features: tuple[str, ...]) -> str:
    """` --features A,B` with a leading blank, for commands in hints; "" if all are on."""
    return "" if features == FEATURES else f" --features {','.join(features)}"
