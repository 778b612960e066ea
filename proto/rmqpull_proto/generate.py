"""Generates the ``*_pb2`` modules: ``python -m rmqpull_proto.generate [--check]``.

They are protoc's output with two changes: descriptors go to the private pool (see ``rmqpull_proto.pool``), and module
names start with this package. Each text to replace must occur exactly once. If protoc's output changes, generation
fails, so that nothing gets into the default pool by mistake.

Needs grpcio-tools, only for protoc. gRPC stubs are not generated; ``rmqpull_proto.rpc`` replaces them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent
PACKAGE = "rmqpull_proto"

POOL_IMPORT = "from google.protobuf import descriptor_pool as _descriptor_pool"
PRIVATE_POOL_IMPORT = f"from {PACKAGE} import pool as _pool"
POOL_USE = "_descriptor_pool.Default()"
PRIVATE_POOL_USE = "_pool.POOL"


class UnexpectedOutput(Exception):
    """The output of protoc has changed: compare it with the rewrites below."""


def generate_modules() -> dict[str, str]:
    """Generates the text of all modules from the ``.proto`` files of this package, by path relative to the package."""
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.proto")}
    modules = {}
    with tempfile.TemporaryDirectory() as folder:
        _run_protoc(sorted(sources), folder)
        for source in sorted(sources):
            imports = find_own_imports(sources[source], sources)
            for suffix, rewrite in ((".py", rewrite_module), (".pyi", rewrite_stub)):
                path = _generated(source) + suffix
                modules[path] = rewrite(Path(folder, path).read_text(encoding="utf-8"), source, imports)
    return modules


def _run_protoc(sources: Sequence[str], folder: str) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", f"--python_out={folder}", f"--pyi_out={folder}"]
    subprocess.run([*command, *sources], check=True)


def find_own_imports(text: str, sources: Sequence[str] | dict[str, str]) -> list[str]:
    """Finds the files of ``sources`` that a ``.proto`` text imports."""
    return [path for path in re.findall(r'^import "([^"]+)";', text, re.MULTILINE) if path in sources]


def rewrite_module(text: str, source: str, imports: Sequence[str]) -> str:
    """Moves a ``_pb2.py`` to the private pool and into this package."""
    text = _replace_one(text, POOL_IMPORT, PRIVATE_POOL_IMPORT)
    text = _replace_one(text, POOL_USE, PRIVATE_POOL_USE)
    # The name of the module becomes __module__ of the messages, which pickle needs.
    name = _generated(source).replace("/", ".")
    text = _replace_one(text, f"(DESCRIPTOR, '{name}', _globals)", f"(DESCRIPTOR, '{PACKAGE}.{name}', _globals)")
    if "_descriptor_pool" in text:
        raise UnexpectedOutput("_descriptor_pool occurs once more.")
    return _rewrite_imports(text, imports)


def rewrite_stub(text: str, source: str, imports: Sequence[str]) -> str:
    """Moves a ``_pb2.pyi`` into this package."""
    if "descriptor_pool" in text:
        raise UnexpectedOutput(f"The stub of {source} names a descriptor pool.")
    return _rewrite_imports(text, imports)


def _rewrite_imports(text: str, imports: Sequence[str]) -> str:
    for path in imports:
        folder, module = _generated(path).replace("/", ".").rsplit(".", 1)
        text = _replace_one(
            text, f"\nfrom {folder} import {module} as ", f"\nfrom {PACKAGE}.{folder} import {module} as "
        )
    if left := re.search(r"^(?:from|import) (?:apache|rmqpull)\b.*", text, re.MULTILINE):
        raise UnexpectedOutput(f"An import was not rewritten: {left[0]}")
    return text


def _replace_one(text: str, old: str, new: str) -> str:
    # A leading line break lets an import on the first line match as well.
    padded = "\n" + text
    if (count := padded.count(old)) != 1:
        raise UnexpectedOutput(f"Expected once, found {count} times: {old.strip()}")
    return padded.replace(old, new)[1:]


def _generated(source: str) -> str:
    return source.removesuffix(".proto") + "_pb2"


def find_differences() -> list[str]:
    """Finds the committed modules that differ from the generated ones, or that are missing or superfluous."""
    generated = generate_modules()
    committed = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*_pb2*.py*") if path.suffix != ".pyc"}
    return sorted(
        path
        for path in generated.keys() | committed.keys()
        if path not in committed or committed[path].read_text(encoding="utf-8") != generated.get(path)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the modules, or with ``--check`` prints those that are out of date."""
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}.generate", description="Generates the *_pb2 modules.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a module is out of date")
    if parser.parse_args(arguments).check:
        outdated = find_differences()
        for path in outdated:
            print(f"out of date: {path}")
        return 1 if outdated else 0
    for path, text in generate_modules().items():
        (ROOT / path).write_text(text, encoding="utf-8")
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
