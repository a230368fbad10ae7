"""Federated Services: one Service in every member, made of member Services in several."""
