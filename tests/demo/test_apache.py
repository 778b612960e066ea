"""Apache's servers in the demo, and the file that Apache's producer reads."""

from __future__ import annotations

import json

from demo.apache import to_lines
from demo.flights_data import messages, read_flights


def test_each_flight_is_a_line_with_its_tag_its_key_and_its_body() -> None:
    flights = read_flights(1_000)
    (batch,) = messages(flights)
    lines = to_lines(batch).decode().splitlines()
    fields = [line.split("\t") for line in lines]
    assert {len(parts) for parts in fields} == {3}
    assert [tag for tag, _, _ in fields] == flights["carrier"].to_pylist()
    assert [key or None for _, key, _ in fields] == flights["tailnum"].to_pylist()
    assert [json.loads(body) for _, _, body in fields] == flights.to_pylist()
