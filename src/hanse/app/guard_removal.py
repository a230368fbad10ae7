"""What takes the guard's rules and its CNI plugin from a machine."""

import logging
from collections.abc import Callable

from hanse.app.cni_folders import (
    CniFolders,
    Commands,
    all_folders,
    give_back_config,
    installed_folders,
    remove_plugin,
)
from hanse.features.networks.guard.transaction import REMOVAL
from hanse.providers.nftables import Nftables, NftablesError

log = logging.getLogger(__name__)


class GuardUnavailable(Exception):
    """This machine cannot be guarded; the message says why."""


async def remove_rules(cni: CniFolders | None) -> None:
    """Remove the rules of this machine and its CNI plugin, as `remove_all`.

    The plugin is also removed from the folders that an earlier guard noted. Raises
    `GuardUnavailable` if that fails.
    """
    try:
        await remove_all(cni, open_rules)
    except (NftablesError, OSError) as error:
        raise GuardUnavailable(f"the rules cannot be removed: {error}") from None


async def remove_all(cni: CniFolders | None, opened: Callable[[], Commands]) -> None:
    """Delete our CNI configuration, whatever nftables answers; then the rules, then the CNI plugin.

    In the folders `cni`, if given, and in those that an earlier guard noted. What the end of pods
    needs stays while they run. Raises `NftablesError`, `OSError`, and what `opened` raises.
    """
    places = all_folders(cni, installed_folders())
    await give_back_config(places)
    rules = opened()
    rules.run(REMOVAL)
    await remove_plugin(places, rules)


async def remove_installed_plugin(rules: Commands) -> None:
    """Remove the CNI plugin of an earlier guard, and the rules of ports; no effect without one.

    The outcome is logged; failures are not raised.
    """
    if (installed := installed_folders()) is None:
        return
    try:
        await remove_plugin([installed], rules)
        log.info("the CNI plugin of this node is removed")
    except (NftablesError, OSError) as error:
        log.warning("the CNI plugin is not wholly removed", extra={"why": str(error)})


def open_rules() -> Nftables:
    """The nftables of this machine; raises `GuardUnavailable` if they cannot be used."""
    try:
        return Nftables()
    except NftablesError as error:
        raise GuardUnavailable(str(error)) from None
