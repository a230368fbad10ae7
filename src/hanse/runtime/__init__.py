"""One loop for all features, from what was seen to what is written. Only this package writes."""
