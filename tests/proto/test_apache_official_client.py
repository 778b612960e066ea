"""Our modules and the official RocketMQ client for Python, in one process, reading each other's bytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.waiting import WAIT_S

OURS = "from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as ours, service_pb2 as our_service"
THEIRS = """\
import rocketmq
from rocketmq.grpc_protocol import definition_pb2 as theirs, service_pb2 as their_service"""

CONVERSATION = """
from google.protobuf.json_format import MessageToDict

def message(package):
    made = package.Message(
        topic={"resource_namespace": "shop", "name": "orders"},
        user_properties={"colour": "blue"},
        system_properties={
            "tag": "new",
            "keys": ["k1", "k2"],
            "message_id": "0156F7E71C361B21BC024CCDBE00000000",
            "body_digest": {"type": package.MD5, "checksum": "0CC175B9C0F1B6A831C399E269772661"},
            "body_encoding": package.IDENTITY,
            "message_type": package.FIFO,
            "born_timestamp": {"seconds": 1700000000, "nanos": 5},
            "queue_id": 3,
            "queue_offset": 0,
            "invisible_duration": {"seconds": 30},
            "delivery_attempt": 1,
            "message_group": "g",
            "dead_letter_queue": {"topic": "orders", "message_id": "1"},
            "lite_topic": "",
            "priority": 7,
        },
        body=b"a",
    )
    made.system_properties.store_timestamp.FromMilliseconds(1700000000123)
    return made

def command(definition, service):
    settings = {"client_type": definition.PULL_CONSUMER, "subscription": {"fifo": False, "group": {"name": "g"}}}
    return service.TelemetryCommand(status={"code": definition.OK}, settings=settings)

def exchange(written, expected):
    read = type(expected).FromString(written.SerializeToString())
    assert type(read) is not type(written)
    assert read == expected
    assert MessageToDict(read) == MessageToDict(written)
    assert read.SerializeToString(deterministic=True) == written.SerializeToString(deterministic=True)

for our_part, their_part in [
    (message(ours), message(theirs)),
    (command(ours, our_service), command(theirs, their_service)),
]:
    exchange(our_part, their_part)
    exchange(their_part, our_part)
"""


@pytest.mark.processes
@pytest.mark.parametrize("imports", [(OURS, THEIRS), (THEIRS, OURS)], ids=["ours first", "theirs first"])
def test_both_packages_work_in_one_process_and_read_each_other(imports: tuple[str, str], tmp_path: Path) -> None:
    # On import the client opens a log file in the home directory.
    environment = {**os.environ, "HOME": str(tmp_path)}
    script = "\n".join([*imports, CONVERSATION])
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
