"""The code of docs/client.md runs from its first line to its last, and prints what its comments say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rmqpull_client
from rmqpull_broker.testing import running_broker

PAGE = (Path(__file__).parents[2] / "docs/client.md").read_text(encoding="utf-8")
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
PRINTED = re.findall(r"^ *print\(.*\)  # (.*)$", CODE, re.MULTILINE)


def test_the_code_of_the_page_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert PRINTED
    with running_broker({"orders": 2}) as broker:
        exec(CODE.replace('"127.0.0.1:8081"', repr(broker.endpoints)), {})
    assert capsys.readouterr().out.split() == " ".join(PRINTED).split()


def test_the_page_names_nothing_that_the_client_does_not_export() -> None:
    imported = re.findall(r"^from rmqpull_client import (.*)$", CODE, re.MULTILINE)
    assert {name.strip() for names in imported for name in names.split(",")} <= set(rmqpull_client.__all__)


@pytest.mark.parametrize("name", rmqpull_client.__all__)
def test_each_exported_name_exists_and_is_explained(name: str) -> None:
    exported = getattr(rmqpull_client, name)
    explanation = exported.__doc__ or "" if callable(exported) else "a value"
    assert explanation
    assert not explanation.startswith(f"{name}(")  # Python makes such docstrings for classes that have none
