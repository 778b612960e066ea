"""The RPCs of ``rmqpull.v1.ColumnService``: pulls, publishes and offsets in columns."""
