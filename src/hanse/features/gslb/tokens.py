"""Renews the tokens in the kubeconfig of sites, before they expire.

Followers renew theirs, too: whoever is promoted needs them.
"""

import re
from base64 import b64encode
from collections.abc import Iterator

from hanse.features.gslb.names import SECRET, SECRET_KEY
from hanse.model.kinds.core import Secret
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import ClusterObjectRef, object_ref
from hanse.model.plan import Key, Patch, Plan
from hanse.model.snapshot import Snapshot
from hanse.model.tokens import renew_token

TOKENS_KEY = Key("tokens")

_JWT = re.compile(rb"eyJ[\w-]+\.[\w-]+\.[\w-]+")


def site_tokens(kubeconfig: bytes) -> Iterator[str]:
    """The tokens (JWT) in a kubeconfig, each once."""
    yield from dict.fromkeys(match.decode() for match in _JWT.findall(kubeconfig))


def plan_tokens(snapshot: Snapshot) -> Plan:
    """Ask for a new token for each in the kubeconfig Secret of which half of the lifetime is over.

    Issued ones are patched in place of the old; nothing else in the kubeconfig changes, and nothing
    if the Secret has changed in the meantime (a resourceVersion precondition).
    """
    secret = snapshot.get(snapshot.local, Secret, SECRET, NAMESPACE)
    before = after = secret.data.get(SECRET_KEY, b"") if secret is not None else b""
    place = ("secret", f"{NAMESPACE}/{SECRET}/{SECRET_KEY}")
    renewals = {token: renew_token(token, place, snapshot) for token in site_tokens(before)}
    for token, renewal in renewals.items():
        if renewal.issued:
            after = after.replace(token.encode(), renewal.issued.encode())
    waits = (r.requeue_after for r in renewals.values() if r.requeue_after is not None)
    patches: tuple[Patch, ...] = ()
    if secret is not None and after != before:
        version = {"resourceVersion": secret.metadata.resource_version}
        change = {"metadata": version, "data": {SECRET_KEY: b64encode(after).decode()}}
        patches = (Patch(ClusterObjectRef(snapshot.local, object_ref(secret)), change),)
    return Plan(
        patches=patches,
        questions=tuple(question for r in renewals.values() for question in r.questions),
        requeue_after=min(waits, default=None),
    )
