"""Findings: what is wrong in the fleet, its cause first; the only judgement that is shown.

Views of features return findings; `judge` groups the consequences under their cause. The doctor,
status, dashboard, metrics and console render them and decide nothing themselves.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from hanse.model.objects import ClusterId, Object


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    OUTAGE = "outage"
    """Users lose something now."""
    DEGRADED = "degraded"
    """Users are served, by less than there should be, or changes do not arrive."""
    RISK = "risk"
    """Nothing is lost yet."""
    NOTE = "note"
    """Worth knowing; nobody has to act."""

    @property
    def rank(self) -> int:
        """The place in the order, 0 for the worst."""
        return list(Severity).index(self)

    def at_least(self, other: "Severity") -> bool:
        """Whether it is as bad as another one, or worse."""
        return self.rank <= other.rank


class Ref(Struct, frozen=True, order=True):
    """What a finding is about: an object, a cluster, or a link between clusters."""

    kind: str
    name: str
    namespace: str = ""
    cluster: ClusterId = ""

    def __str__(self) -> str:
        """`Kind namespace/name in cluster`; the cluster only if it is set and not the name."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        place = f" in {self.cluster}" if self.cluster and self.cluster != self.name else ""
        return f"{self.kind} {name}{place}"


class Remedy(Struct, frozen=True):
    """What mends it: commands that can be pasted as they stand, or who can; and a sentence."""

    advice: str = ""
    commands: tuple[str, ...] = ()
    ask: str = ""
    """The person to ask, where no command mends it; `judge` says so."""
    repeated: bool = False
    """Whether the commands are those of an earlier finding, which the advice then names."""

    def __str__(self) -> str:
        """The commands joined by `&&`, then `ask <person>`, then the advice, as far as set.

        These three are joined by `; `.
        """
        asked = f"ask {self.ask}" if self.ask else ""
        return "; ".join(part for part in (" && ".join(self.commands), asked, self.advice) if part)


def remedy(*commands: str, advice: str = "") -> Remedy:
    """A remedy by commands in this order, by advice, or both."""
    return Remedy(advice, commands)


class Consequence(Struct, frozen=True, order=True):
    """What users lose by a cause."""

    subject: Ref
    summary: str


class Known(Struct, frozen=True, tag=True, tag_field="is"):
    """The finding is as of now."""


class Stale(Struct, frozen=True, tag=True, tag_field="is"):
    """The finding rests on what was seen a while ago."""

    age: timedelta


class Unknown(Struct, frozen=True, tag=True, tag_field="is"):
    """Whether it is so could not be read."""

    why: str


Certainty = Known | Stale | Unknown


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is wrong, what users lose by it, and what mends it."""

    code: str
    severity: Severity
    subject: Ref
    summary: str
    remedy: Remedy = Remedy()
    since: datetime | None = None
    consequences: tuple[Consequence, ...] = ()
    certainty: Certainty = Known()
    caused_by: tuple[Ref, ...] = ()
    """Subjects that explain it, if one of them is a finding itself."""


def cluster_ref(cluster: ClusterId) -> Ref:
    """A cluster as the subject of a finding."""
    return Ref("Cluster", cluster, cluster=cluster)


def credentials_ref(context: str, cluster: ClusterId) -> Ref:
    """A person's credentials of a context as the subject of a finding."""
    return Ref("Credentials", context, cluster=cluster)


def link_ref(source: ClusterId, target: ClusterId) -> Ref:
    """The connection of one cluster's agent to another cluster as the subject of a finding."""
    return Ref("Link", f"{source}-{target}", cluster=source)


def subject_of(obj: Object, cluster: ClusterId = "") -> Ref:
    """An object as the subject of a finding; without a cluster, the object in all of them."""
    return Ref(type(obj).kind.name, obj.name, obj.namespace, cluster)


def judge(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings of all views as people should read them: causes, worst first.

    A finding that names another one's subject as its cause becomes a consequence of the first cause
    in that chain, which becomes as severe as the worst of them; those in a circle of causes all
    stay. The same finding of several views is one. Where no command mends it, the remedy names the
    person to ask; a command that mends several stands in the first of them.
    """
    unique = _unique(findings)
    causes = _causes(unique)
    roots: dict[tuple[str, Ref], Finding] = {}
    folded: dict[Ref, list[Finding]] = {}
    for one in unique:
        cause = _cause(one, causes)
        in_circle = (
            causes[one.subject] is not None and _root_cause(one.subject, causes) == one.subject
        )
        if cause is None or in_circle:
            roots[one.code, one.subject] = one
        else:
            folded.setdefault(_root_cause(cause, causes), []).append(one)
    for key, root in roots.items():
        if followers := folded.pop(root.subject, None):
            roots[key] = _with_consequences(root, followers)
    return tuple(_without_repeated_commands(map(_with_person, sorted(roots.values(), key=_order))))


def _without_repeated_commands(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, each without the commands of earlier ones: run twice, many would fail.

    One that is left without any gets advice instead, which names the first finding that has one of
    them.
    """
    given: dict[str, Finding] = {}
    for one in findings:
        commands = one.remedy.commands
        first = next((given[command] for command in commands if command in given), None)
        if first is None:
            yield one
        elif left := tuple(command for command in commands if command not in given):
            yield replace(one, remedy=replace(one.remedy, commands=left))
        else:
            advice = f"what mends {first.code} of {first.subject} mends this, too"
            yield replace(one, remedy=Remedy(advice, repeated=True))
        for command in commands:
            given.setdefault(command, one)


def _with_person(one: Finding) -> Finding:
    """The finding, with the person to ask if its remedy has no command and names nobody yet."""
    if one.remedy.commands or one.remedy.ask or one.remedy.repeated:
        return one
    return replace(one, remedy=replace(one.remedy, ask=person_for(one.subject)))


def person_for(subject: Ref) -> str:
    """The text that says who can mend what a finding is about.

    Whoever gave the credentials, runs the network, wrote the namespaced object, or administers the
    cluster or fleet.
    """
    match subject.kind:
        case "Credentials" | "Kubeconfig":
            return f"whoever gave you the {subject.kind.lower()} {subject.name}"
        case "Link":
            return f"whoever runs the network of {subject.cluster}"
        case _ if subject.namespace:
            return f"the author of {subject}"
        case _ if subject.cluster:
            return f"the administrator of {subject.cluster}"
        case _:
            return "the administrators of the fleet"


def _causes(findings: Iterable[Finding]) -> dict[Ref, Ref | None]:
    """For each subject of a finding the subject that causes it, by the last of its findings.

    None if one of its findings has no cause among the subjects.
    """
    found: dict[Ref, Ref | None] = {one.subject: one.subject for one in findings}
    for one in findings:
        if found[one.subject] is not None:
            found[one.subject] = _cause(one, found)
    return found


def _cause(one: Finding, subjects: Mapping[Ref, Ref | None]) -> Ref | None:
    """The first of a finding's causes that is among the subjects and not its own; else None."""
    return next((ref for ref in one.caused_by if ref in subjects and ref != one.subject), None)


def _root_cause(subject: Ref, causes: Mapping[Ref, Ref | None]) -> Ref:
    """The subject at the end of a chain of causes; in a circle the first that comes again."""
    passed = set()
    while (cause := causes[subject]) is not None and subject not in passed:
        passed.add(subject)
        subject = cause
    return subject


def worst_severity(findings: Iterable[Finding]) -> Severity | None:
    """The worst severity; None where nothing was found."""
    return min((one.severity for one in findings), key=lambda s: s.rank, default=None)


def _unique(findings: Iterable[Finding]) -> list[Finding]:
    """Each code and subject once: the more severe, then the earlier report."""
    found: dict[tuple[str, Ref], Finding] = {}
    for one in findings:
        known = found.get((one.code, one.subject))
        if known is None or one.severity.rank < known.severity.rank:
            found[one.code, one.subject] = one
    return list(found.values())


def _with_consequences(root: Finding, followers: list[Finding]) -> Finding:
    """The cause, as severe as the worst, with the findings that follow from it as consequences.

    They are appended by `_order`, each as its subject and summary; their own consequences are
    dropped.
    """
    severity = worst_severity((root, *followers)) or root.severity
    followers = sorted(followers, key=_order)
    lost = tuple(Consequence(one.subject, one.summary) for one in followers)
    return replace(root, severity=severity, consequences=(*root.consequences, *lost))


def _order(one: Finding) -> tuple[int, int, str, Ref]:
    """The sort key of findings: worst first, then most consequences, then by code and subject."""
    return (one.severity.rank, -len(one.consequences), one.code, one.subject)
