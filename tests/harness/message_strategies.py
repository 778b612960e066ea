"""Hypothesis' strategies for messages."""

from __future__ import annotations

from hypothesis import strategies as st

from rmqpull_broker.core.model import Message, StoredMessage

TIMES_MS = st.integers(-(1 << 41), 1 << 47)


def register_messages() -> None:
    """Registers the strategies: then a test can draw messages by their types."""
    st.register_type_strategy(
        Message,
        st.builds(
            Message,
            delivery_timestamp_ms=st.none() | TIMES_MS,
            born_timestamp_ms=TIMES_MS,
            transactional=st.just(False),
        ),
    )
    st.register_type_strategy(
        StoredMessage,
        st.builds(
            StoredMessage,
            st.from_type(Message),
            queue_offset=st.integers(0, (1 << 63) - 1),
            store_timestamp_ms=TIMES_MS,
            reconsume_times=st.integers(0, (1 << 31) - 1),
        ),
    )
