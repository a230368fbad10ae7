"""`hanse policies`: the ledgers of replicated policies, and decisions about conflicts."""
