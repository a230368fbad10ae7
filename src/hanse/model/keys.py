"""What a feature decides about at a time."""

from msgspec import Struct


class Key(Struct, frozen=True, order=True):
    """One unit of decision of one feature: it is queued, planned and owned as a whole.

    `topic` parts a feature's kinds of decision (`export`, `import`).
    """

    topic: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.topic}/{self.namespace}/{self.name}"


def parse_key(text: str) -> Key | None:
    """The key that `str` gave, or None where the text is not one."""
    topic, _, rest = text.partition("/")
    namespace, slash, name = rest.partition("/")
    return Key(topic, name, namespace) if topic and slash else None
