"""The HTTP servers of an agent: the dashboard and the admission webhooks."""
