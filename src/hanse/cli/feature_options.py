"""The option by which features are switched on, the same for every command."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hanse.cli.errors import InputError
from hanse.model.feature_names import FEATURES, UnknownFeature, parse_features

Command = TypeVar("Command", bound=Callable[..., Any])


def features_option(about: str) -> Callable[[Command], Command]:
    """Decorate a command with `--features`, else $HANSE_FEATURES, else all.

    Its value is a tuple of names, with the features that they require; `about` begins its help.
    """
    return click.option(
        "--features",
        default="all",
        show_default=True,
        envvar="HANSE_FEATURES",
        show_envvar=True,
        metavar="NAMES",
        callback=lambda _context, _option, text: parse_features_option(text),
        help=f"{about}, parted by commas: {', '.join(FEATURES)}.",
    )


def parse_features_option(text: str) -> tuple[str, ...]:
    """The features of a comma-separated list, or all for `all`, with those that they require.

    Raises `InputError` for an unknown feature, or an empty list.
    """
    try:
        return parse_features(text)
    except UnknownFeature as error:
        raise InputError(f"--features: {error}") from None


def features_argument(features: tuple[str, ...]) -> str:
    """` --features A,B` with a leading blank, for commands in hints; "" if all are on."""
    return "" if features == FEATURES else f" --features {','.join(features)}"
