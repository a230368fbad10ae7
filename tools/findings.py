"""The page of findings and the alerts, made from the codes by `make reference`."""

from hanse.model.finding_codes import CODES

INTRODUCTION = """\
# Findings, by code

Made by `make reference`. `hanse doctor`, `hanse status`, the dashboard and the metric
`hanse_finding` show these; `hanse explain CODE` prints one. Severities: `outage` (users lose
something now), `degraded` (less than there should be), `risk`, `note`.
"""


def findings_page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for code, one in CODES.items():
        parts.append(f"## {code}\n\n{one.meaning}\n\nResolved when: {one.resolved}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(findings_page(), end="")
