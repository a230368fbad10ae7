"""Admission: API servers are told whom to ask, and by what certificate to know the answer. Pure."""
