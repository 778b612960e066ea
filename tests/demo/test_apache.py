"""Apache's servers in the demo, and the flights for Apache's producer."""

from __future__ import annotations

import base64
import json

from demo.apache import to_java
from demo.flights_data import messages, read_flights
from demo.servers import TOPIC


def test_a_flight_for_apaches_producer_has_its_carrier_as_tag_and_its_tail_number_as_key() -> None:
    flights = read_flights(1_000)
    (batch,) = messages(flights)
    sent = list(to_java(batch))
    assert {message["topic"] for message in sent} == {TOPIC}
    assert [message["tags"] for message in sent] == flights["carrier"].to_pylist()
    assert [message["keys"] for message in sent] == flights["tailnum"].to_pylist()
    assert [json.loads(base64.b64decode(message["body"])) for message in sent] == flights.to_pylist()
