"""What a name server keeps in memory."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.server.remoting import name_server
from rmqpull_broker.server.remoting.name_server import NameServer


@pytest.mark.proves("Values and properties of the name server (PUT_KV_CONFIG, UPDATE_NAMESRV_CONFIG)")
def test_values_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_server, "VALUES_MAX", 2)
    kept = NameServer()
    kept.put("space", "first", "1")
    kept.put("other space", "second", "2")
    kept.put("space", "first", "changed")
    with pytest.raises(TooManyRequests, match="has 2 values already"):
        kept.put("space", "third", "3")
    kept.delete("space", "first")
    kept.put("space", "third", "3")
    assert kept.list_values("space") == {"third": "3"}
    assert NameServer().list_values("space") is None
