"""Which server a command calls: flags, variables and profiles, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from rmqpull_broker.testing import RunningBroker
from rmqpull_client import Connection, Credentials, Tls
from rmqpull_client.cli import main
from rmqpull_client.cli.servers import find_profiles_file, find_target, make_click_error, make_connection, read_profile
from rmqpull_client.errors import OptionError
from tests.harness.cli import error_of, make_runner, table_of

NOWHERE = "127.0.0.1:1"
PROFILES = """
[production]
name-servers = "h:9876;i:9876"
namespace = "shop"
access-key = "reader"
secret-key = "hidden"
timeout = 2.5
tls = true

[only-keys]
access-key = "reader"
secret-key = "hidden"

[wrong-key]
name-server = "h:9876"

[wrong-value]
name-servers = "h"

[wrong-kind]
tls = "yes"
"""


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    file = tmp_path / "profiles.toml"
    file.write_text(PROFILES, encoding="utf-8")
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(
    ("sources", "connection"),
    [
        ([{"name_servers": "h:1"}], Connection(name_servers="h:1")),
        ([{"endpoints": "h:1"}, {"name_servers": "i:1"}], Connection("h:1")),
        (
            [{"timeout": 2.5}, {"name_servers": "h:1", "timeout": 9.0}],
            Connection(name_servers="h:1", request_timeout_ms=2500),
        ),
        ([{"endpoints": "h:1", "ca_file": "a"}], Connection("h:1", tls=Tls("a"))),
        ([{"endpoints": "h:1", "tls": False}, {"tls": True}], Connection("h:1")),
        ([{"endpoints": "h:1", "tls": True}], Connection("h:1", tls=Tls())),
        (
            [{"endpoints": "h:1"}, {"access_key": "a", "secret_key": "b", "namespace": "n"}],
            Connection("h:1", credentials=Credentials("a", "b"), namespace="n"),
        ),
    ],
)
def test_the_nearest_source_decides(sources: list[dict[str, Any]], connection: Connection) -> None:
    made = make_connection(sources)
    assert made.client_id == "rmqpull"
    expected = Connection(**{**vars(connection), "client_id": "rmqpull"})
    assert made == expected


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({}, "no server is named: give --name-servers or --endpoints, or set"),
        ({"endpoints": "h:1", "name_servers": "h:1"}, "give only one of --name-servers and --endpoints"),
        ({"endpoints": "h:1", "access_key": "a"}, "give both --access-key and --secret-key"),
        ({"endpoints": "h:1", "cert_file": "a"}, "give both --cert-file and --key-file"),
        ({"endpoints": "h:1", "broker_addresses": "b=h:1"}, "--broker-addresses needs --name-servers"),
    ],
)
def test_contradictions_are_refused(source: dict[str, Any], sentence: str) -> None:
    with pytest.raises(click.UsageError, match=sentence):
        make_connection([source])


def test_the_target_of_a_copy_has_its_own_flags_and_the_timeout_of_the_source(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQPULL_PROFILES", str(profiles))
    source = Connection("h:1", namespace="n", credentials=Credentials("a", "b"), request_timeout_ms=7000)
    own = Connection("i:1", client_id="rmqpull", request_timeout_ms=7000)
    assert find_target(source, None, None, None) is source
    assert find_target(source, None, "i:1", None) == own
    keys = Credentials("reader", "hidden")
    assert find_target(source, "i:1", None, "only-keys") == replace(
        own, endpoints="", name_servers="i:1", credentials=keys
    )
    assert find_target(source, None, None, "production").request_timeout_ms == 2500
    with pytest.raises(click.UsageError, match="profile only-keys names no server: give --to-name-servers or"):
        find_target(source, None, None, "only-keys")


def test_a_profile_has_the_values_of_flags(profiles: Path) -> None:
    assert read_profile(profiles, "production") == {
        "name_servers": "h:9876;i:9876",
        "namespace": "shop",
        "access_key": "reader",
        "secret_key": "hidden",
        "timeout": 2.5,
        "tls": True,
    }


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none", "has no profile none; it has: production, only-keys, wrong-key, wrong-value, wrong-kind"),
        ("wrong-key", "key name-server of profile wrong-key in .* is unknown: did you mean name-servers"),
        ("wrong-value", "key name-servers of profile wrong-value in .*: 'h' is not HOST:PORT"),
        ("wrong-kind", "key tls of profile wrong-kind in .*: it is of the wrong kind"),
    ],
)
def test_a_wrong_profile_is_refused(profiles: Path, name: str, sentence: str) -> None:
    with pytest.raises(click.UsageError, match=sentence):
        read_profile(profiles, name)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_of_profiles_that_others_may_use_is_refused(profiles: Path, mode: int) -> None:
    profiles.chmod(mode)
    with pytest.raises(
        click.UsageError, match=rf"others can read .* \(its mode is {mode:o}\), which may have keys: run chmod 600"
    ):
        read_profile(profiles, "production")


def test_a_file_of_profiles_that_is_missing_or_no_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"profile a cannot be read from .*: No such file"):
        read_profile(tmp_path / "none.toml", "a")
    file = tmp_path / "profiles.toml"
    file.write_bytes(b"[a")
    file.chmod(0o600)
    with pytest.raises(click.UsageError, match="is not TOML"):
        read_profile(file, "a")


def test_the_file_of_profiles_is_among_the_users_configuration(tmp_path: Path) -> None:
    assert find_profiles_file({"RMQPULL_PROFILES": "/a/b.toml"}) == Path("/a/b.toml")
    assert find_profiles_file({"XDG_CONFIG_HOME": "/c"}) == Path("/c/rmqpull/profiles.toml")
    assert find_profiles_file({}) == Path.home() / ".config" / "rmqpull" / "profiles.toml"


def test_flags_before_and_after_the_command_variables_and_a_profile_work(broker: RunningBroker, profiles: Path) -> None:
    address, endpoints = broker.remoting_addresses[0], broker.endpoints
    profiles.write_text(f'[own]\nendpoints = "{endpoints}"\n[wrong]\nendpoints = "{NOWHERE}"\n', encoding="utf-8")
    file = {"RMQPULL_PROFILES": str(profiles)}
    for arguments, variables in (
        (["topics", "--endpoints", endpoints], {"RMQPULL_ENDPOINTS": NOWHERE}),
        (["--endpoints", NOWHERE, "topics", "--name-servers", address], {}),
        (["--name-servers", address, "topics"], {"RMQPULL_ENDPOINTS": NOWHERE}),
        (["topics"], {"RMQPULL_NAME_SERVERS": address}),
        (["--profile", "own", "topics"], file),
        (["topics", "--profile", "own"], file),
        (["topics"], {**file, "RMQPULL_PROFILE": "own"}),
        (["topics", "--endpoints", endpoints], {**file, "RMQPULL_PROFILE": "wrong"}),
    ):
        result = make_runner(env=variables).invoke(main, arguments, prog_name="rmqpull")
        assert [row[0] for row in table_of(result)] == ["TOPIC", "orders", "single"]


@pytest.mark.parametrize("flag", ["--endpoints", "--name-servers"])
def test_an_unreachable_server_ends_with_exit_code_3(flag: str) -> None:
    result = make_runner().invoke(main, [flag, NOWHERE, "topics", "--timeout", "0.2"], prog_name="rmqpull")
    assert NOWHERE in error_of(result, 3)


def test_a_namespace_hides_other_topics(broker: RunningBroker) -> None:
    broker.create_topic("shop%orders", 1)
    for flag, address in (("--endpoints", broker.endpoints), ("--name-servers", broker.remoting_addresses[0])):
        result = make_runner().invoke(main, [flag, address, "--namespace", "shop", "topics"], prog_name="rmqpull")
        assert table_of(result)[1:] == [["orders", "1", "1", "0"]]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Set option nameServers to a name server.", "Set --name-servers to a name server."),
        ("Option brokerAddresses names this address.", "--broker-addresses names this address."),
        ("Check the keys (options accessKey and secretKey).", "Check the keys (--access-key and --secret-key)."),
        ("It is closed. Then set option tlsEnabled to true.", "It is closed. Then give --tls."),
        ("Bad (options filterExpression and filterType). b", "Bad (--tag or --sql). b"),
        ("Set options tlsCertFile and tlsKeyFile.", "Set --cert-file and --key-file."),
        ("These endpoints and namespaces are no options.", "These endpoints and namespaces are no options."),
    ],
)
def test_errors_name_flags_instead_of_the_options_of_spark(text: str, shown: str) -> None:
    assert make_click_error(OptionError(text)).message == shown
