"""``rmqpull-broker serve``: help, and one clear sentence for each invalid input."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from click.testing import Result

import rmqpull_broker
from rmqpull_broker.cli import main
from rmqpull_broker.cli.commands.serve import _tell_access
from rmqpull_broker.config import SETTINGS, BrokerConfig
from rmqpull_broker.config_values import Address, parse_admin_from
from tests.harness.cli import NEWEST_WORDS, make_runner


def run(*arguments: str) -> Result:
    # Wide enough that no sentence of the help wraps.
    return make_runner().invoke(main, list(arguments), prog_name="rmqpull-broker", terminal_width=110)


def sentence_of(result: Result) -> str:
    """The last line, which is the error; click prints the usage above it."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stdout == ""
    *usage, last = result.stderr.splitlines()
    assert all(line.startswith(("Usage:", "Try ")) or not line for line in usage)
    return last


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "nowhere"], "Invalid value for '--listen': 'nowhere' is not an address: use HOST:PORT"),
        (["--listen", "127.0.0.1:65536"], "Invalid value for '--listen': '127.0.0.1:65536' is not an address"),
        (["--listen", ""], "Invalid value for '--listen': '' is not an address"),
        (["--topic", "flights"], "Invalid value for '--topic': 'flights' is not a topic: use NAME:QUEUES"),
        (["--topic", "flights:0"], "topic 'flights' has 0 queues: use 1 to 1024"),
        (["--topic", "flights:8:fast"], "topic 'flights' has the unknown type 'fast'"),
        (["--topic", "flights!:8"], "topic 'flights!' has an illegal name"),
        (["--topic", "a:1", "--topic", "b:1", "--topic", "a:2"], "topic 'a' is given 2 times: give it once"),
        (
            ["--extensions", "rows"],
            "'rows' has unknown extensions: use some of ",
        ),
        (["--extensions", "COLUMNS"], "'COLUMNS' has unknown extensions"),
        (["--data-dir", ""], "'' is not a directory"),
        (["--remoting-vip"], "remoting-vip has no effect without remoting: set that too"),
        (["--remoting-vip", "--remoting-vip"], "--remoting-vip is given 2 times: give it once"),
        (["--remoting-vip", "--remoting", "h:2"], "two below the port 2 of broker-a, and there is no port 0"),
        (["--data-dir"], "Option '--data-dir' requires an argument."),
        (["--listen", "h:1", "--listen", "h:1"], "--listen is given 2 times: give it once"),
        (["--data-dir", "a", "--data-dir=b"], "--data-dir is given 2 times: give it once"),
        (["--extensions", "none", "--extensions", "none"], "--extensions is given 2 times: give it once"),
        pytest.param(["--topics", "a:1"], "No such option '--topics'. Did you mean '--topic'?", marks=NEWEST_WORDS),
        pytest.param(["--datadir", "d"], "No such option '--datadir'. Did you mean '--data-dir'?", marks=NEWEST_WORDS),
        pytest.param(["-p", "8081"], "No such option '-p'", marks=NEWEST_WORDS),
        (["flights:8"], "Got unexpected extra argument (flights:8)"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(arguments: list[str], sentence: str) -> None:
    result = run("serve", *arguments)
    assert sentence in sentence_of(result)
    assert result.exit_code == 2


@NEWEST_WORDS
def test_an_unknown_command_suggests_a_similar_one() -> None:
    result = run("serv")
    assert sentence_of(result) == "Error: No such command 'serv'. Did you mean 'serve'?"
    assert result.exit_code == 2


def test_help_says_what_this_is_and_what_it_can_do() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "A RocketMQ broker in one process" in result.stdout
    assert "serve" in result.stdout
    assert run("-h").stdout == result.stdout


def test_help_of_serve_names_every_setting_with_form_doc_and_default() -> None:
    words = " ".join(run("serve", "--help").stdout.split())
    for setting in SETTINGS:
        assert f"--{setting.name} {setting.form}" in words
        assert setting.doc in words
        assert setting.default is None or f"[default: {setting.default}]" in words


def test_help_of_serve_shows_the_ready_line_and_an_example() -> None:
    words = " ".join(run("serve", "--help").stdout.split())
    assert "ready endpoints=127.0.0.1:8081 pid=4711" in words
    assert "rmqpull-broker serve --listen 127.0.0.1:8081 --topic flights:8 --data-dir ./broker-data" in words


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"rmqpull-broker, version {rmqpull_broker.__version__}\n"


def test_a_configuration_file_is_read_and_its_errors_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('listen = "nowhere"')
    assert sentence_of(run("serve", "--config", str(file))).startswith(
        f"Error: {file}: listen: 'nowhere' is not an address: use HOST:PORT"
    )
    file.write_bytes(b"\xff")
    assert "is not TOML: it is not in UTF-8" in sentence_of(run("serve", "--config", str(file)))
    missing = tmp_path / "none.toml"
    assert f"cannot read {missing}: No such file" in sentence_of(run("serve", "--config", str(missing)))


def test_a_variable_is_read_and_its_errors_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQPULL_BROKER_CLOCK", "sundial")
    result = run("serve")
    assert "RMQPULL_BROKER_CLOCK: 'sundial' is not a clock" in sentence_of(result)
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (BrokerConfig(Address("127.0.0.1", 8081), remoting=[Address("localhost", 9876)]), []),
        (BrokerConfig(Address("::1", 8081), tls_listen=Address("127.0.0.1", 8443)), []),
        (BrokerConfig(Address("0.0.0.0", 8081)), [("0.0.0.0", "loopback addresses")]),
        (
            BrokerConfig(
                Address("127.0.0.1", 8081),
                remoting=[Address("10.0.0.1", 9876), Address("10.0.0.1", 10911)],
                tls_listen=Address("::", 8443),
                admin_from=parse_admin_from("10.0.0.0/8,loopback"),
            ),
            [("10.0.0.1, ::", "10.0.0.0/8, loopback addresses")],
        ),
    ],
)
def test_one_line_says_who_can_do_what_where_others_reach_the_broker(
    config: BrokerConfig, told: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        _tell_access(config)
    assert [record.args for record in caplog.records] == told
    assert all("--admin-from" in record.getMessage() for record in caplog.records)
