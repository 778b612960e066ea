"""The examples do what they say, and continue after a restart."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqpull_broker.core.model import Message
from tests.harness.server_kinds import needs
from tests.harness.spark_sink import ServeSink

EXAMPLES = Path(__file__).parents[3] / "examples"


def load_example(name: str) -> Callable[[str, Path], None]:
    """Loads an example, to run it in this process, which has a session already."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Callable[[str, Path], None] = module.main
    return main


@needs("endpoints")
def test_the_round_trip(serve: ServeSink, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = serve({"orders": 2, "paid": 2, "refused": 1})
    sink.server.send("orders", b'{"id": 1, "amount": 250}', b'{"id": 2, "amount": 5}')
    load_example("round_trip")(sink.server.options["endpoints"], tmp_path)
    sink.server.send("orders", b'{"id": 3, "amount": 101}')
    load_example("round_trip")(sink.server.options["endpoints"], tmp_path)
    assert {row.message.tags for row in sink.messages("paid")} == {"order-1", "order-3"}
    assert [row.message.tags for row in sink.messages("refused")] == ["order-2"]
    assert len(sink.bodies("paid")) == 2
    assert capsys.readouterr().out == "written: 2\nwritten: 1\n"


@needs("stages")
def test_for_each_batch(serve: ServeSink, tmp_path: Path) -> None:
    sink = serve({"orders": 2, "copies": 2, "counts": 1})
    sink.server.send("orders", Message(b"a", "", tags="paid"), Message(b"b", "", tags="paid"), Message(b"c", ""))
    load_example("for_each_batch")(sink.server.options["endpoints"], tmp_path)
    assert sorted(sink.bodies("copies")) == [b"a", b"b", b"c"]
    assert {(row.message.tags, row.message.body) for row in sink.messages("counts")} == {
        ("paid", b"2"),
        (None, b"1"),
    }
