"""The folders of tests mirror those of sources: whoever knows a module finds its tests, and vice versa.

A test module below tests/{client,connector,broker,proto} or tests/{bench,demo,processes,soak} is in the folder that
mirrors a source folder, and is named ``test_<module>.py`` or ``test_<module>_<aspect>.py`` after a module or a folder
there (``__main__`` is ``main``). Each long module of the product has a test module of its name, or a row in COVERED.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES = {
    "client": "connector/rmqpull_client",
    "connector": "connector/pyspark_rmqpull",
    "broker": "broker_emulator/rmqpull_broker",
    "proto": "proto/rmqpull_proto",
}
PROGRAMS = {name: name for name in ("bench", "demo", "processes", "soak")}
UNTESTED_LINES_MAX = 100
"""A longer module has tests of its name, or a row in COVERED."""


class Covered(NamedTuple):
    """The test module that covers a source module, and why no test module has its name."""

    by: str
    reason: str


ALL_TRANSPORTS = "every test of the port runs against all transports"
DECLARES = "it only declares types and values"
COVERED = {
    "connector/rmqpull_client/cli/copies/copied.py": Covered(
        "client/cli/commands/test_copy.py", "a copy is what keeps how far it has come"
    ),
    "connector/rmqpull_client/consumers/fetching.py": Covered(
        "client/consumers/test_lite_pull.py", "what a consumer reads is fetched"
    ),
    "connector/rmqpull_client/consumers/membership.py": Covered(
        "client/consumers/test_member.py", "a member is what sends heartbeats"
    ),
    "connector/rmqpull_client/cli/exports/pieces.py": Covered(
        "client/cli/commands/test_export.py", "an export is what writes pieces"
    ),
    "connector/rmqpull_client/cli/searching.py": Covered(
        "client/cli/commands/test_peek.py", "peek shows what a search finds"
    ),
    "connector/rmqpull_client/cli/sending.py": Covered(
        "client/cli/commands/test_send.py", "send is what sends from the shell"
    ),
    "connector/rmqpull_client/transports/grpc/columnar/client.py": Covered(
        "client/transports/test_port.py", ALL_TRANSPORTS
    ),
    "connector/rmqpull_client/transports/grpc/columnar/lane.py": Covered(
        "client/transports/test_port.py", ALL_TRANSPORTS
    ),
    "connector/rmqpull_client/transports/grpc/standard/client.py": Covered(
        "client/transports/test_port.py", ALL_TRANSPORTS
    ),
    "connector/rmqpull_client/transports/grpc/standard/lane.py": Covered(
        "client/transports/test_port.py", ALL_TRANSPORTS
    ),
    "connector/rmqpull_client/transports/remoting/group_listings.py": Covered(
        "client/transports/test_port_groups.py", ALL_TRANSPORTS
    ),
    "connector/rmqpull_client/transports/remoting/reading/looking.py": Covered(
        "client/transports/test_port_looking.py", ALL_TRANSPORTS
    ),
    "connector/rmqpull_client/transports/remoting/sending/send_request.py": Covered(
        "client/transports/remoting/sending/test_outbox.py", "an outbox is what its requests go through"
    ),
    "connector/rmqpull_client/transports/grpc/calls.py": Covered(
        "client/transports/grpc/test_channel.py", "a channel is what makes these calls"
    ),
    "connector/pyspark_rmqpull/options/selection.py": Covered("connector/options/test_source.py", DECLARES),
    "connector/pyspark_rmqpull/options/sending.py": Covered(
        "connector/options/test_sink.py", "these are options of the sink"
    ),
    "broker_emulator/rmqpull_broker/config_values.py": Covered(
        "broker/test_config.py", "these are the values of the configuration"
    ),
    "broker_emulator/rmqpull_broker/core/errors.py": Covered("broker/server/grpc/wire/test_status.py", DECLARES),
    "broker_emulator/rmqpull_broker/core/model.py": Covered("broker/core/state/test_broker_state.py", DECLARES),
    "broker_emulator/rmqpull_broker/core/pulling/request.py": Covered("broker/core/pulling/test_checks.py", DECLARES),
    "broker_emulator/rmqpull_broker/core/pulling/subscription_checks.py": Covered(
        "broker/core/pulling/test_checks.py", "these are rows of the table of all checks"
    ),
    "broker_emulator/rmqpull_broker/core/sending/column_batches.py": Covered(
        "broker/core/sending/test_sender.py", "published batches are stored by the sender"
    ),
    "broker_emulator/rmqpull_broker/core/sending/column_checks.py": Covered(
        "broker/core/sending/test_row_checks.py", "rows and columns are checked by the same cases"
    ),
    "broker_emulator/rmqpull_broker/core/sending/refusals.py": Covered(
        "broker/core/sending/test_row_checks.py", "each refusal is the result of a check"
    ),
    "broker_emulator/rmqpull_broker/core/state/facts.py": Covered("broker/store/log/test_record.py", DECLARES),
    "broker_emulator/rmqpull_broker/core/state/ports.py": Covered("broker/store/test_disk_storage.py", DECLARES),
    "broker_emulator/rmqpull_broker/core/state/stage_facts.py": Covered(
        "broker/store/log/test_record_stages.py", DECLARES
    ),
    "broker_emulator/rmqpull_broker/core/state/stages.py": Covered(
        "broker/core/sending/test_stage_commands.py", "stages change by these commands only"
    ),
    "broker_emulator/rmqpull_broker/core/state/waiting_messages.py": Covered(
        "broker/core/state/test_retention_trimming.py", "waiting messages are read to be stored again"
    ),
    "broker_emulator/rmqpull_broker/server/grpc/handlers/admin/codec.py": Covered(
        "broker/server/grpc/handlers/admin/test_topics.py", "handlers encode what they return"
    ),
    "broker_emulator/rmqpull_broker/server/runtime/service.py": Covered("broker/server/test_app.py", DECLARES),
    "broker_emulator/rmqpull_broker/server/grpc/wire/codec.py": Covered(
        "broker/server/grpc/handlers/v2/test_sending.py", "handlers decode what they take"
    ),
    "broker_emulator/rmqpull_broker/store/log/small_facts.py": Covered(
        "broker/store/log/test_record.py", "a record is made of facts"
    ),
    "broker_emulator/rmqpull_broker/store/queues/chunks.py": Covered(
        "broker/store/queues/test_consume_queue.py", "a queue is made of chunks"
    ),
}


def list_tests() -> Iterator[Path]:
    for area in (*SOURCES, *PROGRAMS):
        yield from sorted((REPOSITORY / "tests" / area).rglob("test_*.py"))


def list_sources() -> Iterator[Path]:
    for root in SOURCES.values():
        found = sorted((REPOSITORY / root).rglob("*.py"))
        yield from (path for path in found if not path.stem.endswith(("_pb2", "_pb2_grpc", "__init__")))


def find_source(test: Path) -> Path | None:
    """The module or folder that a test module is named after, without ``.py``; None when there is none."""
    area, *folders = test.relative_to(REPOSITORY / "tests").parent.parts
    folder = REPOSITORY.joinpath({**SOURCES, **PROGRAMS}[area], *folders)
    if not folder.is_dir():
        return None
    names = {path.stem.strip("_"): path.with_suffix("") for path in folder.iterdir() if path.stem != "__init__"}
    about = test.stem.removeprefix("test_")
    named = [name for name in names if about == name or about.startswith(f"{name}_")]
    return names[max(named, key=len)] if named else None


def test_every_test_module_is_named_after_what_it_tests() -> None:
    astray = [str(test.relative_to(REPOSITORY)) for test in list_tests() if find_source(test) is None]
    assert astray == [], "move each to the folder that mirrors its source's, as test_<module>[_<aspect>].py"


def test_every_long_module_has_tests() -> None:
    covered = {find_source(test) for test in list_tests()}
    missing = []
    for module in list_sources():
        name, lines = str(module.relative_to(REPOSITORY)), len(module.read_text(encoding="utf-8").splitlines())
        if lines > UNTESTED_LINES_MAX and module.with_suffix("") not in covered and name not in COVERED:
            missing.append(f"{name}: {lines} lines")
    assert missing == [], "add tests named after each module, or a row to COVERED with the test that covers it"


@pytest.mark.parametrize("name", COVERED)
def test_every_row_is_needed_and_names_a_test(name: str) -> None:
    module = REPOSITORY / name
    assert module.is_file(), "there is no such module: remove or rename its row in COVERED"
    assert (REPOSITORY / "tests" / COVERED[name].by).is_file(), "there is no such test: name another one in COVERED"
    assert module.with_suffix("") not in {find_source(test) for test in list_tests()}, "it has tests: remove its row"
    assert len(module.read_text(encoding="utf-8").splitlines()) > UNTESTED_LINES_MAX, "it is short: remove its row"


def test_the_readme_of_the_tests_lists_every_harness() -> None:
    text = (REPOSITORY / "tests" / "README.md").read_text(encoding="utf-8")
    modules = sorted((REPOSITORY / "tests" / "harness").glob("*.py"))
    missing = [m.stem for m in modules if f"(`{m.stem}`)" not in text and f"harness/{m.name}" not in text]
    assert missing == ["__init__"], "add a row to tests/README.md: what it stands for, and when to use it"
