"""The nouns: kinds, objects, keys, snapshots and plans. No I/O is done here and no clock is read."""
