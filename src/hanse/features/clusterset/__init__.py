"""The feature `clusterset`: the record of this cluster among the members of its broker."""
