"""What a client says about itself in HEART_BEAT: its groups and their subscriptions, as JSON (rules 3.6, 3.7, 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmqpull_proto.remoting.json_dialect import write_json


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription in a heartbeat. ``sub_version`` is None if the client sends none; Java then takes the time."""

    topic: str
    sub_string: str
    sub_version: int | None = None
    expression_type: str = "TAG"


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """A client as a consumer of one group (``ConsumerData``)."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: tuple[Subscription, ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatData:
    """The body of HEART_BEAT. A ``fingerprint`` other than 0 makes it version 2 (rules 3.7)."""

    client_id: str
    consumers: tuple[GroupMembership, ...] = ()
    producer_groups: tuple[str, ...] = ()
    fingerprint: int = 0
    without_sub: bool = False

    def encode(self) -> bytes:
        """Writes the body of a request."""
        return write_json(
            {
                "clientID": self.client_id,
                "consumerDataSet": [_write_membership(consumer) for consumer in self.consumers],
                "heartbeatFingerprint": self.fingerprint,
                "producerDataSet": [{"groupName": group} for group in self.producer_groups],
                "withoutSub": self.without_sub,
            }
        )


def _write_membership(consumer: GroupMembership) -> dict[str, Any]:
    return {
        "consumeFromWhere": consumer.consume_from_where,
        "consumeType": consumer.consume_type,
        "groupName": consumer.group_name,
        "messageModel": consumer.message_model,
        "subscriptionDataSet": [
            {
                "expressionType": subscription.expression_type,
                "subString": subscription.sub_string,
                "topic": subscription.topic,
                **({} if subscription.sub_version is None else {"subVersion": subscription.sub_version}),
            }
            for subscription in consumer.subscriptions
        ],
        "unitMode": False,
    }
