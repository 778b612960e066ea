"""The language of message filters: SQL92 expressions as trees. The broker evaluates them, the client checks them."""
