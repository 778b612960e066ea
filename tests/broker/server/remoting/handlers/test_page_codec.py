"""Pages of all topics and all groups, as Apache's broker 5.5.0 cuts them (rules 6.4)."""

from __future__ import annotations

from typing import Any

import pytest

from processes.apache.calls import Calls
from rmqpull_broker.core.errors import RequestFailed
from rmqpull_broker.server.remoting.handlers.page_codec import PAGE_ENTRIES_MAX, cut_page
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.json_dialect import read_json, write_json

NAMES = ("d", "a", "c", "b")


def cut(sequence: int, version: Any = None, most: int | None = 2, names: tuple[str, ...] = NAMES) -> list[str]:
    page = cut_page(names, sequence, None if version is None else write_json(version).decode(), most)
    assert page is not None
    return [*page.names]


def version_of(names: tuple[str, ...] = NAMES) -> dict[str, int]:
    page = cut_page(names, 0, None, 1)
    assert page is not None
    return page.version


def test_who_asks_for_no_page_gets_all() -> None:
    assert cut_page(NAMES, None, None, None) is None


def test_pages_follow_each_other_in_the_order_of_names() -> None:
    assert (cut(0), cut(2, version_of()), cut(4, version_of())) == (["a", "b"], ["c", "d"], [])


def test_a_page_may_be_short_and_has_a_limit() -> None:
    assert cut(3, version_of()) == ["d"]
    many = tuple(f"{number:05}" for number in range(PAGE_ENTRIES_MAX + 1))
    assert len(cut(0, None, None, many)) == len(cut(0, None, 1 << 30, many)) == PAGE_ENTRIES_MAX


@pytest.mark.parametrize("version", [None, {}, {"counter": 1, "stateVersion": 0, "timestamp": 0}])
def test_without_the_version_of_this_list_the_first_page_is_repeated(version: Any) -> None:
    assert cut(2, version) == ["a", "b"]


def test_a_text_that_is_no_version_is_none_of_this_list() -> None:
    page = cut_page(NAMES, 2, "{", 2)
    assert page is not None
    assert [*page.names] == ["a", "b"]


def test_names_that_come_and_go_change_the_version() -> None:
    assert version_of() == version_of(NAMES[::-1])
    assert len({write_json(version_of(names)) for names in (NAMES, (*NAMES, "e"), NAMES[1:])}) == 3


@pytest.mark.parametrize(("sequence", "most"), [(None, 2), (0, 0), (0, -1)])
def test_a_page_that_cannot_be_is_refused(sequence: int | None, most: int) -> None:
    with pytest.raises(RequestFailed, match="a page needs"):
        cut_page(NAMES, sequence, None, most)
    with pytest.raises(RequestFailed, match="cannot begin with entry -1"):
        cut_page(NAMES, -1, write_json(version_of()).decode(), 1)


@pytest.fixture
def broker() -> Any:
    with running_broker({"orders": 2, "trades": 1}, remoting=True) as running:
        yield running


@pytest.mark.parametrize(
    ("code", "what", "table"),
    [
        (RequestCode.GET_ALL_TOPIC_CONFIG, "Topic", "topicConfigTable"),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "Group", "subscriptionGroupTable"),
    ],
)
def test_all_pages_together_are_the_whole_list(broker: RunningBroker, code: int, what: str, table: str) -> None:
    calls, address = Calls(), broker.remoting_addresses[0]
    for name in ("readers", "others", "billing"):
        body = write_json({"groupName": name})
        calls.call(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    whole = calls.call(address, code)
    expected, total = read_json(whole.body)[table], int(whole.fields[f"total{what}Num"])
    found: dict[str, Any] = {}
    version = ""
    while len(found) < total:
        fields = {f"{what.lower()}Seq": len(found), f"max{what}Num": 2, "dataVersion": version}
        page = read_json(calls.call(address, code, fields).body)
        assert 1 <= len(page[table]) <= 2
        found |= page[table]
        version = write_json(page["dataVersion"]).decode()
    assert found == expected
