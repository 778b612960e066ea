"""Checkpoints of another program, or with damage: source offsets are read whole, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_rmqpull.planning.offsets import QueueOffsets
from rmqpull_client.errors import OptionError
from tests.harness.hostile_input import damage_json, limit_cpu

SOUND = {
    "creationIds": {"orders": "9f0c"},
    "offsets": {"orders": {"broker-a": {"0": 12, "1": 7}, "broker-b": {"0": 0}}},
    "queryId": "51f0",
    "starts": {"orders": {"broker-a": {"0": 10}}},
    "version": 1,
    "witnesses": {"orders": {"broker-a": "0:11:1772366400000:0c5f1d9ab27e:columns 3:0:5:0c5f1d9ab27e:remoting"}},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def leave_out_empty(form: Any) -> Any:
    """Returns a form without what says nothing: a topic without queues, or no name of the query."""
    if not isinstance(form, dict):
        return form
    entries = {key: leave_out_empty(value) for key, value in form.items()}
    return {key: value for key, value in entries.items() if value not in ({}, None)}


@pytest.mark.edge
@given(damage_json(SOUND) | JSON)
@example({"version": True})
@example({"version": 0})
@example({"version": 1, "offsets": {"orders": {"a": {"0": 1.5}}}})
@example({"version": 1, "offsets": {"orders": {"a": {"0": True}}}})
@example({"version": 1, "offsets": {"orders": {"a": {"0": "7"}}}})
@example({"version": 1, "offsets": {"orders": {"a": {"0": -1}}}})
@example({"version": 1, "offsets": {"orders": {"a": {"-1": 1}}}})
@example({"version": 1, "offsets": {"orders": {"a": {" 1_0": 1, "10": 2}}}})
@example({"version": 1, "offsets": {"orders": {"a": {"1": 2**63}}}})
@example({"version": 1, "creationIds": [["orders", "1"]]})
@example({"version": 1, "creationIds": {"orders": 1}})
@example({"version": 1, "queryId": 1})
@example({"version": 1, "witnesses": {"orders": {"a": "0:11:1:0c5f1d9ab27e"}}})
@example({"version": 1, "witnesses": {"orders": {"a": "3:1:1:0c5f1d9ab27e:columns 0:1:1:0c5f1d9ab27e:columns"}}})
@example({"version": 1, "witnesses": {"orders": {"a": "0:011:1:0c5f1d9ab27e:columns"}}})
@example({"version": 1, "witnesses": {"orders": {"a": f"0:{2**63}:1:0c5f1d9ab27e:columns"}}})
@example({"version": 1, "witnesses": {"orders": {"a": {"0": [11, 1, "0c5f1d9ab27e", "columns"]}}}})
@limit_cpu
def test_what_is_read_is_written_again_as_it_was(form: Any) -> None:
    try:
        offsets = QueueOffsets.from_json(form)
    except OptionError:
        return
    assert json.dumps(offsets.to_json()) == json.dumps(QueueOffsets.from_json(offsets.to_json()).to_json())
    assert leave_out_empty(offsets.to_json()) == leave_out_empty({key: form[key] for key in SOUND if key in form})
