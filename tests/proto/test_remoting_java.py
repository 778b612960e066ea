"""Apache's own classes read what we write, and we read what they write."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from processes.apache.oracle import JavaOracle, JavaRefused, to_text
from rmqpull_broker.server.remoting.wire import pop_headers
from rmqpull_broker.server.remoting.wire.message_ids import make_offset_msg_id, parse_offset_msg_id
from rmqpull_client.transports.remoting.signing import sign_fields
from rmqpull_proto.remoting import properties as names
from rmqpull_proto.remoting.codes import V4_5_0, V4_9_3, VERSION, LanguageCode, RequestCode, ResponseCode
from rmqpull_proto.remoting.command import (
    REQUEST_HEADER_BYTES_MAX,
    RemotingCommand,
    Serialization,
    decode_command,
    encode_command,
)
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.header_fields import Header, list_columns
from rmqpull_proto.remoting.headers import OffsetResponseHeader, PullMessageResponseHeader
from rmqpull_proto.remoting.json_dialect import read_json
from rmqpull_proto.remoting.properties import decode_properties, encode_properties
from rmqpull_proto.remoting.routes import BrokerData, ClusterInfo, QueueData, TopicList, TopicRoute
from tests.harness.header_tables import REQUEST_HEADERS, RESPONSE_HEADERS
from tests.harness.uniq_keys import parse_uniq_key

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FILLED = TEXTS.filter(bool)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
SHORTS = st.integers(-(2**15), 2**15 - 1)

COMMANDS = st.builds(
    RemotingCommand,
    code=SHORTS,
    fields=st.dictionaries(FILLED, FILLED, max_size=6),
    body=st.binary(max_size=50),
    opaque=INTS,
    flag=INTS,
    remark=st.none() | FILLED,
    language=st.sampled_from(LanguageCode).filter(lambda language: language <= LanguageCode.RUST),  # NODE_JS: 5.x
    version=SHORTS,
    serialization=st.sampled_from(Serialization),
)


def in_java(command: RemotingCommand) -> dict[str, Any]:
    """A command as the oracle shows it."""
    body = bytes(command.body)
    return {
        "code": command.code,
        "language": LanguageCode(command.language).name,
        "version": command.version,
        "opaque": command.opaque,
        "flag": command.flag,
        "remark": command.remark,
        "serializeType": "JSON" if command.serialization is Serialization.JSON else "ROCKETMQ",
        "extFields": dict(command.fields) or None,
        "body": to_text(body) if body else None,
    }


@pytest.mark.apache_classes
@given(command=COMMANDS)
def test_java_reads_our_commands(oracle: JavaOracle, command: RemotingCommand) -> None:
    if oracle.release.client.startswith("5.5."):
        # Its fastjson2 refuses the name of a field that has an escape and a character of four bytes.
        assume(all(name.isascii() or not re.search(r'[\x00-\x1f"\\]', name) for name in command.fields))
    read = oracle.decode_command(encode_command(command))
    assert {**read, "extFields": read["extFields"] or None} == in_java(command)


@pytest.mark.apache_classes
@given(command=COMMANDS)
def test_we_read_javas_commands(oracle: JavaOracle, command: RemotingCommand) -> None:
    assert decode_command(memoryview(oracle.encode_command(in_java(command)))[4:]) == command


NAME = "n" * 255
LARGEST_TEXTS = {
    # A value of a property may have any characters. Its key and the separators take the rest of the 32,767 bytes.
    RequestCode.SEND_MESSAGE_V2: {**dict.fromkeys("abcdeghjklmn", NAME), "i": f"a\1{chr(3) * 32_764}\2"},
    # The longest filter. Pull consumers send it with each pull.
    RequestCode.PULL_MESSAGE: {"consumerGroup": NAME, "topic": NAME, "subscription": chr(3) * 32_768},
}


@pytest.mark.apache_classes
@pytest.mark.parametrize("code", LARGEST_TEXTS)
@pytest.mark.parametrize("serialization", Serialization)
def test_we_read_the_largest_headers_of_javas_clients(
    oracle: JavaOracle, code: RequestCode, serialization: Serialization
) -> None:
    command = RemotingCommand(code, LARGEST_TEXTS[code], serialization=serialization, language=LanguageCode.JAVA)
    frame = memoryview(oracle.encode_command(in_java(command)))[4:]
    assert decode_command(frame, header_bytes_max=REQUEST_HEADER_BYTES_MAX).fields == command.fields
    if serialization is Serialization.JSON:  # fastjson writes six bytes for a control character
        assert len(frame) > REQUEST_HEADER_BYTES_MAX // 2


def test_a_large_code_reaches_java(oracle: JavaOracle) -> None:
    command = RemotingCommand(RequestCode.POP_MESSAGE, {"topic": "T"})
    assert oracle.decode_command(encode_command(command))["code"] == 200050


@pytest.mark.parametrize(("ours", "theirs"), [(RequestCode, "RequestCode"), (ResponseCode, "ResponseCode")])
def test_codes(oracle: JavaOracle, ours: type[RequestCode | ResponseCode], theirs: str) -> None:
    constants = oracle.read_constants(theirs)
    if oracle.release.client.startswith("5."):
        assert {code.name for code in ours} <= constants.keys()
    assert {code.name: code.value for code in ours if code.name in constants}.items() <= constants.items()


def test_languages_and_versions(oracle: JavaOracle) -> None:
    languages = oracle.read_constants("LanguageCode")
    assert languages.items() <= {language.name: language.value for language in LanguageCode}.items()
    versions = oracle.read_constants("MQVersion$Version")
    assert [versions[name] for name in ("V4_5_0", "V4_9_3", "V5_5_0")] == [V4_5_0, V4_9_3, VERSION]


# ---- headers

SHARED = {
    RequestCode.GET_MIN_OFFSET: "GetMinOffsetRequestHeader",
    RequestCode.GET_EARLIEST_MSG_STORETIME: "GetEarliestMsgStoretimeRequestHeader",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "GetConsumerListByGroupRequestHeader",
    RequestCode.GET_CONSUMER_CONNECTION_LIST: "GetConsumerConnectionListRequestHeader",
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: "NotifyConsumerIdsChangedRequestHeader",
    RequestCode.DELETE_TOPIC_IN_BROKER: "DeleteTopicRequestHeader",
}
"""The names of Java's headers whose fields are those of a base class here. 351 and 352 are new in 5.x."""
OFFSETS = ("QueryConsumerOffset", "SearchOffset", "GetMaxOffset", "GetMinOffset")
NEW = (
    *("GetSubscriptionGroupConfigRequestHeader", "RecallMessageRequestHeader", "RecallMessageResponseHeader"),
    *(
        header.__name__
        for header in vars(pop_headers).values()
        if getattr(header, "__module__", "") == pop_headers.__name__
    ),
)
NOT_IN_JAVA = (
    *("Header", "RpcRequestHeader", "TopicRequestHeader", "TopicQueueRequestHeader", "GroupRequestHeader"),
    "OffsetResponseHeader",
)
OWN_HEADERS = {*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}

JAVA_HEADERS: list[tuple[str, type[Header]]] = sorted(
    (
        *((name, REQUEST_HEADERS[code]) for code, name in SHARED.items()),
        *((f"{name}ResponseHeader", OffsetResponseHeader) for name in OFFSETS),
        *((header.__name__, header) for header in OWN_HEADERS if header.__name__ not in NOT_IN_JAVA),
    ),
    key=lambda pair: pair[0],
)
VALID: dict[str, list[Any]] = {
    "topicFilterType": ["SINGLE_TAG"],
    "commitOrRollback": [0, 8, 12],
    "boundaryType": ["LOWER", "UPPER"],
}
"""What Java accepts in fields that it checks."""
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a text": TEXTS,
    "true or false": st.booleans(),
    "a number of 32 bits": INTS,
    "a number of 64 bits": LONGS,
}


def read_in_java(oracle: JavaOracle, name: str, received: dict[str, str]) -> dict[str, str]:
    """The fields of a header that Java has read. The oracle shows large numbers as texts, so all are texts here."""
    valid = {field: str(values[0]) for field, values in VALID.items()}
    read = oracle.decode_header(name, {**valid, **received})
    return {
        field: json.dumps(value).strip('"') if isinstance(value, bool) else str(value) for field, value in read.items()
    }


@pytest.mark.apache_classes
@given(data=st.data(), pair=st.sampled_from(JAVA_HEADERS))
def test_headers(oracle: JavaOracle, data: st.DataObject, pair: tuple[str, type[Header]]) -> None:
    name, header = pair
    if name in NEW and oracle.release.client.startswith("4."):
        return
    known = set(read_in_java(oracle, name, {}))
    if name == "SendMessageRequestHeaderV2":
        known = set("abcdefghijklmn")  # Java has more fields, but reads only these
    values: dict[str, Any] = {}
    for column in list_columns(header):
        value = st.sampled_from(VALID[column.name]) if column.name in VALID else VALUES[column.kind]
        if column.name in known:
            values[column.attribute] = data.draw(value if column.is_required else st.none() | value)
    ours = header(**values)
    written = {field: text for field, text in ours.to_fields().items() if field in known}

    assert written.items() <= read_in_java(oracle, name, written).items()
    in_java = {column.name: values.get(column.attribute) for column in list_columns(header)}
    theirs = oracle.encode_header(name, {field: value for field, value in in_java.items() if value is not None})
    assert written.items() <= theirs.items()
    assert written.items() <= header.from_fields(theirs).to_fields().items()


def test_every_field_of_java_is_declared(oracle: JavaOracle) -> None:
    # Lite topics, pops that suspend, and notifications with filters are not emulated.
    new_in_5_5 = {"liteTopic", "suspend", "exp", "expType"} if oracle.release.client.startswith("5.5.") else set()
    for name, header in JAVA_HEADERS:
        if name not in NEW or oracle.release.client.startswith("5."):
            declared = {column.name for column in list_columns(header)}
            # SEND_MESSAGE_V2 has the broker's name twice; ours is "n".
            assert read_in_java(oracle, name, {}).keys() <= declared | {"bname"} | new_in_5_5, name


NUMBERS = st.sampled_from(["0", "-1", "+7", "", "-", "+", " 1", "1_0", "1.0", "٣", "0x1", str(2**63 - 1), str(2**63)])


@given(text=NUMBERS | st.text("0123456789+-_. ", max_size=21))
def test_numbers(oracle: JavaOracle, text: str) -> None:
    assert (
        str(read_offset(text)) == read_in_java(oracle, "QueryConsumerOffsetResponseHeader", {"offset": text})["offset"]
    )


def read_offset(text: str) -> int | None:
    try:
        return OffsetResponseHeader.from_fields({"offset": text}).offset
    except WireError:
        return None


def test_bad_numbers_of_pulls_are_refused(oracle: JavaOracle) -> None:
    bad = {"suggestWhichBrokerId": "0", "nextBeginOffset": "1", "minOffset": "0", "maxOffset": "x"}
    with pytest.raises(JavaRefused, match="NumberFormatException"):
        oracle.decode_header("PullMessageResponseHeader", bad)
    with pytest.raises(WireError):
        PullMessageResponseHeader.from_fields(bad)


# ---- JSON

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | LONGS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON_VALUES)
def test_we_read_what_fastjson_writes(oracle: JavaOracle, value: Any) -> None:
    written = oracle.print_json(value)
    assert read_json(written.encode()) == without_null(value)
    assert read_json(b"[" + written.encode() + b",]") == [without_null(value)]  # our own reader


def without_null(value: Any) -> Any:
    """A value as fastjson writes it: fields that are null are left out."""
    if isinstance(value, dict):
        return {name: without_null(inner) for name, inner in value.items() if inner is not None}
    return [without_null(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{0:"x",-1:"y"}}',
        "{{'b':1}:3}",
        "{'a':'it\\'s',}",
        "{a:1,$b_2:[]}",
        "[1,2,]",
        r"""['\x41\u00fc\v\0\'\/\b']""",
        "['tab\tand\nline']",
        "[-1.5e3,true,null]",
        "[undefined,]",
    ],
)
def test_fastjson_reads_the_dialect_as_we_do(oracle: JavaOracle, text: str) -> None:
    assert read_json(text.encode()) == oracle.parse_json(text)


BROKERS = st.builds(BrokerData, TEXTS, FILLED, st.dictionaries(LONGS, TEXTS, max_size=3))
ROUTES = st.builds(
    TopicRoute,
    st.lists(st.builds(QueueData, FILLED, INTS, INTS, INTS, INTS), max_size=3).map(tuple),
    st.lists(BROKERS, max_size=3).map(tuple),
    st.none() | FILLED,
)


@pytest.mark.apache_classes
@given(route=ROUTES, is_standard=st.booleans())
def test_routes(oracle: JavaOracle, route: TopicRoute, is_standard: bool) -> None:
    value = json.loads(route.encode())
    assert TopicRoute.decode(oracle.encode_body("TopicRouteData", value, is_standard)) == route
    read = oracle.decode_body("TopicRouteData", route.encode())
    assert TopicRoute.decode(json.dumps(read).encode()) == route


@given(
    brokers=st.dictionaries(FILLED, BROKERS, max_size=3),
    clusters=st.dictionaries(FILLED, st.lists(FILLED, max_size=3, unique=True), max_size=3),
)
def test_clusters(oracle: JavaOracle, brokers: dict[str, BrokerData], clusters: dict[str, list[str]]) -> None:
    info = ClusterInfo(brokers, {name: tuple(sorted(members)) for name, members in clusters.items()})
    read = ClusterInfo.decode(oracle.encode_body("ClusterInfo", json.loads(info.encode())))
    in_order = {name: tuple(sorted(members)) for name, members in read.clusters.items()}  # Java has sets
    assert ClusterInfo(read.brokers, in_order) == info


@given(topics=st.lists(TEXTS, max_size=5, unique=True))
def test_lists_of_topics(oracle: JavaOracle, topics: list[str]) -> None:
    body = oracle.encode_body("TopicList", json.loads(TopicList(tuple(topics)).encode()))
    assert sorted(TopicList.decode(body).topics) == sorted(topics)


# ---- properties, ids, signatures

WITHOUT_SEPARATORS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)


@pytest.mark.apache_classes
@given(properties=st.dictionaries(WITHOUT_SEPARATORS, WITHOUT_SEPARATORS, max_size=4))
def test_properties(oracle: JavaOracle, properties: dict[str, str]) -> None:
    assert oracle.decode_properties(encode_properties(properties)) == properties
    assert decode_properties(oracle.encode_properties(properties)) == properties


@given(text=st.text("ab\x01\x02", max_size=12))
def test_odd_texts_of_properties(oracle: JavaOracle, text: str) -> None:
    assert decode_properties(text) == oracle.decode_properties(text)


def test_reserved_names_of_properties(oracle: JavaOracle) -> None:
    reserved = set(oracle.read_constants("MessageConst")["STRING_HASH_SET"])
    if oracle.release.client.startswith("4."):
        assert reserved <= names.RESERVED
    elif oracle.release.client.startswith("5.5."):
        assert reserved == names.RESERVED
    else:
        assert names.RESERVED - reserved == {"ORIGIN_GROUP", "_SYS_MSG_PRIORITY_", "__LITE_TOPIC"}


@given(host=st.ip_addresses().map(str), port=st.integers(0, 65535), offset=st.integers(0, 2**63 - 1))
@example(host="127.0.0.1", port=10911, offset=0)
@example(host="::ffff:127.0.0.1", port=10911, offset=0)
def test_ids_of_brokers(oracle: JavaOracle, host: str, port: int, offset: int) -> None:
    msg_id = oracle.create_message_id(host, port, offset)
    assert make_offset_msg_id(host, port, offset) == msg_id
    found = parse_offset_msg_id(msg_id)
    read = oracle.decode_message_id(msg_id)
    assert (ip_address(read["host"]), read["port"], int(read["offset"])) == (ip_address(found.host), port, offset)
    assert (found.port, found.physical_offset) == (port, offset)


def test_ids_of_clients(oracle: JavaOracle) -> None:
    msg_id = oracle.create_unique_id()
    key = parse_uniq_key(msg_id)
    assert ip_address(key.host) == ip_address(oracle.read_host_of_unique_id(msg_id))
    made = datetime.fromtimestamp(oracle.read_time_of_unique_id(msg_id) / 1000)
    assert made - datetime(made.year, made.month, 1) == timedelta(milliseconds=key.month_ms)


@given(
    fields=st.dictionaries(FILLED, FILLED, max_size=5),
    body=st.binary(max_size=20),
    secret=FILLED,
    token=st.none() | FILLED,
)
@example(fields={"\uff5e": "2", "\U0001f600": "1"}, body=b"", secret="s", token=None)
def test_signatures(oracle: JavaOracle, fields: dict[str, str], body: bytes, secret: str, token: str | None) -> None:
    command = RemotingCommand(RequestCode.PULL_MESSAGE, fields, body)
    signed = oracle.sign(in_java(command), "key", secret, token)
    assert {**fields, **sign_fields(fields, body, "key", secret, token)} == signed
