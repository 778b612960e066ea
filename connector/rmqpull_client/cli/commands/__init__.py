"""One module per command of rmqpull, named after it."""
