"""Follows the log level in the GSLBConfig of an agent's cluster."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hanse.features.gslb.configuration import InvalidConfiguration, read_configuration
from hanse.logs import set_level
from hanse.model.kinds.gslb import GSLBConfig
from hanse.model.snapshot import Change, ObjectChange
from hanse.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)

_LEVELS = {"DEBUG": logging.DEBUG, "WARN": logging.WARNING, "ERROR": logging.ERROR}
"""Levels by their name in GSLBConfig; INFO, the default there, keeps the agent's own level."""


@contextmanager
def following_log_level(reconciler: Reconciler) -> Iterator[None]:
    """Follow changes of the GSLBConfig's log level until the block ends; then the initial is set.

    Where the initial level is DEBUG (`--verbose`), it stays.
    """
    initial = logging.getLogger().level

    def on_change(change: Change) -> None:
        """If the change is of a GSLBConfig, set the root log level to that of the configuration.

        The initial level if the configuration is invalid, gone or says INFO, or if that is DEBUG.
        Logs a changed level.
        """
        if isinstance(change, ObjectChange) and isinstance(change.object, GSLBConfig):
            config = read_configuration(reconciler.snapshot())
            level_name = (
                "INFO" if isinstance(config, InvalidConfiguration) else config.object.spec.log_level
            )
            level = initial if initial <= logging.DEBUG else _LEVELS.get(level_name, initial)
            if level != logging.getLogger().level:
                set_level(level)
                log.log(level, "log level set", extra={"level": logging.getLevelName(level)})

    reconciler.event_handlers.append(on_change)
    try:
        yield
    finally:
        reconciler.event_handlers.remove(on_change)
        set_level(initial)
