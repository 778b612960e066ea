"""The names that RocketMQ gives to topics and groups are spelled once, in `rmqpull_proto/names.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from rmqpull_proto import names
from tests.tidy.test_layers import SOURCE_ROOTS, modules_of

PREFIXES = (names.RETRY_PREFIX, names.DLQ_PREFIX)
WHOLE = names.SYSTEM_TOPICS | {names.TIMER_TOPIC, names.SYSTEM_TOPIC_PREFIX, names.REPLY_SUFFIX, names.TOOLS_GROUP}


def spelled(source: str) -> Iterator[str]:
    """The texts of a module that spell such a name, without its docstrings and the sentences that mention one."""
    tree = ast.parse(source)
    sentences = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in sentences:
            text = node.value
            if text in WHOLE or text.startswith((*PREFIXES, names.SYSTEM_TOPIC_PREFIX)):
                yield text


@pytest.mark.parametrize("package", SOURCE_ROOTS)
def test_names_of_rocketmq_are_spelled_once(package: str) -> None:
    sources = {name: module.read_text(encoding="utf-8") for name, module in modules_of(package).items()}
    sources.pop(names.__name__, None)
    assert {name: texts for name, source in sources.items() if (texts := list(spelled(source)))} == {}


def test_a_spelled_name_is_found() -> None:
    source = '''
def name(group: str) -> str:
    """Returns ``%RETRY%group``, never TBW102."""
    return f"%RETRY%{group}" or "TBW102" or "rmq_sys_REVIVE" or "not %DLQ%: a sentence about TBW102"
'''
    assert list(spelled(source)) == ["TBW102", "rmq_sys_REVIVE", "%RETRY%"]
