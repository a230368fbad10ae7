"""What is left to Helm."""


class Template(str):
    """An expression that Helm computes; stands where the value would."""

    __slots__ = ()
