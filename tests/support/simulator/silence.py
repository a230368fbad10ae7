"""The law of clusters that are silent: their services are in no answer of others."""

import math
from collections.abc import AsyncIterator, Mapping

from hanse.kube.lease_observer import RECONNECT_TIME
from hanse.model.objects import ClusterId
from tests.support.simulator.exports import NAMES
from tests.support.simulator.fleet import LEASE, RENEWAL, Fleet
from tests.support.simulator.laws import Law
from tests.support.simulator.names import Answer
from tests.support.simulator.schedule import BROKER

EXPIRY = LEASE.total_seconds() + 5
"""Seconds after which a silent cluster is in no answer of others."""

READ = 5.0
"""Seconds within which an agent that starts has read the broker: until then what stands counts."""


class DeadLeftOut(Law):
    """Dead clusters leave the answers of others."""

    name = "dead-left-out"
    sentence = (
        f"No answer names a cluster that has been silent for more than {EXPIRY:.0f} s, nor "
        f"{EXPIRY + RECONNECT_TIME:.0f} s after the broker was restored or the asked agent "
        "started, or was cut off; one that was left out does not return while it is silent, "
        "whoever is restarted or cut and whether the broker is "
        "restored, unless the answering cluster is restored itself or the broker's clock set back, "
        "or only a person had deleted the import. "
        "Where the broker's namespace is lost with all Leases, one that does not renew its own in "
        "the new one may be answered until it is given up or returns."
    )

    def __init__(self, fleet: Fleet, edited: Mapping[ClusterId, float]) -> None:
        """`edited` is when somebody last edited imports in a cluster by hand."""
        super().__init__(fleet)
        self._edited = edited
        self._left_out: dict[tuple[ClusterId, ClusterId, str], tuple[float, ...]] = {}
        """By asker, silent cluster and name: when the silence began that it was left out for, and
        when the asker was last restored, the broker's clock set back, or imports edited."""

    async def observe(self) -> AsyncIterator[str]:
        fleet = self.fleet
        restored = fleet.restored_at.get(BROKER)
        after_restore = EXPIRY + RECONNECT_TIME
        recently = restored is not None and fleet.now - restored < after_restore
        for dead in fleet.names:
            silent = fleet.mute_for(dead)
            for asker in fleet.names:
                if asker == dead or silent <= LEASE.total_seconds():
                    continue
                works = fleet.works_since(asker, BROKER)
                heard = max(works, fleet.started_at.get(asker, 0))
                is_new = heard > fleet.mute_since(dead) - RENEWAL
                bound = after_restore if recently or is_new else EXPIRY
                lost = max(fleet.namespace_lost_at, fleet.namespace_back_at)
                if fleet.mute_since(dead) <= lost + RENEWAL:
                    bound = math.inf  # nothing tells that it is silent
                listened = fleet.now - works
                for name in NAMES:
                    full = f"{dead}.{name}.{fleet.namespace}.svc.clusterset.local"
                    answer = fleet.ask(asker, full)
                    returned = self._has_returned(asker, dead, name, answer) and listened > READ
                    if answer.records and (returned or min(silent, listened) > bound):
                        how = "answers again" if returned else "answers"
                        yield f"{asker} {how} {answer} for {full}, silent for {silent:.0f} s"

    def _has_returned(self, asker: ClusterId, dead: ClusterId, name: str, answer: Answer) -> bool:
        """Whether an answer names a cluster that was left out in this silence; notes if it is."""
        fleet, key = self.fleet, (asker, dead, name)
        silence = (
            fleet.mute_since(dead),
            fleet.restored_at.get(asker, 0),
            fleet.clock_set_back.get(BROKER, 0),
            self._edited.get(asker, 0),
        )
        if fleet.now - self._edited.get(asker, -READ) < READ:
            return False
        if answer.code != "SERVFAIL" and not answer.records:
            self._left_out[key] = silence
        return self._left_out.get(key) == silence
