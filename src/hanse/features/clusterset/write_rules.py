"""What a member may write of the records on the broker: its own, but not its identity."""

from hanse.model.kinds.hanse import ClusterMember
from hanse.model.write_rules import HOME, Requirement, Writer, WriteRule, unchanged_cel

_OWN_RECORD = Requirement(
    "the ClusterMember has the writer's id as its name",
    "request.name == variables.me",
    "'the ClusterMember must be ' + variables.me + ': a member writes its own record only'",
)
_SAME_CLUSTER = Requirement(
    "clusterID and uid stay: only `hanse join` lets another cluster have the id",
    "request.operation != 'UPDATE' || (object.spec.clusterID == oldObject.spec.clusterID && "
    "object.spec.uid == oldObject.spec.uid)",
)
_PHASE = "(has({0}.status) && has({0}.status.phase) ? {0}.status.phase : 'Joining')"
_BEFORE, _AFTER = _PHASE.format("oldObject"), _PHASE.format("object")
_OWN_PHASES = Requirement(
    "an administrator alone replaces a member, or lets one that has left join again",
    f"request.operation != 'UPDATE' || {_AFTER} == {_BEFORE} || "
    f"({_AFTER} != 'Replaced' && !({_BEFORE} in ['Left', 'Replaced']))",
)
_EPOCH = "(has({0}.status) && has({0}.status.epoch) ? {0}.status.epoch : 0)"
_NEXT_EPOCH = Requirement(
    "the epoch stays, or is the next one",
    f"request.operation != 'UPDATE' || {_EPOCH.format('object')} - {_EPOCH.format('oldObject')} "
    "in [0, 1]",
)

MEMBER_RULES = (
    WriteRule(
        "members",
        Writer.MEMBER,
        ClusterMember.kind,
        ("patch",),
        "its own, by name; its id and its uid are an administrator's",
        (_OWN_RECORD, _SAME_CLUSTER),
        namespace=HOME,
        own_name=True,
    ),
    WriteRule(
        "members-status",
        Writer.MEMBER,
        ClusterMember.kind,
        ("patch",),
        "its own, by name",
        (
            _OWN_RECORD,
            _OWN_PHASES,
            _NEXT_EPOCH,
            Requirement("the spec stays", unchanged_cel("spec")),
        ),
        subresource="status",
        namespace=HOME,
        own_name=True,
    ),
)
"""The rules of every member."""
