"""Global load balancing: whose configuration leads, and one service for each host name."""
