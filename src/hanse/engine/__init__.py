"""One loop for all features: what was seen becomes a plan, a plan becomes writes. Only this package writes."""
