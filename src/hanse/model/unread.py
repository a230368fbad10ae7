"""What could not be read, and is therefore not known: a finding for what depends on it."""

from hanse.model.findings import Finding, Ref, Severity, Unknown, credentials_ref
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.objects import ClusterId, Object


def unread_finding(
    subject: Ref,
    summary: str,
    cluster: ClusterId,
    kind: type[Object],
    snapshot: MultiClusterSnapshot,
) -> Finding:
    """A finding NotReadable (a risk) about a subject, as a kind could not be listed in a cluster.

    Its certainty is Unknown, for the reason why the list failed. It is caused by the finding about
    the person's credentials for that cluster.
    """
    return Finding(
        code="NotReadable",
        severity=Severity.RISK,
        subject=subject,
        summary=summary,
        certainty=Unknown(snapshot.denied(cluster, kind)),
        caused_by=(credentials_ref(snapshot.context(cluster), cluster),),
    )
