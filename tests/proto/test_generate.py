"""The committed ``*_pb2`` modules are generated from the ``.proto`` files, and do not use protobuf's default pool."""

import subprocess
import sys
from pathlib import Path

import pytest

from rmqpull_proto import generate
from rmqpull_proto.generate import UnexpectedOutput, rewrite_module, rewrite_stub
from tests.harness.waiting import WAIT_S

SOURCE = "rmqpull/v1/columns.proto"
IMPORTS = ["apache/rocketmq/v2/definition.proto"]

PROTOC_MODULE = """\
from google.protobuf import descriptor_pool as _descriptor_pool
from apache.rocketmq.v2 import definition_pb2 as apache_dot_definition__pb2
DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(b'...')
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, 'rmqpull.v1.columns_pb2', _globals)
"""
OUR_MODULE = """\
from rmqpull_proto import pool as _pool
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as apache_dot_definition__pb2
DESCRIPTOR = _pool.POOL.AddSerializedFile(b'...')
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, 'rmqpull_proto.rmqpull.v1.columns_pb2', _globals)
"""
PROTOC_STUB = "from apache.rocketmq.v2 import definition_pb2 as _definition_pb2\n"
OUR_STUB = "from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as _definition_pb2\n"


@pytest.mark.processes
def test_committed_modules_are_the_generated_ones() -> None:
    assert generate.find_differences() == []


@pytest.mark.processes
def test_check_lists_modules_that_are_out_of_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = generate.generate_modules()
    changed = "apache/rocketmq/v2/service_pb2.pyi"
    monkeypatch.setattr(generate, "generate_modules", lambda: {**modules, changed: "other", "new_pb2.py": ""})
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out.split("\n") == [f"out of date: {changed}", "out of date: new_pb2.py", ""]


def test_without_check_the_modules_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generate, "generate_modules", lambda: {"new_pb2.py": "text"})
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main([]) == 0
    assert (tmp_path / "new_pb2.py").read_text() == "text"


@pytest.mark.processes
def test_another_release_of_protoc_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "PROTOC", "libprotoc 3.1")
    with pytest.raises(UnexpectedOutput, match=r"by libprotoc 3\.1, but .* is libprotoc 26\.1\."):
        generate.generate_modules()


def test_modules_ask_for_no_release_of_protobuf() -> None:
    # The check of protoc 27 and newer refuses older releases, and the second major release after itself.
    modules = list(generate.ROOT.rglob("*_pb2.py"))
    assert modules
    assert [each.name for each in modules if "runtime_version" in each.read_text(encoding="utf-8")] == []


def test_modules_and_stubs_import_from_this_package() -> None:
    assert rewrite_module(PROTOC_MODULE, SOURCE, IMPORTS) == OUR_MODULE
    assert rewrite_stub(PROTOC_STUB, SOURCE, IMPORTS) == OUR_STUB


@pytest.mark.parametrize(
    ("output", "imports"),
    [
        pytest.param(PROTOC_MODULE.replace("_pool.Default()", "_pool.Shared()"), IMPORTS, id="another pool"),
        pytest.param(PROTOC_MODULE + "_descriptor_pool.Default()\n", IMPORTS, id="the pool twice"),
        pytest.param(PROTOC_MODULE + "_descriptor_pool.Other()\n", IMPORTS, id="another use of the pool module"),
        pytest.param(PROTOC_MODULE.replace("'rmqpull.v1", "'other"), IMPORTS, id="another module name"),
        pytest.param(PROTOC_MODULE, [], id="an import that the source does not have"),
        pytest.param(PROTOC_MODULE, [*IMPORTS, "apache/other.proto"], id="an import that is missing"),
    ],
)
def test_an_unexpected_module_of_protoc_is_refused(output: str, imports: list[str]) -> None:
    with pytest.raises(UnexpectedOutput):
        rewrite_module(output, SOURCE, imports)


def test_a_stub_that_names_a_pool_is_refused() -> None:
    with pytest.raises(UnexpectedOutput):
        rewrite_stub(PROTOC_STUB + "from google.protobuf import descriptor_pool\n", SOURCE, IMPORTS)


@pytest.mark.processes
def test_our_names_are_not_in_the_default_pool() -> None:
    # In another process: another test may have imported the official client, which registers them.
    script = """if True:
        from google.protobuf import descriptor_pool
        from rmqpull_proto import pool, rpc

        for name in ("apache.rocketmq.v2.Message", "rmqpull.v1.Queue"):
            assert pool.POOL.FindMessageTypeByName(name)
            try:
                descriptor_pool.Default().FindMessageTypeByName(name)
            except KeyError:
                continue
            raise SystemExit(f"{name} is in the default pool")
    """
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False).stderr == ""
