"""What a person is told when a command cannot do what it was asked: one line, with the remedy.

Exit statuses: 0 all is well; 1 something is wrong out there; 2 the input is at fault;
70 the program is; 130 interrupted.
"""

import click

EXIT_PROBLEM = 1
EXIT_BAD_INPUT = 2
EXIT_INTERNAL_ERROR = 70
EXIT_INTERRUPTED = 130


class InputError(click.ClickException):
    """The input cannot be used; the message names the thing and the remedy."""

    exit_code = EXIT_BAD_INPUT


class CommandFailed(click.ClickException):
    """The input is fine, and what it asks for did not work out."""

    exit_code = EXIT_PROBLEM


def credentials_error(error: Exception) -> InputError:
    """What is wrong with a kubeconfig, always with what to do about it."""
    text = str(error)
    return InputError(text if ";" in text else f"{text}; name a readable file with --kubeconfig")


def format_error(error: click.ClickException) -> str:
    """An error as a single line, with where to read on if the call itself was wrong."""
    text = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "hanse"
        return f"{path}: {text[:1].lower()}{text[1:]}; see `{path} --help`"
    return f"hanse: {text}"
