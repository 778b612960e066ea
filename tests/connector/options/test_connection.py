"""The options of the connection: which belong together, and that keys are never shown."""

from __future__ import annotations

import pickle

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.connection import Connection, Credentials, Tls
from rmqpull_client.errors import OptionError

NEEDED = {"endpoints": "a:8081", "topic": "flights"}
SECRET = "s3cr3t-of-the-tests"
KEYS = {"accessKey": "reader", "secretKey": SECRET}


def connection(**given: str) -> Connection:
    return SourceOptions.from_options(NEEDED | given).connection


def refusal(**given: str) -> str:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(NEEDED | given)
    assert SECRET not in str(refused.value)
    return str(refused.value)


def test_an_endpoint_alone_is_a_plain_connection() -> None:
    assert connection() == Connection("a:8081", 10_000, None, 50, "", None, None, None)


def test_every_option_reaches_the_connection() -> None:
    given = {
        **KEYS,
        "endpoints": "a:8081;b:8082",
        "namespace": "shop",
        "tlsEnabled": "TRUE",
        "tlsCaFile": "/ca.pem",
        "tlsCertFile": "/client.pem",
        "tlsKeyFile": "/client.key",
        "requestTimeoutMs": "7",
        "requestRetries": "0",
        "requestRetryIntervalMs": "9",
    }
    assert connection(**given) == Connection(
        "a:8081;b:8082", 7, 0, 9, "shop", Credentials("reader", SECRET), Tls("/ca.pem", "/client.pem", "/client.key")
    )


@pytest.mark.parametrize(
    ("endpoints", "addresses"),
    [
        ("a:1", ("a:1",)),
        ("a:1;b:2", ("a:1", "b:2")),
        (" a:1 , [::1]:2", ("a:1", "[::1]:2")),
        ("b:1;a:1;b:1", ("b:1", "a:1")),
    ],
)
def test_endpoints_are_separated_by_semicolons_or_commas_and_keep_their_order(
    endpoints: str, addresses: tuple[str, ...]
) -> None:
    assert connection(endpoints=endpoints).addresses == addresses
    assert Connection(endpoints).addresses == addresses


@pytest.mark.parametrize("endpoints", ["a:1;", "a:1;;b:1", "a:1 b:1", "a;b:1", "a:1;http://b:1"])
def test_one_bad_address_is_refused(endpoints: str) -> None:
    assert "separated by semicolons" in refusal(endpoints=endpoints)


def test_a_cluster_is_reached_by_its_name_servers() -> None:
    made = SourceOptions.from_options(
        {
            "nameServers": "n1:9876;n2:9876",
            "brokerAddresses": "broker-a=localhost:10911",
            "pollNameServerInterval": "500",
            "topic": "flights",
        }
    ).connection
    assert made == Connection(
        name_servers="n1:9876;n2:9876",
        broker_addresses="broker-a=localhost:10911",
        poll_name_server_interval_ms=500,
    )
    assert made.addresses == ("n1:9876", "n2:9876")
    assert made.endpoints_and_namespace == "n1:9876;n2:9876"


def test_a_bad_name_server_is_refused_with_the_port_that_it_usually_has() -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options({"nameServers": "n1", "topic": "flights"})
    assert str(refused.value) == (
        "Option nameServers is 'n1'. Expected HOST:PORT, such as 127.0.0.1:9876, or several of them separated by "
        "semicolons."
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tlsCaFile": " ", "tlsEnabled": "true"}, "Option tlsCaFile is ' '. Expected a path."),
        ({"tlsEnabled": "yes"}, "Option tlsEnabled is 'yes'. Expected true or false."),
        *[
            ({"brokerAddresses": bad}, f"Option brokerAddresses is {bad!r}. {reason} Expected the addresses of brokers")
            for bad, reason in (
                ("", "'' is not BROKER=HOST:PORT or BROKER:ID=HOST:PORT."),
                ("a=h:1;b", "'b' is not BROKER=HOST:PORT or BROKER:ID=HOST:PORT."),
                ("a:x=h:1", "'a:x=h:1' is not BROKER=HOST:PORT or BROKER:ID=HOST:PORT."),
                ("a=h", "'h' is not HOST:PORT."),
                ("a=h:1;a:0=h:2", "It names broker a with id 0 twice."),
            )
        ],
        ({"pollNameServerInterval": "9"}, "Option pollNameServerInterval is '9'. Expected an integer from 10 to"),
        ({"namespace": "a%b"}, "Option namespace is 'a%b'. Expected 1 to 120 of the characters"),
        ({"namespace": ""}, "Option namespace is ''. Expected 1 to 120 of the characters"),
        ({"requestRetries": "-1"}, "Option requestRetries is '-1'. Expected an integer from 0 to 1000000."),
        ({"requestRetryIntervalMs": "0"}, "Option requestRetryIntervalMs is '0'. Expected an integer from 1 to 60000."),
        *[
            (
                KEYS | {"accessKey": bad},
                "Option accessKey is set to a value that is not shown here. Expected printable",
            )
            for bad in ("", "a b", "a,b", "a/b", "a\nb", "ä")
        ],
        *[
            (KEYS | {"secretKey": bad}, "Option secretKey is set to a value that is not shown here. Expected a key")
            for bad in ("", f"{SECRET}\n", f" {SECRET}")
        ],
    ],
)
def test_what_cannot_work_is_refused_with_advice(given: dict[str, str], sentence: str) -> None:
    assert refusal(**given).startswith(sentence)


def test_keys_are_never_shown() -> None:
    options = SourceOptions.from_options(NEEDED | KEYS)
    assert options.secret_key == SECRET
    for holder in (options, options.connection, options.connection.credentials):
        assert SECRET not in repr(holder)
        assert "reader" not in repr(holder)


def test_a_connection_equals_its_copy_in_a_task() -> None:
    made = connection(**KEYS, tlsEnabled="true", tlsCaFile="/ca.pem")
    assert {made: "channel"}[pickle.loads(pickle.dumps(made))] == "channel"
    assert made != connection(accessKey="reader", secretKey="another", tlsEnabled="true", tlsCaFile="/ca.pem")
