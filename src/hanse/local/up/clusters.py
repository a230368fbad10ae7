"""What a local federation needs of a cluster, whichever engine runs it."""

from datetime import timedelta
from typing import Protocol

from hanse.kube.access import Credentials
from hanse.kube.request import Transport
from hanse.local.kubeconfig import Context


class Cluster(Protocol):
    """A cluster that runs beside us, and can be killed, started again and made slow."""

    @property
    def url(self) -> str: ...

    @property
    def context(self) -> Context:
        """The administrator's part of a kubeconfig."""
        ...

    @property
    def running(self) -> bool: ...

    @property
    def delay(self) -> timedelta: ...

    def connect(self) -> Transport:
        """A transport for an agent, as slow as the cluster was made; the caller closes it."""
        ...

    def dial(self, credentials: Credentials) -> Transport:
        """The same for an agent that was given credentials, which are judged."""
        ...

    async def kill(self) -> None:
        """Stop its API server: connections are refused from now on."""
        ...

    async def start(self) -> None:
        """Bring its API server back, with all that it held."""
        ...

    def slow(self, delay: timedelta) -> None:
        """Let every answer wait that long."""
        ...
