"""Source offsets as Spark keeps them in the checkpoint, and where a query resumes from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.planning.offsets import QueueOffsets, find_resume_offsets
from rmqpull_client.errors import DataLoss, OptionError
from rmqpull_client.loss import Loss, find_loss, refuse_loss
from rmqpull_client.model import Bounds, MessageQueue, TopicBounds

CHECKPOINTS = Path(__file__).with_name("checkpoints")
VERSION_1 = CHECKPOINTS / "offset-version-1.json"
WITH_WITNESSES = CHECKPOINTS / "offset-version-1-with-witnesses.json"
"""The same offset with the key that later releases of version 1 have added."""
LOGGED = sorted(CHECKPOINTS.glob("version-1-*/offsets/*"))

A0, A2, A10, B0 = (
    MessageQueue("orders", broker, queue_id) for broker, queue_id in (("a", 0), ("a", 2), ("a", 10), ("b", 0))
)

names = st.text("abc-_%|", min_size=1, max_size=3)
queues = st.builds(MessageQueue, names, names, st.integers(0, 2**31 - 1))
positions = st.dictionaries(queues, st.integers(0, 2**63 - 1), max_size=12)
source_offsets = st.builds(QueueOffsets, positions, positions, st.dictionaries(names, names))


@given(source_offsets)
def test_what_is_written_is_read_back(offset: QueueOffsets) -> None:
    """Acceptance case 60."""
    assert QueueOffsets.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@given(source_offsets, st.randoms())
def test_equal_offsets_are_equal_texts(offset: QueueOffsets, chance: Any) -> None:
    def shuffled(entries: Any) -> dict[Any, Any]:
        items = list(entries.items())
        chance.shuffle(items)
        return dict(items)

    same = QueueOffsets(shuffled(offset.offsets), shuffled(offset.starts), shuffled(offset.creation_ids))
    assert json.dumps(same.to_json()) == json.dumps(offset.to_json())


def test_queues_are_in_the_order_of_their_numbers() -> None:
    """Acceptance case 60."""
    offset = QueueOffsets({B0: 1, A10: 2, A2: 3, A0: 4})
    assert json.dumps(offset.to_json()) == (
        '{"offsets": {"orders": {"a": {"0": 4, "2": 3, "10": 2}, "b": {"0": 1}}}, "version": 1}'
    )


def test_what_is_empty_is_left_out() -> None:
    assert QueueOffsets().to_json() == {"version": 1}
    assert QueueOffsets.from_json({"version": 1}).is_initial
    assert not QueueOffsets({A0: 0}).is_initial


def test_a_checkpoint_of_version_1_is_read() -> None:
    assert QueueOffsets.from_json(json.loads(VERSION_1.read_text())) == QueueOffsets(
        offsets={
            MessageQueue("flights", "broker-a", 0): 12,
            MessageQueue("flights", "broker-a", 10): 7,
            MessageQueue("flights", "broker-b", 0): 9223372036854775807,
        },
        starts={MessageQueue("flights", "broker-a", 0): 10, MessageQueue("flights", "broker-a", 10): 7},
        creation_ids={"flights": "9f0c5a6b7d8e1234"},
    )


@pytest.mark.parametrize("file", [VERSION_1, WITH_WITNESSES], ids=lambda file: file.stem)
def test_a_checkpoint_of_version_1_is_written_as_it_was_read(file: Path) -> None:
    written = file.read_text().strip()
    assert json.dumps(QueueOffsets.from_json(json.loads(written)).to_json(), separators=(",", ":")) == written


def test_a_release_ignores_the_keys_that_a_later_one_of_the_same_version_has_added() -> None:
    """So a release from before the witnesses continues from a checkpoint that has them, and drops them."""
    plain, added = json.loads(VERSION_1.read_text()), json.loads(WITH_WITNESSES.read_text())
    witnesses = added.pop("witnesses")
    assert added == plain
    read = QueueOffsets.from_json({**plain, "addedLater": witnesses})
    assert read == QueueOffsets.from_json(plain)
    assert read.to_json() == plain


@pytest.mark.parametrize("log", LOGGED, ids=lambda log: "/".join(log.parts[-3::2]))
def test_what_a_query_has_logged_is_written_so_still(log: Path) -> None:
    """Spark compares texts: another text for the same offsets would start a batch (acceptance cases 23 and 33)."""
    _, _, logged = log.read_text().splitlines()
    assert json.dumps(QueueOffsets.from_json(json.loads(logged)).to_json()) == logged


def test_queries_have_logged_every_part_of_an_offset() -> None:
    parts = [set(json.loads(log.read_text().splitlines()[2])) for log in LOGGED]
    always, sometimes = set.intersection(*parts), set.union(*parts)
    assert always == {"creationIds", "offsets", "version"}
    assert sometimes - always == {"queryId", "starts"}


def test_a_newer_version_is_refused_with_what_to_install() -> None:
    """Acceptance case 23."""
    with pytest.raises(OptionError, match="offsets of version 2; this release reads up to version 1"):
        QueueOffsets.from_json({"version": 2, "offsets": "in a form of the future"})


@pytest.mark.parametrize("form", [None, 5, [], "latest", {}, {"offsets": {}}, {"version": "1"}])
def test_what_rmqpull_did_not_write_is_refused(form: Any) -> None:
    with pytest.raises(OptionError, match="which rmqpull did not write"):
        QueueOffsets.from_json(form)


@pytest.mark.parametrize(
    "damage",
    [
        {"offsets": 5},
        {"offsets": []},
        {"offsets": {"orders": 5}},
        {"offsets": {"orders": {"a": 5}}},
        {"offsets": {"orders": {"a": {"x": 5}}}},
        {"offsets": {"orders": {"a": {"0": None}}}},
        {"offsets": {"orders": {"a": {"0": "five"}}}},
        {"offsets": {}, "starts": {"orders": {"a": {"0": []}}}},
        {"offsets": {}, "creationIds": 5},
    ],
)
def test_damaged_offsets_are_refused_and_shown(damage: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="The checkpoint holds damaged offsets of rmqpull") as refused:
        QueueOffsets.from_json({"version": 1, **damage})
    assert repr({"version": 1, **damage}) in str(refused.value)


A0, A1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
ADVICE = "To continue without them, set option failOnDataLoss to false"


def topics(creation_id: str | None = "first", **queues: Bounds) -> dict[str, TopicBounds]:
    """Returns the topic "orders" with these bounds of its queues."""
    return {"orders": TopicBounds(creation_id, {MessageQueue("orders", "a", int(q[1:])): b for q, b in queues.items()})}


@pytest.mark.parametrize(
    ("position", "now"),
    [
        pytest.param(QueueOffsets({A0: 5}), topics(q0=Bounds(5, 9)), id="at the start"),
        pytest.param(QueueOffsets({A0: 9}), topics(q0=Bounds(5, 9)), id="at the end"),
        pytest.param(
            QueueOffsets({A0: 7}),
            topics(q0=Bounds(5, 9), q1=Bounds(3, 4)),
            id="a new queue whose first messages expired",
        ),
        pytest.param(QueueOffsets({A0: 7}, creation_ids={"orders": "first"}), topics(q0=Bounds(5, 9)), id="same topic"),
        pytest.param(
            QueueOffsets({A0: 7}, creation_ids={"orders": "first"}),
            topics(None, q0=Bounds(5, 9)),
            id="a server that has no creation ids",
        ),
        pytest.param(QueueOffsets({A0: 7}), topics("second", q0=Bounds(5, 9)), id="no creation id in the checkpoint"),
        pytest.param(QueueOffsets(), topics(), id="no offsets yet"),
    ],
)
def test_no_loss(position: QueueOffsets, now: dict[str, TopicBounds]) -> None:
    assert find_resume_offsets(position, now, {}, refuse_loss) == {}


@pytest.mark.parametrize(
    ("position", "now", "complaint"),
    [
        pytest.param(
            QueueOffsets({A0: 5}, creation_ids={"orders": "first"}),
            topics("second", q0=Bounds(0, 9)),
            "Topic orders was deleted and created again: its creation id was first and is now second. ",
            id="created again, with a higher end",
        ),
        pytest.param(
            QueueOffsets({A0: 5}),
            topics(q0=Bounds(8, 9)),
            "3 messages of queue orders/a/0 are lost: the query needs offset 5, and the broker has [8, 9). ",
            id="expired",
        ),
        pytest.param(
            QueueOffsets({A0: 5}),
            topics(q0=Bounds(0, 4)),
            "Queue orders/a/0 ends at offset 4, before offset 5, which is the next one to read: ",
            id="truncated",
        ),
        pytest.param(
            QueueOffsets({A0: 5, A1: 6}),
            topics(q0=Bounds(0, 9)),
            "Queue orders/a/1 no longer exists: its messages from offset 6 are lost. ",
            id="a queue deleted",
        ),
        pytest.param(
            QueueOffsets({A0: 5}),
            {},
            "Queue orders/a/0 no longer exists: its messages from offset 5 are lost. ",
            id="no topic",
        ),
    ],
)
def test_a_loss_fails_the_query(position: QueueOffsets, now: dict[str, TopicBounds], complaint: str) -> None:
    with pytest.raises(DataLoss) as loss:
        find_resume_offsets(position, now, {}, refuse_loss)
    assert str(loss.value).startswith(complaint)
    assert ADVICE in str(loss.value)


@pytest.mark.parametrize("offset", [5, 7, 9])
def test_offsets_from_the_first_to_the_next_are_inside(offset: int) -> None:
    assert find_loss(A0, offset, Bounds(5, 9)) is None


@pytest.mark.parametrize(("offset", "lost"), [(4, (4, 5)), (0, (0, 5)), (10, (10, 10))])
def test_offsets_before_and_beyond_are_outside(offset: int, lost: tuple[int, int]) -> None:
    loss = find_loss(A0, offset, Bounds(5, 9))
    assert loss is not None
    assert (loss.queue, loss.from_offset, loss.until_offset) == (A0, *lost)


@pytest.mark.parametrize(
    ("now", "starts", "lost"),
    [
        pytest.param(topics(q0=Bounds(8, 9)), {A0: 8}, [(A0, 5, 8)], id="expired: resumes at the earliest"),
        pytest.param(
            topics(q0=Bounds(0, 4)),
            {A0: 0},
            [(A0, 5, 5)],
            id="truncated: resumes at the earliest, since no time is known",
        ),
        pytest.param(topics(q1=Bounds(0, 9)), {}, [(A0, 5, 7)], id="queue deleted: keeps its offset"),
        pytest.param({}, {}, [(A0, 5, 7)], id="topic deleted: keeps its offset"),
        pytest.param(
            topics("second", q0=Bounds(2, 9)), {A0: 2}, [(A0, 5, 7)], id="created again: starts at its min offset"
        ),
        pytest.param(topics("second", q1=Bounds(2, 9)), {A0: 0}, [(A0, 5, 7)], id="created again with other queues"),
        pytest.param(topics(q0=Bounds(5, 6)), {}, [], id="nothing lost"),
    ],
)
def test_a_query_that_may_lose_messages_resumes_behind_the_loss(
    now: dict[str, TopicBounds], starts: dict[MessageQueue, int], lost: list[tuple[MessageQueue, int, int]]
) -> None:
    told: list[Loss] = []
    assert (
        find_resume_offsets(QueueOffsets({A0: 5}, creation_ids={"orders": "first"}), now, {A0: 7}, told.append)
        == starts
    )
    assert [loss[:3] for loss in told] == lost
