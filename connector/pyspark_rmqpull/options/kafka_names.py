"""What options and columns of Spark's Kafka connector are called here, for who comes from it (docs/from-kafka.md)."""

from __future__ import annotations

from collections.abc import Mapping

FROM_KAFKA: Mapping[str, str] = {
    "kafka.bootstrap.servers": "endpoints",
    "subscribe": "topic",
    "subscribePattern": "topicPattern",
    "kafka.group.id": "consumerGroup",
    "kafkaConsumer.pollTimeoutMs": "requestTimeoutMs",
    "fetchOffset.numRetries": "requestRetries",
    "fetchOffset.retryIntervalMs": "requestRetryIntervalMs",
}
"""Our option by Kafka's, where the names differ and the meaning is the same."""
COLUMNS_FROM_KAFKA: Mapping[str, str] = {
    "value": "body",
    "key": "keys",
    "headers": "properties",
    "partition": "queueId",
}
"""Our column of the sink by that of Kafka's."""

_IN_SMALL_LETTERS = {theirs.lower(): ours for theirs, ours in FROM_KAFKA.items()}


def named_here(option: str) -> str | None:
    """Our name of an option of Spark's Kafka source, given in any case; None for what is none or has none."""
    return _IN_SMALL_LETTERS.get(option.lower())
