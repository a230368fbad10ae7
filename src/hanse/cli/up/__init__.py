"""`hanse up`: a local federation with its agents, DNS and dashboard."""
