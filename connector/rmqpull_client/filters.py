"""Which messages a query wants: an expression that the broker evaluates (rules 3.12)."""

from __future__ import annotations

from dataclasses import dataclass

TAG = "TAG"
SQL92 = "SQL92"
_JAVA_BLANKS = "".join(map(chr, range(0x21)))  # what RocketMQ trims off a tag


@dataclass(frozen=True)
class MessageFilter:
    """An expression of type TAG or SQL92, unread: what is wrong with it only the broker says."""

    expression: str = "*"
    expression_type: str = TAG

    @property
    def keeps_everything(self) -> bool:
        """Whether no message is ever dropped, so that every offset of a range must have its row."""
        return self.expression_type == TAG and self.expression in ("", "*")

    @property
    def tags(self) -> frozenset[str]:
        """The tags of a TAG expression; a message with another tag or none is dropped by the client as well.

        Brokers compare hashes of tags, so the string decides (rules 1.7.2). Empty means no check.
        """
        if self.keeps_everything or self.expression_type != TAG:
            return frozenset()
        return frozenset(filter(None, (tag.strip(_JAVA_BLANKS) for tag in self.expression.split("||"))))


EVERYTHING = MessageFilter()
