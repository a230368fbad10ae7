"""`hanse export`: create a ServiceExport and wait for the agent's conditions."""
