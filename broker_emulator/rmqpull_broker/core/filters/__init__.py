"""Filter expressions, TAG and SQL92, evaluated on columns. ``rmqpull_proto.filters`` reads those of SQL92."""
