"""Pop: messages that a group acknowledges one by one, and that come again when it does not (rules 3.17)."""
