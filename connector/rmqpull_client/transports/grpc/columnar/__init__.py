"""The transport ``rmqpull.v1``: whole batches in columns, and many queues per call."""
