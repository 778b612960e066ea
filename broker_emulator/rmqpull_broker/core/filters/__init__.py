"""Filter expressions, TAG and SQL92, evaluated on columns. ``rmqpull_proto.filters`` parses those of SQL92."""
