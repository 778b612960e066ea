"""Who may import whom: the architecture as one table of folders, compared with every import of the four packages."""

import ast
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCE_ROOTS = {
    "rmqpull_proto": "proto",
    "rmqpull_client": "connector",
    "pyspark_rmqpull": "connector",
    "rmqpull_broker": "broker_emulator",
}


PROGRAMS = {
    "processes": "",
    "demo": "processes",
    "bench": "processes",
    "soak": "processes bench demo",
    "scripts": "processes bench",
}
"""Programs that are never installed, and those that each imports."""


class Layer(NamedTuple):
    """What the modules of one folder import. Patterns: `a.b` stands for `a.b` and all that is in it."""

    places: str  # paths below a source root
    may: str  # outside the standard library: nothing but this
    never: str = ""  # exceptions from that, and from the free use of the standard library
    lazily: str = ""  # also this, but inside functions or for type checking only


EFFECTS = (  # what a core that is handed its time and returns its effects has no use for
    "asyncio threading multiprocessing concurrent socket select selectors signal subprocess time random secrets uuid "
    "os io fcntl mmap shutil tempfile pathlib logging"
)
FILES = "os fcntl shutil tempfile pathlib"


FOR_CORE = (
    "rmqpull_proto.names rmqpull_proto.remoting.properties rmqpull_proto.remoting.record_layout "
    "rmqpull_proto.remoting.codes.ResponseCode"
)
"""What the core has of the wire: RocketMQ's names of topics, groups and properties, its layout of records, and how
requests end."""


def of_core(*folders: str) -> str:
    """The core's root modules, some of its folders, and what it has of the wire."""
    roots = ("model", "errors", "limits", "properties", "shares", "steps")
    core = (f"rmqpull_broker.core.{module}" for module in (*roots, *folders))
    return f"{' '.join(core)} {FOR_CORE}"


SHARED = ("clock", "addresses", "limits", "times")
"""The modules of the server that all of it may import."""


def of_server(*folders: str) -> str:
    """What all of the server may import, and some of its folders."""
    return " ".join(
        (
            *(f"rmqpull_broker.server.{folder}" for folder in (*SHARED, *folders)),
            "rmqpull_broker.core rmqpull_broker.config rmqpull_broker.__version__",
            "rmqpull_proto grpc google.protobuf prometheus_client pyarrow",
        )
    )


FOR_STORE = of_core("state", "messages.columns")
# The client without a connection. Spark loads no more on its look-up of data sources.
CLIENT = "rmqpull_client rmqpull_proto.names"
GRPC_TRANSPORTS = "rmqpull_client.transports.grpc"
TRANSPORTS = f"{GRPC_TRANSPORTS} rmqpull_client.transports.remoting"
CONNECTIONS = f"{TRANSPORTS} rmqpull_client.transports.choice"
SPARK_PURE = "pyspark_rmqpull.options pyspark_rmqpull.planning pyspark_rmqpull.errors"
IN_TASKS = "pyspark pyarrow rmqpull_proto.columns"
LOOK_UP = (
    f"{CLIENT} {SPARK_PURE} pyspark_rmqpull.source pyspark_rmqpull.schema pyspark_rmqpull.sink.schema "
    "pyspark_rmqpull.sink.repeats pyspark_rmqpull.spark_releases.triggers pyspark_rmqpull.draining pyspark"
)

REMOTING_FOLDERS = {
    folder: f"rmqpull_client.transports.remoting.{folder}" for folder in ("network", "reading", "sending")
}
REMOTING_CODECS = ("codec", "batch_codec", "pop_codec", "admin_codec", "page_codec")
NO_PROTOBUF = "*_pb2 google.protobuf"
NO_PROTOCOL = f"{NO_PROTOBUF} grpc rmqpull_proto"
NO_THREADS = "threading concurrent multiprocessing asyncio"

# The first row that names a module's place holds for it.
LAYERS = (
    # The wire: all that client and broker share. That of remoting is bytes in, values out.
    Layer("rmqpull_proto/names.py", ""),
    Layer("rmqpull_proto/remoting/*", "rmqpull_proto.remoting", EFFECTS),
    Layer("rmqpull_proto/even_texts.py", "numpy pyarrow", EFFECTS),
    Layer("rmqpull_proto/filters/*", "rmqpull_proto.filters", EFFECTS),
    Layer("rmqpull_proto/*", "rmqpull_proto google.protobuf grpc pyarrow"),
    # RocketMQ without Spark.
    Layer(
        "rmqpull_client/transports/port.py rmqpull_client/__init__.py",
        CLIENT,
        CONNECTIONS,
        f"{CLIENT} pyarrow rmqpull_proto.columns",
    ),
    Layer(
        "rmqpull_client/transports/remoting/messages/*",
        "rmqpull_client.transports.remoting.messages rmqpull_proto.remoting rmqpull_proto.columns "
        "rmqpull_proto.even_texts numpy pyarrow",
        EFFECTS,
    ),
    *(
        Layer(
            f"rmqpull_client/transports/remoting/{folder}/*",
            f"{CLIENT} rmqpull_proto pyarrow numpy",
            f"{GRPC_TRANSPORTS} rmqpull_client.transports.choice {NO_THREADS} "
            + " ".join(REMOTING_FOLDERS[other] for other in others),
        )
        for folder, others in (
            ("network", ("reading", "sending")),
            ("reading", ("sending",)),
            ("sending", ("reading",)),
        )
    ),
    Layer(
        "rmqpull_client/transports/remoting/*",
        f"{CLIENT} rmqpull_proto pyarrow numpy",
        f"{GRPC_TRANSPORTS} rmqpull_client.transports.choice {NO_THREADS}",
    ),
    Layer("rmqpull_client/transports/pauses.py rmqpull_client/transports/tls_files.py", CLIENT, CONNECTIONS),
    Layer(
        "rmqpull_client/transports/*",
        f"{CLIENT} rmqpull_proto grpc google.protobuf pyarrow",
        "rmqpull_client.transports.remoting",
        lazily="rmqpull_client.transports.remoting",
    ),
    Layer(
        "rmqpull_client/consumers/core/*",
        "rmqpull_client.consumers.core rmqpull_client.allocation rmqpull_client.model",
        EFFECTS,
    ),
    Layer(
        "rmqpull_client/consumers/*",
        f"{CLIENT} rmqpull_proto.remoting rmqpull_proto.columns pyarrow",
        f"{GRPC_TRANSPORTS} rmqpull_client.transports.choice rmqpull_client.cli asyncio multiprocessing concurrent",
    ),
    # What a command needs of Arrow is in modules that its help does not import.
    Layer(
        "rmqpull_client/cli/* rmqpull_client/__main__.py",
        f"{CLIENT} click rich pyarrow tomli tomllib rmqpull_proto.columns",
        TRANSPORTS,
    ),
    Layer("rmqpull_client/*", CLIENT, never=f"{CONNECTIONS} rmqpull_client.cli"),
    # Spark. What it imports on its first look-up comes first: a failure there hides every Python data source.
    Layer(
        "pyspark_rmqpull/__init__.py pyspark_rmqpull/source.py pyspark_rmqpull/schema.py "
        "pyspark_rmqpull/sink/__init__.py pyspark_rmqpull/sink/schema.py pyspark_rmqpull/sink/repeats.py",
        LOOK_UP,
        never=CONNECTIONS,
        lazily=f"pyspark_rmqpull {CLIENT}",
    ),
    Layer("pyspark_rmqpull/draining.py", "pyspark_rmqpull.lag pyspark", CONNECTIONS),
    Layer("pyspark_rmqpull/errors.py", CLIENT, never=CONNECTIONS),
    Layer("pyspark_rmqpull/planning/*", f"{CLIENT} pyspark_rmqpull.planning pyspark_rmqpull.errors", CONNECTIONS),
    Layer("pyspark_rmqpull/options/*", f"{CLIENT} {SPARK_PURE}", CONNECTIONS),
    Layer(
        "pyspark_rmqpull/progress/*",
        f"{CLIENT} pyspark_rmqpull.progress pyspark_rmqpull.planning pyspark_rmqpull.clock",
    ),
    Layer(
        "pyspark_rmqpull/reading/*",
        f"{CLIENT} pyspark_rmqpull {IN_TASKS}",
        f"pyspark_rmqpull.sink {TRANSPORTS}",
    ),
    Layer(
        "pyspark_rmqpull/sink/*",
        f"{CLIENT} pyspark_rmqpull {IN_TASKS} rmqpull_proto.even_texts numpy",
        f"pyspark_rmqpull.reading {TRANSPORTS}",
    ),
    Layer("pyspark_rmqpull/spark_releases/progress.py", CLIENT, CONNECTIONS),
    Layer(
        "pyspark_rmqpull/spark_releases/*",
        f"{CLIENT} {SPARK_PURE} pyspark_rmqpull.spark_releases pyspark pyarrow",
        CONNECTIONS,
    ),
    Layer(
        "pyspark_rmqpull/lag/query_lag.py",
        f"{CLIENT} {SPARK_PURE} pyspark_rmqpull.spark_releases.progress",
        CONNECTIONS,
    ),
    Layer("pyspark_rmqpull/lag/*", f"{CLIENT} pyspark_rmqpull.lag pyspark prometheus_client", CONNECTIONS),
    Layer("pyspark_rmqpull/*", f"{CLIENT} rmqpull_proto.large_messages"),
    # The broker's rules.
    Layer("rmqpull_broker/core/messages/*", f"{of_core('messages')} pyarrow", EFFECTS),
    Layer("rmqpull_broker/core/state/*", f"{of_core('state', 'messages')} pyarrow", EFFECTS),
    Layer("rmqpull_broker/core/filters/*", f"{of_core('filters', 'messages')} rmqpull_proto.filters pyarrow", EFFECTS),
    Layer("rmqpull_broker/core/admin/*", of_core("admin", "state", "messages"), EFFECTS),
    Layer("rmqpull_broker/core/clients/*", of_core("clients", "admin", "filters", "state", "messages"), EFFECTS),
    Layer("rmqpull_broker/core/sending/*", f"{of_core('sending', 'admin', 'state', 'messages')} pyarrow", EFFECTS),
    Layer(
        "rmqpull_broker/core/pulling/*",
        f"{of_core('pulling', 'clients', 'admin', 'filters', 'state', 'messages')} pyarrow",
        EFFECTS,
    ),
    Layer(
        "rmqpull_broker/core/popping/*",
        of_core("popping", "pulling", "sending", "clients", "admin", "filters", "state", "messages"),
        EFFECTS,
    ),
    Layer("rmqpull_broker/core/*", of_core(), EFFECTS),
    # Its disk.
    Layer("rmqpull_broker/store/vfs.py", "rmqpull_broker.store.vfs"),
    Layer(
        "rmqpull_broker/store/log/*", f"rmqpull_broker.store.log rmqpull_broker.store.vfs {FOR_STORE} pyarrow", FILES
    ),
    Layer(
        "rmqpull_broker/store/queues/*",
        f"rmqpull_broker.store {FOR_STORE} pyarrow",
        f"{FILES} rmqpull_broker.store.snapshots",
    ),
    Layer("rmqpull_broker/store/*", f"rmqpull_broker.store {FOR_STORE} pyarrow", FILES),
    # Its edges.
    Layer("rmqpull_broker/server/questions.py", of_server(), NO_PROTOCOL),
    Layer("rmqpull_broker/server/fault_names.py rmqpull_broker/server/access.py", of_server()),
    *(Layer(f"rmqpull_broker/server/{module}.py", of_server(), NO_PROTOCOL) for module in SHARED),
    Layer(
        "rmqpull_broker/server/peers.py rmqpull_broker/server/clients.py", of_server("peers", "questions"), NO_PROTOBUF
    ),
    Layer("rmqpull_broker/server/runtime/*", of_server("runtime", "clients", "peers", "access"), NO_PROTOCOL),
    Layer(
        "rmqpull_broker/server/observability/*", of_server("observability", "runtime", "grpc.wire.status"), NO_PROTOBUF
    ),
    # gRPC. No handler imports another one: what several of them need is in their codec.
    Layer("rmqpull_broker/server/grpc/wire/*", of_server("grpc.wire", "questions")),
    *(
        Layer(
            f"rmqpull_broker/server/grpc/handlers/{folder}/*",
            of_server(
                f"grpc.handlers.{folder}.codec", "grpc.wire", "grpc.long_response", "runtime", "clients", "fault_names"
            ),
        )
        for folder in ("v2", "columns", "stages", "admin")
    ),
    Layer("rmqpull_broker/server/grpc/health.py rmqpull_broker/server/grpc/reflection.py", of_server("grpc")),
    Layer("rmqpull_broker/server/grpc/tls.py", of_server(), NO_PROTOBUF, lazily="cryptography"),
    Layer("rmqpull_broker/server/grpc/*", of_server("grpc", "runtime", "fault_names"), "*_pb2"),
    # The remoting protocol.
    Layer(
        "rmqpull_broker/server/remoting/wire/*",
        "rmqpull_broker.server.remoting.wire rmqpull_proto.remoting rmqpull_proto.names",
        EFFECTS,
    ),
    Layer(
        "rmqpull_broker/server/remoting/handlers/*",
        of_server(
            "remoting.calls",
            "remoting.wire",
            "remoting.long_answers",
            "remoting.name_server",
            "remoting.stream_members",
            *(f"remoting.handlers.{codec}" for codec in REMOTING_CODECS),
            "runtime",
            "clients",
            "peers",
        ),
        f"{NO_PROTOBUF} grpc",
    ),
    Layer(
        "rmqpull_broker/server/remoting/*",
        of_server("remoting", "runtime", "clients", "peers", "questions", "grpc.connections"),
        NO_PROTOBUF,
    ),
    Layer(
        "rmqpull_broker/server/*",
        of_server("grpc", "remoting", "runtime", "clients", "observability", "fault_names", "access"),
        NO_PROTOBUF,
    ),
    Layer("rmqpull_broker/testcontainers.py", "rmqpull_broker.config_values testcontainers docker typing_extensions"),
    # What asks a running broker knows its wire, and what opens one is loaded only when it is called.
    Layer(
        "rmqpull_broker/cli/commands/*",
        "rmqpull_broker rmqpull_client.cli rmqpull_client.timestamps rmqpull_proto click rich grpc pyarrow",
        never="rmqpull_broker.cli.commands",
    ),
    # The frame of commands and the forms of messages are those of the client's command line.
    Layer("rmqpull_broker/cli/*", "rmqpull_broker rmqpull_client.cli rmqpull_proto click rich grpc pyarrow"),
    # The composition roots choose a store, a clock and a port; whoever embeds the broker comes in here.
    Layer("rmqpull_broker/*", "rmqpull_broker click rich grpc pyarrow tomli tomllib pytest", "*_pb2"),
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
        if lazy and covers(layer.lazily, name):
            return True
        if covers(layer.never, name):
            return False
        return name.split(".")[0] in sys.stdlib_module_names or covers(layer.may, name)

    return [f"{place} imports {name}" for name, lazy in imports(ast.parse(source)) if not allowed(name, lazy)]


def modules_of(package: str) -> dict[str, Path]:
    """The modules of a package that are not generated, by their dotted names."""
    root = REPOSITORY / SOURCE_ROOTS.get(package, "")
    written = (m for m in (root / package).rglob("*.py") if not m.stem.endswith(("_pb2", "_pb2_grpc")))
    return {".".join(m.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): m for m in written}


@pytest.mark.parametrize("package", SOURCE_ROOTS)
def test_imports_point_inwards(package: str) -> None:
    root = REPOSITORY / SOURCE_ROOTS[package]
    modules = modules_of(package).values()
    found = [v for m in modules for v in violations(m.relative_to(root).as_posix(), m.read_text(encoding="utf-8"))]
    assert modules, f"no modules of {package}"
    assert found == []


def graph_of(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Which modules each module imports, lazily or for types alone too."""

    def module_of(name: str) -> str:
        while name and name not in sources:
            name = name.rpartition(".")[0]
        return name

    return {
        module: {module_of(name) for name, _ in imports(ast.parse(source))} - {"", module}
        for module, source in sources.items()
    }


def sibling_folders(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Which folders import which of the folders beside them."""
    found: dict[str, set[str]] = {}
    for module, imported in graph.items():
        for other in imported:
            mine, theirs = module.split("."), other.split(".")
            depth = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
            if depth is not None and len(mine) > depth + 1 and len(theirs) > depth + 1:
                found.setdefault(".".join(mine[: depth + 1]), set()).add(".".join(theirs[: depth + 1]))
    return found


def circle_in(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def test_no_modules_and_no_folders_import_each_other_in_a_circle() -> None:
    packages = (*SOURCE_ROOTS, *PROGRAMS)
    sources = {n: m.read_text(encoding="utf-8") for p in packages for n, m in modules_of(p).items()}
    graph = graph_of(sources)
    assert circle_in(graph) == []
    assert circle_in(sibling_folders(graph)) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_import_no_tests_and_few_other_programs(program: str) -> None:
    others = {*PROGRAMS, "tests"} - {program, *PROGRAMS[program].split()}
    sources = {name: module.read_text(encoding="utf-8") for name, module in modules_of(program).items()}
    assert sources, f"no modules of {program}"
    found = {
        name: {at for at, _ in imports(ast.parse(text)) if at.split(".")[0] in others} for name, text in sources.items()
    }
    assert {name: at for name, at in found.items() if at} == {}
