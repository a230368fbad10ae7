"""The nouns: kinds, keys, snapshots, plans. No I/O is done here and no clock is read."""
