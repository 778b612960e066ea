"""Who may import whom: the architecture as one table, held against every import of the three packages."""

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCE_ROOTS = ("connector", "broker_emulator", "proto")


class Layer(NamedTuple):
    """What the modules of one place import. Patterns: `a.b` stands for `a.b` and all that is in it."""

    places: str  # paths below a source root
    may: str  # outside the standard library: nothing but this
    never: str = ""  # exceptions from that, and from the free use of the standard library
    lazily: str = ""  # also this, but inside functions or for type checking only


EFFECTS = (  # what a core that is handed its time and returns its effects has no use for
    "asyncio threading multiprocessing concurrent socket select selectors signal subprocess time random secrets uuid "
    "os io fcntl mmap shutil tempfile pathlib logging"
)
FILES = "os fcntl shutil tempfile pathlib"
STORE_NEEDS = ("model", "facts", "ports", "errors", "columns", "retention", "stages", "system_topics")
CORE_FOR_STORE = " ".join(f"rmqpull_broker.core.{module}" for module in STORE_NEEDS)
SERVER = (
    "rmqpull_broker.server rmqpull_broker.core rmqpull_broker.config rmqpull_broker.__version__ "
    "rmqpull_proto grpc grpc_health grpc_reflection google.protobuf prometheus_client pyarrow"
)
PURE_MODULES = (
    *(
        "model",
        "offsets",
        "planning",
        "errors",
        "kafka_names",
        "json_text",
        "allocation",
        "admission",
        "batch_ends",
        "batch_sizing",
        "cutting",
        "loss",
        "splitting",
    ),
    *("option", "options", "position_options", "allocation_options", "positions", "timestamps", "starting", "ending"),
    *("filters", "selection", "connection", "namespace", "flow", "in_flight", "consumer_group", "offset_table"),
    *(f"{part}_options" for part in ("connection", "selection", "progress", "admission", "flow")),
)
PURE = " ".join(f"pyspark_rmqpull.{m}" for m in PURE_MODULES)
PURE_PLACES = " ".join(f"pyspark_rmqpull/{m}.py pyspark_rmqpull/{m}/*" for m in PURE_MODULES)

# The first row that names a module's place holds for it.
LAYERS = (
    Layer("rmqpull_broker/core/*", "rmqpull_broker.core pyarrow lark", never=EFFECTS),
    Layer("rmqpull_broker/store/vfs.py", f"rmqpull_broker.store {CORE_FOR_STORE}"),
    Layer("rmqpull_broker/store/*", f"rmqpull_broker.store {CORE_FOR_STORE} pyarrow", never=FILES),
    Layer(
        "rmqpull_broker/server/codec.py rmqpull_broker/server/admin_codec.py rmqpull_broker/server/status.py "
        "rmqpull_broker/server/health.py "
        "rmqpull_broker/server/handlers/*",
        SERVER,
    ),
    Layer("rmqpull_broker/server/*", SERVER, never="*_pb2"),
    Layer("rmqpull_broker/testcontainers.py", "rmqpull_broker.config testcontainers docker typing_extensions"),
    # What asks a running broker knows its wire, and what opens one is loaded only when it is called.
    Layer("rmqpull_broker/cli/*", "rmqpull_broker rmqpull_proto click rich grpc pyarrow"),
    # The composition roots choose a store, a clock and a port; whoever embeds the broker comes in here.
    Layer("rmqpull_broker/*", "rmqpull_broker click rich grpc pyarrow tomli tomllib pytest", never="*_pb2"),
    Layer(f"{PURE_PLACES} pyspark_rmqpull/lag/behind.py", PURE),
    Layer("pyspark_rmqpull/lag/prometheus.py", f"{PURE} pyspark_rmqpull.lag prometheus_client"),
    Layer("pyspark_rmqpull/lag/*", f"{PURE} pyspark_rmqpull.lag pyspark"),
    # Spark imports these on its first look-up, and a failure there hides every Python data source of the session.
    Layer(
        "pyspark_rmqpull/__init__.py pyspark_rmqpull/source.py pyspark_rmqpull/schema.py "
        "pyspark_rmqpull/sink/__init__.py pyspark_rmqpull/sink/options.py pyspark_rmqpull/sink/schema.py "
        "pyspark_rmqpull/sink/repeats.py",
        f"{PURE} pyspark_rmqpull.source pyspark_rmqpull.schema pyspark_rmqpull.sink.options "
        "pyspark_rmqpull.sink.schema pyspark_rmqpull.sink.repeats pyspark",
        lazily="pyspark_rmqpull",
    ),
    Layer("pyspark_rmqpull/client/*", "pyspark_rmqpull rmqpull_proto grpc google.protobuf pyarrow"),
    Layer("pyspark_rmqpull/sink/row_digest.py", "pyspark_rmqpull.sink pyarrow numpy"),
    Layer(
        "pyspark_rmqpull/bodies.py pyspark_rmqpull/columns.py pyspark_rmqpull/sink/*",
        "pyspark_rmqpull pyspark pyarrow rmqpull_proto.columns",
    ),
    Layer("pyspark_rmqpull/worker.py", "rmqpull_proto.large_messages"),
    Layer("pyspark_rmqpull/*", "pyspark_rmqpull pyspark pyarrow"),
    Layer("rmqpull_proto/*", "rmqpull_proto google.protobuf grpc grpc_tools pyarrow"),
)


def covers(patterns: str, name: str) -> bool:
    return any(fnmatchcase(name, p) or fnmatchcase(name, f"{p}.*") for p in patterns.split())


def imports(node: ast.AST, lazy: bool = False) -> Iterator[tuple[str, bool]]:
    """Every import as (full dotted name, lazy); a relative one begins with a dot, which no layer may."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, lazy) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (("." * node.level + f"{node.module or ''}.{alias.name}", lazy) for alias in node.names)
    typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    lazy = lazy or typing_only or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    for child in ast.iter_child_nodes(node):
        yield from imports(child, lazy)


def violations(place: str, source: str) -> list[str]:
    layer = next(layer for layer in LAYERS if any(fnmatchcase(place, p) for p in layer.places.split()))

    def allowed(name: str, lazy: bool) -> bool:
        if covers(layer.never, name):
            return False
        return name.split(".")[0] in sys.stdlib_module_names or covers(f"{layer.may} {layer.lazily * lazy}", name)

    return [f"{place} imports {name}" for name, lazy in imports(ast.parse(source)) if not allowed(name, lazy)]


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_imports_point_inwards(root: str) -> None:
    folder = REPOSITORY / root
    modules = [m for m in folder.rglob("*.py") if not m.stem.endswith(("_pb2", "_pb2_grpc"))]
    found = [v for m in modules for v in violations(m.relative_to(folder).as_posix(), m.read_text(encoding="utf-8"))]
    assert modules, f"no modules under {root}"
    assert found == []


CORE, STORE, SERVER_EDGE, ROOT = (f"rmqpull_broker/{p}.py" for p in ("core/a", "store/a", "server/a", "assembly"))
READER, OFFSETS, SOURCE, CLIENT = (
    f"pyspark_rmqpull/{p}.py" for p in ("stream_reader", "offsets", "source", "client/columnar")
)


@pytest.mark.parametrize(
    ("line", "bad", "good"),
    [
        ("import rmqpull_broker.testing", READER, ROOT),
        ("from pyspark_rmqpull.offsets import QueueOffsets", ROOT, READER),
        ("import time", CORE, STORE),
        ("from os import path", CORE, ROOT),
        ("from rmqpull_broker.store import commit_log", CORE, STORE),
        ("import grpc", CORE, SERVER_EDGE),
        ("import pathlib", STORE, "rmqpull_broker/store/vfs.py"),
        ("from rmqpull_broker.core import pulling", STORE, SERVER_EDGE),
        ("from rmqpull_broker.server import status", STORE, SERVER_EDGE),
        ("from rmqpull_broker.store.vfs import Memory", SERVER_EDGE, ROOT),
        ("import rmqpull_broker", SERVER_EDGE, ROOT),
        ("from rmqpull_proto.v2 import service_pb2", SERVER_EDGE, "rmqpull_broker/server/handlers/send_message.py"),
        ("import grpc.aio", READER, CLIENT),
        ("import pyspark", OFFSETS, SOURCE),
        ("import pyarrow as pa", OFFSETS, READER),
        ("from pyspark_rmqpull.client import connect", OFFSETS, READER),
        ("import rmqpull_proto", READER, CLIENT),
        ("from pyspark_rmqpull.stream_reader import Reader", SOURCE, READER),
        ("def f() -> None:\n    import pyarrow", SOURCE, READER),
    ],
)
def test_an_import_is_refused_in_the_wrong_place_only(line: str, bad: str, good: str) -> None:
    assert violations(bad, line)
    assert violations(good, line) == []


def test_a_lazy_import_keeps_the_look_up_light() -> None:
    lazy = "def reader() -> None:\n    from pyspark_rmqpull.stream_reader import Reader"
    assert violations(SOURCE, lazy) == []


@pytest.mark.parametrize("place", [CORE, STORE, SERVER_EDGE, ROOT, READER, OFFSETS, SOURCE, CLIENT])
@pytest.mark.parametrize(
    "line", ["from . import x", "from .x import y", "import connector", "import proto.rmqpull_proto"]
)
def test_folders_and_relative_names_are_refused_everywhere(place: str, line: str) -> None:
    assert violations(place, line)
