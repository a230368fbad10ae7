"""Errors that end a command with one line on stderr, and the exit statuses of the program.

InputError       the input cannot be used: exit status 2
CommandFailed    the input is fine, and the operation did not succeed: exit status 1
"""

import click

EXIT_PROBLEM = 1
"""The command ran, and something that it looked at is wrong."""
EXIT_BAD_INPUT = 2
EXIT_INTERNAL_ERROR = 70
EXIT_INTERRUPTED = 130


class InputError(click.ClickException):
    """The input cannot be used; the message names the option or object, and the remedy."""

    exit_code = EXIT_BAD_INPUT


class CommandFailed(click.ClickException):
    """The input is valid, but the operation did not succeed."""

    exit_code = EXIT_PROBLEM


def credentials_error(error: Exception) -> InputError:
    """The error, returned to be raised, for an unusable kubeconfig; always with a remedy."""
    text = str(error)
    return InputError(text if ";" in text else f"{text}; name a readable file with --kubeconfig")


def format_error(error: click.ClickException) -> str:
    """An error as a single line; usage errors point at the command's help."""
    text = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "hanse"
        return f"{path}: {text[:1].lower()}{text[1:]}; see `{path} --help`"
    return f"hanse: {text}"
