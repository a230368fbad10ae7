"""What a supervisor may write in a member to lead it: Leases, records, Events and its token."""

from hanse.features.federation.manifests import ACCOUNTS
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Event
from hanse.model.kinds.federation import LEDGER_RECORD, SERVICE_RECORD, SYSTEM
from hanse.model.write_rules import (
    BOUND_TOKEN,
    CLUSTER,
    OUTSIDE_KUBE,
    OWN_TOKEN,
    SHORT_TOKEN,
    TOKENS,
    Requirement,
    Writer,
    WriteRule,
    before_and_after_cel,
    label_cel,
    own_event,
)

_MEMBERS_LEASE = Requirement(
    "the Lease is that of the member: it has the member's id as its name",
    f"request.operation == 'CREATE' ? object.metadata.name == '{CLUSTER}' : "
    f"oldObject.metadata.name == '{CLUSTER}'",
)
_LEADERS_RECORD = Requirement(
    f"label {SERVICE_RECORD} or {LEDGER_RECORD} is set, before and after",
    before_and_after_cel(
        f"{label_cel('it', SERVICE_RECORD)} != '' || {label_cel('it', LEDGER_RECORD)} != ''"
    ),
)
_BOUND_TOKEN = Requirement(
    f"{BOUND_TOKEN.words}; not those of {ACCOUNTS}, which supervisors of 0.1.0 share",
    f"request.name == '{ACCOUNTS}' || ({BOUND_TOKEN.expression})",
)
_OWN_EVENT = own_event(f"variables.me in ['{ACCOUNTS}', '{ACCOUNTS}-' + it.reportingInstance]")

SUPERVISOR_RULES = (
    WriteRule(
        "leases",
        Writer.SUPERVISOR,
        Lease.kind,
        ("create", "patch"),
        "the member's own",
        (_MEMBERS_LEASE,),
        namespace=SYSTEM,
        sets=("annotations",),
    ),
    WriteRule(
        "tokens",
        Writer.SUPERVISOR,
        TOKENS,
        ("create",),
        "its own account's",
        (OWN_TOKEN, _BOUND_TOKEN),
        subresource="token",
        namespace=SYSTEM,
        own_name=True,
    ),
    WriteRule(
        "token-lifetimes",
        Writer.SUPERVISOR,
        TOKENS,
        (),
        "tokens of supervisors' accounts, whoever requests them",
        (SHORT_TOKEN,),
        subresource="token",
        namespace=SYSTEM,
        anybody=True,
    ),
    WriteRule(
        "records",
        Writer.SUPERVISOR,
        ConfigMap.kind,
        ("create", "patch", "delete"),
        "records of leaders, by their labels",
        (_LEADERS_RECORD,),
        namespace=SYSTEM,
        sets=("labels", "annotations"),
    ),
    WriteRule(
        "events",
        Writer.SUPERVISOR,
        Event.kind,
        ("create", "get", "patch"),
        "its own",
        (_OWN_EVENT, OUTSIDE_KUBE),
    ),
)
