"""Messages of the private pool behave like other messages."""

import copy
import pickle
from datetime import datetime, timezone

import pytest
from google.protobuf import timestamp_pb2

from rmqpull_proto.apache.rocketmq.v2.definition_pb2 import Message, SystemProperties

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
NOON_MS = int(NOON.timestamp() * 1000)


def test_times_are_set_in_place_from_a_dict_or_from_a_datetime() -> None:
    in_place = SystemProperties()
    in_place.born_timestamp.FromMilliseconds(NOON_MS)
    assert (
        in_place
        == SystemProperties(born_timestamp={"seconds": NOON_MS // 1000})
        == SystemProperties(born_timestamp=NOON)  # type: ignore[arg-type]  # the stubs of protoc 26 do not know it
    )
    assert in_place.born_timestamp.ToMilliseconds() == NOON_MS


def test_durations_are_well_known_types_too() -> None:
    properties = SystemProperties()
    properties.invisible_duration.FromMilliseconds(1500)
    assert properties.invisible_duration.ToTimedelta().total_seconds() == 1.5


def test_timestamps_of_the_default_pool_do_not_mix_in() -> None:
    with pytest.raises((TypeError, AttributeError)):  # protobuf 6 takes it for a datetime
        SystemProperties(born_timestamp=timestamp_pb2.Timestamp(seconds=1))


def test_messages_can_be_pickled_and_copied() -> None:
    message = Message(body=b"hello", user_properties={"a": "b"}, system_properties={"born_timestamp": NOON})
    assert pickle.loads(pickle.dumps(message)) == message == copy.deepcopy(message)
