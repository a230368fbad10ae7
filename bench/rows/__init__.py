"""The rows, one file for each subject."""
