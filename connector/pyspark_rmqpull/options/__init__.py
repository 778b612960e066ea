"""The options of the source and the sink: declared once, parsed, and checked together."""
