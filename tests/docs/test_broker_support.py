"""docs/broker-support.md says what the code does, and every deviation has its proof."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes.apache.releases import RELEASE_5, Release
from processes.java import find_java
from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_proto import rpc
from rmqpull_proto.remoting.codes import RequestCode
from scripts.doc_tables import with_tables
from scripts.limit import PACKAGE, amount
from scripts.request_codes import NOT_SERVED, REQUEST_CODES
from scripts.support_tables import DOCUMENT, INTERNAL, LIMITS, REASONS, REPOSITORY, TABLES, deviating_properties

TEXT = DOCUMENT.read_text(encoding="utf-8")
PROOFS = re.findall(r"^\| (.*?) \| .*`([\w/]+\.py)::(\w+)` \|$", TEXT, re.MULTILINE)
SERVICES = [service for service in vars(rpc).values() if isinstance(service, rpc.Service)]
NAMED = [limit.constant for group in LIMITS.values() for limit in group]
SOURCES = REPOSITORY / "broker_emulator" / PACKAGE


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"{DOCUMENT.name} has no section {title!r}"
    return found[1]


def declared_limits() -> Iterator[str]:
    """Every public constant of the broker's package whose name says that it is a limit, as ``module:NAME``."""
    for file in sorted(SOURCES.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            yield from (f"{module}:{name}" for name in names if name.endswith("_MAX") and not name.startswith("_"))


def test_the_tables_are_up_to_date() -> None:
    assert with_tables(TEXT, TABLES, DOCUMENT.name) == TEXT, "run: make readme"


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_every_method_has_its_row(service: rpc.Service) -> None:
    calls = section("Calls")
    assert [name for name in service.methods if not re.search(rf"^\|.*`{name}` \|", calls, re.MULTILINE)] == []


def test_every_request_is_served_or_has_a_reason() -> None:
    of_servers = {code for code, kind in REQUEST_CODES.items() if kind.served_by in ("broker", "name server")}
    served = set(list_handlers())
    assert sorted(served & NOT_SERVED.keys()) == []
    assert sorted(served - REQUEST_CODES.keys()) == []
    assert sorted(of_servers - served - NOT_SERVED.keys()) == []


def test_request_codes_have_one_name() -> None:
    assert [code.name for code in RequestCode] == [REQUEST_CODES[code].name for code in RequestCode]


@pytest.mark.processes
def test_the_request_codes_are_those_of_the_real_server(apache_release: Release) -> None:
    javap = shutil.which(Path(find_java()).with_name("javap"))
    if javap is None or apache_release is not RELEASE_5:
        pytest.skip("javap shows the codes of 5.5.0; a Java without it cannot")
    (jar,) = [jar for jar in apache_release.fetch_server_jars() if jar.name.startswith("rocketmq-remoting-")]
    command = [javap, "-constants", "-cp", str(jar), "org.apache.rocketmq.remoting.protocol.RequestCode"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    declared = {int(code): name for name, code in re.findall(r"static final int (\w+) = (\d+);", shown)}
    assert {code: kind.name for code, kind in REQUEST_CODES.items()} == declared


def test_every_limit_of_the_code_is_in_the_table_or_known_to_be_internal() -> None:
    declared = set(declared_limits())
    assert declared
    assert sorted(declared - {*NAMED, *INTERNAL}) == []
    assert sorted(set(INTERNAL) - declared) == []


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4 << 20, "bytes", "4 MiB"),
        (16_384, "bytes", "16 KiB"),
        (63, "bytes", "63 bytes"),
        (128, "", "128"),
        (7_200_000, "ms", "2 h"),
        (5_000, "ms", "5 s"),
        (1_500, "ms", "1,500 ms"),
        (1_024, "queues", "1,024 queues"),
    ],
)
def test_an_amount_is_exact(value: int, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_every_preset_that_is_not_apaches_has_a_reason() -> None:
    assert set(REASONS) == {entry.name for entry in deviating_properties()}


def test_every_deviation_has_a_proof() -> None:
    rows = [line for line in section("Deviations").splitlines() if line.startswith("| ")]
    heads = [line for line in rows if line.startswith(("| what |", "| --- |"))]
    assert len(rows) - len(heads) == len(PROOFS) > 0


def marked() -> set[tuple[str, str, str]]:
    """Each test of the broker that says what it proves: file, function and the row's first cell."""
    found = set()
    for file in sorted((REPOSITORY / "tests" / "broker").rglob("test_*.py")):
        path = file.relative_to(REPOSITORY / "tests" / "broker").as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.proves":
                    found.add((path, node.name, ast.literal_eval(mark.args[0])))
    return found


def test_every_proof_says_what_it_proves() -> None:
    """And while it runs it must see the codes of its row: see the fixture ``proof`` of tests/broker."""
    named = {(path, name, what) for what, path, name in PROOFS}
    assert sorted(marked() - named) == []
    assert sorted(named - marked()) == []
