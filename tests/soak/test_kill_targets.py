"""The errors of the connector are found in Spark's log, whichever of its packages defines them."""

from __future__ import annotations

from pathlib import Path

from soak.kill_targets import read_connector_errors

LOG = """26/01/01 10:00:00 ERROR Executor: Exception in task 0.0
Traceback (most recent call last):
  File "rmqpull_client/transports/choice.py", line 1, in connect
rmqpull_client.errors.BrokerUnavailable: Broker a did not respond.
pyspark_rmqpull.errors.DataLoss: 3 messages are missing.
26/01/01 10:00:01 WARN Cannot set the consumer offsets: rmqpull_client is busy
java.io.EOFException: rmqpull_client.errors
"""


def test_errors_of_the_connector_are_those_that_a_traceback_ends_with(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG)
    assert read_connector_errors(tmp_path / "log") == {
        "rmqpull_client.errors.BrokerUnavailable: Broker a did not respond.",
        "pyspark_rmqpull.errors.DataLoss: 3 messages are missing.",
    }
