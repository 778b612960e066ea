"""A broker that cannot start: one sentence on standard error, exit code 1, and no data loss."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.broker_processes import StartProcess
from tests.harness.rpc_client import Connect

SINGLE = v2.MessageQueue(topic=v2.Resource(name="single"), id=0)
BODIES = [f"message {number}".encode() for number in range(20)]


def refusal_of(*arguments: str, listen: str = "127.0.0.1:0", data_dir: Path | None = None) -> str:
    """The error of a broker that does not start."""
    command = [sys.executable, "-m", "rmqpull_broker", "serve", "--listen", listen, *arguments]
    command += [] if data_dir is None else ["--data-dir", str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    *logs, sentence = done.stderr.splitlines()
    assert all(" INFO rmqpull_broker" in line for line in logs), done.stderr
    assert sentence.startswith("Error: ")
    return sentence


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.fixture
def filled(start_process: StartProcess, connect: Connect, tmp_path: Path) -> Path:
    """A data directory with twenty messages, acknowledged one by one."""
    directory = tmp_path / "data"
    broker = start_process("--topic", "single:1", data_dir=directory)
    client = connect(broker.endpoints)
    for body in BODIES:
        client.send_bodies("single", body)
    broker.stop()
    return directory


def bodies_in(start_process: StartProcess, connect: Connect, directory: Path) -> list[bytes]:
    broker = start_process(data_dir=directory)
    bodies = connect(broker.endpoints).pull(SINGLE, 0).bodies
    broker.stop()
    return bodies


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_a_port_in_use_is_refused_for_every_name_of_this_machine(
    start_process: StartProcess, connect: Connect, host: str
) -> None:
    first = start_process("--topic", "single:1")
    address = f"{host}:{first.endpoints.rpartition(':')[2]}"
    assert refusal_of(listen=address) == (
        f"Error: cannot listen on {address}: the port is in use; "
        "set another address with --listen, or port 0 for a free one"
    )
    assert connect(first.endpoints).send_bodies("single", b"still served") == [0]


@pytest.mark.processes
def test_a_port_that_another_program_uses_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert "the port is in use" in refusal_of(listen=f"127.0.0.1:{other.getsockname()[1]}")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("192.0.2.1:0", "the address is not this machine's"),  # a documentation address (RFC 5737)
        ("nowhere.invalid:0", "the host's name is unknown"),
        ("http://127.0.0.1:0", "the host's name is unknown"),
        ("a..b:0", "the host's name is unknown"),
    ],
)
def test_an_address_that_is_not_of_this_machine_is_refused(address: str, reason: str) -> None:
    assert reason in refusal_of(listen=address)


# --- data directories -------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    for directory in (file, file / "below"):
        sentence = refusal_of(data_dir=directory)
        assert f"cannot use the data directory {directory}: {directory} is a file, or is in one" in sentence
    assert file.read_text() == "precious"


@pytest.mark.processes
def test_a_data_directory_that_cannot_be_created_is_refused() -> None:
    assert "cannot use the data directory /proc/none: " in refusal_of(data_dir=Path("/proc/none"))


def test_a_second_broker_on_the_same_data_directory_is_refused(
    start_process: StartProcess, connect: Connect, tmp_path: Path
) -> None:
    first = start_process("--topic", "single:1", data_dir=tmp_path)
    assert f"{tmp_path} is in use by another broker" in refusal_of(data_dir=tmp_path)
    assert connect(first.endpoints).send_bodies("single", b"still served") == [0]


def test_a_damaged_log_is_refused_and_stays_unchanged(
    start_process: StartProcess, connect: Connect, filled: Path
) -> None:
    (log,) = filled.glob("*.log")
    (snapshot,) = filled.glob("*.snapshot")
    snapshot.unlink()  # with a snapshot, a start does not read this far back
    whole = log.read_bytes()
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 0xFF
    log.write_bytes(damaged)
    sentence = refusal_of("--topic", "single:1", data_dir=filled)
    assert f"{log} is damaged at offset " in sentence
    assert "restore the file from a copy" in sentence
    assert log.read_bytes() == damaged
    log.write_bytes(whole)
    assert bodies_in(start_process, connect, filled) == BODIES


@pytest.mark.processes
def test_a_file_that_is_not_a_log_is_refused_and_stays_unchanged(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(b"somebody else's lines\n" * 100)
    assert f"{log} cannot be read" in refusal_of(data_dir=tmp_path)
    assert log.read_bytes() == b"somebody else's lines\n" * 100


def test_foreign_files_in_the_directory_cause_no_traceback(
    start_process: StartProcess, connect: Connect, filled: Path
) -> None:
    (filled / "notes.log").write_text("mine")
    (filled / "notes.txt").write_text("mine")
    assert bodies_in(start_process, connect, filled) == BODIES
    assert (filled / "notes.log").read_text() == "mine"


# --- topics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["single:2", "single:1:FIFO"])
def test_a_topic_of_another_shape_is_refused_with_the_data_intact(
    start_process: StartProcess, connect: Connect, filled: Path, topic: str
) -> None:
    before = files_of(filled)
    sentence = refusal_of("--topic", "another:1", "--topic", topic, data_dir=filled)
    assert "topic single exists with 1 queues of type NORMAL, but the request has " in sentence
    assert files_of(filled) == before
    assert bodies_in(start_process, connect, filled) == BODIES


# --- standard output --------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_an_error_of_standard_output_is_not_reported_as_one_of_the_data_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rmqpull_broker", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: cannot write the ready line to standard output: No space left on device\n",
    )
