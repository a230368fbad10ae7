"""`hanse status`: every cluster, member and service at a glance."""
