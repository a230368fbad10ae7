"""Authorization by Roles, ClusterRoles and their bindings."""
