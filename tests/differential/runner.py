"""Sends steps to one server, over connections that stay open, and returns its answers."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, decode_command, encode_command
from rmqpull_proto.remoting.frames import PREFIX_BYTES
from tests.differential.records import read_records
from tests.differential.steps import CLIENTS, Seen, Step

ANSWER_WITHIN_S = 12.0
LIKE_APACHE = BrokerProperties(recall_message_enable=False)
"""The properties with which the emulator answers like a real broker that has its defaults and SQL92."""
_MARKS = "differential-marks"
_SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
_STORES = (*_SENDS, RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.END_TRANSACTION)
_PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_CHANGES_MEMBERS = (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT)
_OF_NAME_SERVER = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
)
_UNKNOWN_CODE = 31_999
_RECEIPT = ("consumerGroup", "topic", "queueId", "offset", "extraInfo", "invisibleTime")
_LOOKS_MAX = 20_000
_BUSY_MAX = 100


@dataclass(frozen=True)
class Address:
    """A server: its name server and its broker, ``host:port``. ``is_late``: stored messages reach queues later."""

    name_server: str
    broker: str
    is_late: bool = False


@dataclass
class Answer:
    """What a server did with a request. ``end`` says why there is no response, if there is none."""

    code: int | None = None
    remark: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    end: str = ""
    told: list[str] = field(default_factory=list)
    """The requests that clients have got from the server meanwhile: client, code and group of each."""


class Connection:
    """One connection. It is opened again after the server has closed it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._opaques = itertools.count(1)
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._responses: dict[int, RemotingCommand] = {}
        self.requests: list[RemotingCommand] = []

    def send(self, command: RemotingCommand) -> int:
        """Sends a request, and returns its number."""
        if self._socket is None:
            host, port = self._address.rsplit(":", 1)
            self._socket = socket.create_connection((host, int(port)), ANSWER_WITHIN_S)
        command.opaque = next(self._opaques)
        self._socket.sendall(encode_command(command))
        return command.opaque

    def receive(self, opaque: int) -> Answer:
        """Returns the answer to a request. Requests of the server that come before it are kept."""
        try:
            while opaque not in self._responses:
                self._take(decode_command(self._read_frame()))
        except TimeoutError:
            return Answer(end="no response")
        except ConnectionError:
            self.close()
            return Answer(end="closed")
        response = self._responses.pop(opaque)
        return Answer(response.code, response.remark, dict(response.fields), bytes(response.body))

    def close(self) -> None:
        """Closes the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._received.clear()

    def _take(self, command: RemotingCommand) -> None:
        if command.is_response:
            self._responses[command.opaque] = command
        else:
            self.requests.append(command)

    def _read_frame(self) -> bytes:
        length = int.from_bytes(self._read(PREFIX_BYTES), "big")
        return self._read(length)

    def _read(self, size: int) -> bytes:
        if self._socket is None:
            raise ConnectionError
        while len(self._received) < size:
            part = self._socket.recv(1 << 16)
            if not part:
                raise ConnectionError
            self._received += part
        found = bytes(self._received[:size])
        del self._received[:size]
        return found


class Run:
    """One sequence on one server. ``own`` is the beginning of all names of this run."""

    def __init__(self, address: Address, own: str) -> None:
        self._address = address
        self._clients = [Connection(address.broker) for _ in range(CLIENTS)]
        self._name_server = Connection(address.name_server)
        self._seen = Seen(own, time.time_ns() // 1_000_000)
        self._held: list[tuple[Connection, int, Answer]] = []

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in (*self._clients, self._name_server):
            connection.close()

    def do(self, step: Step) -> Answer:
        """Sends one request and returns the answer. That of a held pull is complete after ``end_holds``."""
        if step.code in _STORES:
            _await_next_millisecond()  # so that each message has a time of its own
        connection = self._name_server if step.code in _OF_NAME_SERVER else self._clients[step.client]
        command = self._make_command(step)
        if step.is_held:
            answer = Answer()
            self._held.append((connection, connection.send(command), answer))
            return answer
        answer = _call(connection, command)
        self._note(step, answer)
        if self._address.is_late and step.code in _STORES and answer.code == 0:
            self._settle()
        if step.code == RequestCode.DELETE_TOPIC_IN_BROKER and answer.code == 0:
            # As administrators do: a real name server forgets a topic only when it is told.
            self._ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": self._seen.fill(step.fields.get("topic", ""))})
        if step.code in _CHANGES_MEMBERS:
            answer.told = self._list_told()
        return answer

    def end_holds(self) -> None:
        """Waits for the answers to the requests that are held."""
        for connection, opaque, answer in self._held:
            vars(answer).update(vars(connection.receive(opaque)))
        self._held.clear()

    def _make_command(self, step: Step) -> RemotingCommand:
        body = step.body if isinstance(step.body, bytes) else self._seen.fill(step.body).encode()
        fields = {name: self._seen.fill(text) for name, text in step.fields.items()}
        return RemotingCommand(step.code, fields, body, serialization=step.serialization)

    def _note(self, step: Step, answer: Answer) -> None:
        """Keeps what later steps may name."""
        if step.code in _SENDS and answer.code == 0:
            ids = answer.fields.get("msgId", "").split(",")
            self._seen.note("msgid", ids)
            self._seen.note("physical", [str(int(one[-16:], 16)) for one in ids if len(one) >= 32])
            self._seen.note("place", [answer.fields.get("queueOffset", "0")])
            self._seen.note("handle", [answer.fields[name] for name in ("recallHandle",) if name in answer.fields])
        if step.code == RequestCode.POP_MESSAGE and answer.code == 0:
            self._note_popped(step, answer)
        if step.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME and answer.code == 0:
            self._note_changed(step, answer)
        if step.code in _PULLS and answer.code == 0:
            self._seen.note("stored", [str(record["storeTimestamp"]) for record in read_records(answer.body)])

    def _note_popped(self, step: Step, answer: Answer) -> None:
        """Keeps the receipts of messages as Java's client makes them, in the order of their places."""
        starts = {tuple(one.split(" ")[:2]): one.split(" ")[2] for one in answer.fields["startOffsetInfo"].split(";")}
        group = self._seen.fill(step.fields["consumerGroup"])
        for record in sorted(read_records(answer.body), key=lambda one: (one["queueId"], one["queueOffset"])):
            given = record["properties"].get("POP_CK")
            start = starts["0" if given is None else "1", str(record["queueId"])]
            parts = (start, answer.fields["popTime"], answer.fields["invisibleTime"], answer.fields["reviveQid"])
            made = " ".join((*parts, "0", "broker-a", str(record["queueId"]), str(record["queueOffset"])))
            found = {
                "popgroup": group,
                "poptopic": record["topic"] if given is None else f"%RETRY%{group}_{record['topic']}",
                "popqueue": str(record["queueId"]),
                "popoffset": str(record["queueOffset"]),
                "popstart": start,
                "poptime": answer.fields["popTime"],
                "poprevive": answer.fields["reviveQid"],
                "receipt": given or made,
            }
            for kind, text in found.items():
                self._seen.note(kind, [text])

    def _note_changed(self, step: Step, answer: Answer) -> None:
        """Keeps the new receipt of a message as the last one."""
        fields = {name: self._seen.fill(text) for name, text in step.fields.items()}
        if len(fields) < len(_RECEIPT):
            return  # a field was left out: the play ends
        _, *others = fields["extraInfo"].split(" ")
        new = (fields["offset"], answer.fields["popTime"], answer.fields["invisibleTime"], answer.fields["reviveQid"])
        found = {
            "popgroup": fields["consumerGroup"],
            "poptopic": fields["topic"],
            "popqueue": fields["queueId"],
            "popoffset": fields["offset"],
            "popstart": fields["offset"],
            "poptime": answer.fields["popTime"],
            "poprevive": answer.fields["reviveQid"],
            "receipt": " ".join((*new, "0", *others[4:])),
        }
        for kind, text in found.items():
            self._seen.note(kind, [text])

    def _settle(self) -> None:
        """Returns when what was stored is in its queues: a real broker fills them in the order of its log."""
        fields = dict(zip("abcdefghijk", ("p", _MARKS, "TBW102", 1, 0, 0, 1, 0, "", 0, "false"), strict=True))
        marked = self._ask(RequestCode.SEND_MESSAGE_V2, fields, b"mark")
        queue = {"topic": _MARKS, "queueId": 0}

        for _ in range(_LOOKS_MAX):
            if int(self._ask(RequestCode.GET_MAX_OFFSET, queue).fields["offset"]) > int(marked.fields["queueOffset"]):
                return
        raise AssertionError(f"{self._address.broker} has not filled its queues")

    def _list_told(self) -> list[str]:
        """Takes what the server has told the clients. An answer to another request ends what was told before it."""
        told = []
        for number, connection in enumerate(self._clients):
            connection.receive(connection.send(RemotingCommand(_UNKNOWN_CODE, serialization=Serialization.JSON)))
            requests, connection.requests = connection.requests, []
            told += [f"client {number}: {one.code} {one.fields.get('consumerGroup', '')}" for one in requests]
        return sorted(told)

    def _ask(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> Answer:
        texts = {name: str(value) for name, value in fields.items()}
        connection = self._name_server if code in _OF_NAME_SERVER else self._clients[0]
        return _call(connection, RemotingCommand(code, texts, body, serialization=Serialization.JSON))


def _call(connection: Connection, command: RemotingCommand) -> Answer:
    """Returns the answer to a request. A real broker drops requests when the machine is busy: they are repeated."""
    answer = Answer()
    for _ in range(_BUSY_MAX):
        answer = connection.receive(connection.send(command))
        if answer.code != ResponseCode.SYSTEM_BUSY:
            break
    return answer


def _await_next_millisecond() -> None:
    begin = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == begin:
        pass
