"""`hanse agent`: its options, and the process that runs one cluster's agent."""
