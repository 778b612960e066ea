"""The RPCs of ``rmqpull.v1.StageService``: exactly-once writes."""
