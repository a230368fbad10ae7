"""Names for the world: told to name servers and DNS providers that are not ours."""
