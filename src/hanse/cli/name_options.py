"""Options that name what a command is about, checked before anything is read or written."""

import re

import click

from hanse.cli.errors import InputError
from hanse.model.broker_namespace import accounts_namespace
from hanse.model.naming import is_label
from hanse.model.schema import SUBDOMAIN

_LONGEST_NAME = 253
"""Characters of the name of an object that is no part of DNS names."""


def checked_broker_namespace(_context: click.Context, option: click.Parameter, text: str) -> str:
    """Option callback: the namespace where clusters share, unchanged; `InputError` if invalid.

    It must be a DNS label, and leave room for the name of the namespace of accounts, which is made
    from it.
    """
    if not (is_label(text) and is_label(accounts_namespace(text))):
        longest = 63 - len(accounts_namespace(""))
        raise InputError(
            f"{option.opts[0]} {text!r} is no name of a namespace; use up to {longest} lower-case "
            "letters, digits and dashes, with a letter or digit at both ends"
        )
    return text


def checked_member_id(_context: click.Context, option: click.Parameter, text: str) -> str:
    """Option callback: a cluster id, unchanged; raises `InputError` if it is not a DNS label.

    Whether such a cluster exists is not checked.
    """
    if not is_label(text):
        raise InputError(
            f"{option.opts[0]}: cluster id {text!r} is not a DNS label, so that no cluster has it"
        )
    return text


def check_federation_name(name: str) -> None:
    """Raise `InputError` unless a name is a DNS subdomain of at most 253 characters."""
    if len(name) > _LONGEST_NAME or re.search(SUBDOMAIN, name) is None:
        raise InputError(
            f"--federation {name[:80]!r} is no name of a Federation; use lower-case letters, "
            "digits, dashes and dots, such as league"
        )
