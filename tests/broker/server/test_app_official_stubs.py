"""The official Python client's messages and stubs against this broker.

They run in a process of their own: the client starts threads and opens log files when it is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rmqpull_broker.testing import running_broker

CONVERSATION = """
import hashlib, json, sys
import grpc
from google.protobuf.json_format import MessageToDict
from rocketmq.grpc_protocol import definition_pb2 as v2, service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

endpoints = sys.argv[1]
host, port = endpoints.split(":")
stub = MessagingServiceStub(grpc.insecure_channel(endpoints, options=[("grpc.enable_http_proxy", 0)]))
# The metadata that the client sends, as far as a server reads it.
metadata = [("x-mq-client-id", "official@1@0@x"), ("x-mq-language", "PYTHON"), ("x-mq-protocol", "GRPC_V2"),
            ("x-mq-client-version", "5.1.2"), ("authorization", "MQv2-HMAC-SHA1 Credential=, Signature=")]
topic = v2.Resource(name="orders")
access_point = v2.Endpoints(scheme=v2.AddressScheme.IPv4, addresses=[v2.Address(host=host, port=int(port))])

route = stub.QueryRoute(service.QueryRouteRequest(topic=topic, endpoints=access_point), metadata=metadata)

def message(number):
    made = v2.Message(topic=topic, body=b"body %d" % number, user_properties={"colour": "blue"})
    made.system_properties.message_id = "0156F7E71C361B21BC024CCDBE%08X" % number
    made.system_properties.tag = "new"
    made.system_properties.keys.extend(["k1", "k2"])
    made.system_properties.message_type = v2.MessageType.NORMAL
    made.system_properties.body_encoding = v2.Encoding.IDENTITY
    made.system_properties.born_host = "producer.example"
    made.system_properties.born_timestamp.FromMilliseconds(1700000000123)
    made.system_properties.queue_id = 0
    return made

sent = [stub.SendMessage(service.SendMessageRequest(messages=[message(number)]), metadata=metadata)
        for number in range(4)]

pull = service.PullMessageRequest(
    group=v2.Resource(name="readers"), message_queue=route.message_queues[1], offset=0, batch_size=32,
    filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"))
pull.long_polling_timeout.FromSeconds(15)
pulled = list(stub.PullMessage(pull, metadata=metadata))

for part in pulled[1:-1]:
    system = part.message.system_properties
    assert system.body_digest.checksum == hashlib.md5(part.message.body).hexdigest().upper()
    assert system.store_timestamp.ToMilliseconds() > 0

unknown = [stub.QueryRoute(service.QueryRouteRequest(topic=topic, endpoints=access_point)),
           stub.QueryRoute(service.QueryRouteRequest(topic=v2.Resource(name="x")), metadata=metadata)]
print(json.dumps({
    "route": MessageToDict(route), "sent": list(map(MessageToDict, sent)), "pulled": list(map(MessageToDict, pulled)),
    "refused": [v2.Code.Name(answer.status.code) for answer in unknown],
}))
"""


def open_stream(endpoints: str, home: Path) -> Any:
    command = [sys.executable, "-c", CONVERSATION, endpoints]
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.processes
@pytest.mark.proves("PullMessage, UpdateOffset, GetOffset, QueryOffset")
def test_the_official_stubs_route_send_and_pull(tmp_path: Path) -> None:
    with running_broker(topics={"orders": 2}) as broker:
        heard = open_stream(broker.endpoints, tmp_path)
    host, port = broker.endpoints.split(":")

    assert heard["route"]["status"]["code"] == "OK"
    assert [queue.get("id", 0) for queue in heard["route"]["messageQueues"]] == [0, 1]
    for queue in heard["route"]["messageQueues"]:
        assert (queue["permission"], queue["acceptMessageTypes"]) == ("READ_WRITE", ["NORMAL"])
        assert queue["broker"]["name"] == "broker-a"
        assert queue["broker"]["endpoints"] == {"scheme": "IPv4", "addresses": [{"host": host, "port": int(port)}]}

    # The client requires exactly one entry for each send.
    assert [len(answer["entries"]) for answer in heard["sent"]] == [1, 1, 1, 1]
    assert [answer["entries"][0]["messageId"][-1] for answer in heard["sent"]] == ["0", "1", "2", "3"]

    status, *messages, last = heard["pulled"]
    assert (status["status"]["code"], last) == ("OK", {"nextOffset": "2"})
    systems = [part["message"]["systemProperties"] for part in messages]
    assert [part["message"]["userProperties"] for part in messages] == [{"colour": "blue"}] * 2
    for offset, system in enumerate(systems):
        assert (system["queueId"], system.get("queueOffset"), system["deliveryAttempt"]) == (1, str(offset), 1)
        assert (system["tag"], system["keys"]) == ("new", ["k1", "k2"])
        assert system["bornHost"].startswith("127.0.0.1:")  # where it came from, not what the producer named
        assert (system["bodyEncoding"], system["messageType"]) == ("IDENTITY", "NORMAL")
        assert system["bornTimestamp"] == "2023-11-14T22:13:20.123Z"

    assert heard["refused"] == ["CLIENT_ID_REQUIRED", "TOPIC_NOT_FOUND"]
