"""Admission: the webhook configurations of the API server, and the serving certificate. Pure."""
