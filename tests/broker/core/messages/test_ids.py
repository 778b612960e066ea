"""Ids of messages without one (rules 5.17)."""

import re

from rmqpull_broker.core.messages.ids import MessageIds

NODE = bytes.fromhex("56F7E71C361B")
EPOCH_2021_MS = 1_609_459_200_000


def test_an_id_is_version_node_process_seconds_and_sequence() -> None:
    ids = MessageIds(NODE, 0xABCD21BC)
    now_ms = EPOCH_2021_MS + 0x024CCDBE * 1_000 + 999
    assert ids.take(2, now_ms).to_pylist() == [
        "0156F7E71C361B21BC024CCDBE00000000",
        "0156F7E71C361B21BC024CCDBE00000001",
    ]


def test_ids_are_34_upper_case_hex_characters_and_unique() -> None:
    ids = MessageIds(NODE, 1)
    taken = [text for count in (1, 300, 0, 70_000) for text in ids.take(count, 0).to_pylist()]
    assert len(set(taken)) == len(taken) == 70_301
    assert all(re.fullmatch(r"[0-9A-F]{34}", text) for text in taken)
    assert taken[-1].endswith(f"{70_300:08X}")
    assert taken == sorted(taken)


def test_seconds_and_sequence_keep_their_low_32_bits() -> None:
    ids = MessageIds(NODE, 1)
    ids._sequence = (1 << 32) - 1
    later_ms = EPOCH_2021_MS + ((1 << 32) + 5) * 1_000
    assert [text[18:] for text in ids.take(2, later_ms).to_pylist()] == ["00000005FFFFFFFF", "0000000500000000"]


def test_one_id_is_the_next_of_many() -> None:
    one_by_one, together = MessageIds(bytes(6), 1), MessageIds(bytes(6), 1)
    assert [one_by_one.take_one(5_000) for _ in range(3)] == together.take(3, 5_000).to_pylist()
