"""``rmqpull.v1``: whole batches in columns, many queues in one call."""
