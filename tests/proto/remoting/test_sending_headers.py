"""The names that the headers of sends have on the wire."""

from __future__ import annotations

from typing import Any

from rmqpull_proto.remoting.sending_headers import SendMessageRequestHeader, SendMessageRequestHeaderV2


def test_a_send_of_version_2_has_letters() -> None:
    values: dict[str, Any] = {
        "producer_group": "P",
        "topic": "T",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 3,
        "sys_flag": 0,
        "born_timestamp": 5,
        "flag": 6,
        "properties": "p",
        "reconsume_times": 7,
        "unit_mode": False,
        "max_reconsume_times": 8,
        "batch": True,
        "bname": "broker-a",
    }
    letters = SendMessageRequestHeaderV2(**values).to_fields()
    assert dict(sorted(letters.items())) == {
        "a": "P",
        "b": "T",
        "c": "TBW102",
        "d": "4",
        "e": "3",
        "f": "0",
        "g": "5",
        "h": "6",
        "i": "p",
        "j": "7",
        "k": "false",
        "l": "8",
        "m": "true",
        "n": "broker-a",
    }
    names = SendMessageRequestHeader(**values).to_fields()
    assert (names["producerGroup"], names["batch"], names["bname"]) == ("P", "true", "broker-a")
