"""The harness's own arithmetic and output."""
