"""`hanse dashboard`, and what the dashboards of `hanse up` and of agents are served from."""
