"""Limits of messages (rules 5.5, 5.11). Imports nothing else of the broker."""

from __future__ import annotations

QUEUES_MAX = 1024
"""Queues of one topic: as many as BenchmarkTest, the widest of Apache's system topics (rules 3.9.2)."""

BODY_BYTES_MAX = 4_194_304
USER_PROPERTIES_MAX = 128
PROPERTIES_BYTES_MAX = 16_384
MESSAGE_GROUP_BYTES_MAX = 63
DELAY_MS_MAX = 86_400_000
"""The maximum delay for clients of the gRPC protocol. A broker accepts more."""
RECOVERY_S_MAX = 3_600
"""The longest time before its first check that a half message can request."""
STORED_PROPERTIES_BYTES_MAX = 32_767
"""The size of all properties that RocketMQ stores, ids and traces included (rules 3.10.1)."""

RECONSUME_TIMES_MAX = 2**31 - 2
"""The maximum number of counted retries: the number of the next attempt still fits into 32 bits."""

TIMES_MS = (-62_135_596_800_000, 253_402_300_799_999)
"""The range of a protobuf Timestamp: the years 1 to 9999, in milliseconds since the epoch."""

CONTROL_CHARACTERS = r"[\x00-\x1f\x7f-\x9f]"
"""A regular expression for the characters of Java's ``Character.isISOControl``."""
