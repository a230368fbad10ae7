"""Admission: a request becomes a verdict by the same pure functions over the same stores."""
