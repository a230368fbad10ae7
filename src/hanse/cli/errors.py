"""What a person is told when a command cannot do what it was asked: one line, with the remedy.

Exit statuses: 0 all is well; 1 something is wrong out there; 2 the input is at fault;
70 the program is; 130 interrupted.
"""

import click

WRONG = 1
BAD_INPUT = 2
OUR_FAULT = 70
INTERRUPTED = 130


class Oops(click.ClickException):
    """The input cannot be used; the message names the thing and the remedy."""

    exit_code = BAD_INPUT


class Trouble(click.ClickException):
    """The input is fine, and what it asks for did not work out."""

    exit_code = WRONG


def bad_credentials(error: Exception) -> Oops:
    """What is wrong with a kubeconfig, always with what to do about it."""
    text = str(error)
    return Oops(text if ";" in text else f"{text}; name a readable file with --kubeconfig")


def one_line(error: click.ClickException) -> str:
    """An error as a single line, with where to read on if the call itself was wrong."""
    text = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "hanse"
        return f"{path}: {text[:1].lower()}{text[1:]}; see `{path} --help`"
    return f"hanse: {text}"
