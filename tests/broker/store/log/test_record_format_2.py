"""A data directory from before chunks had sizes is read: rows of the log, a queue file, a snapshot of version 2.

The format of the log has kept its version ever since, so nothing in it may change.
"""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import BodyEncoding, GroupConfig, Message, MessageQueue, StoredMessage, TopicConfig
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import StorageHarness

# Files by name: two messages in columns, which the queue file has; a single one and a reset, which the snapshot has;
# behind it two single ones and a commit.
DIRECTORY = """
eNrtXVFzokgQ/isWT7kqbwvUKPiUvbrK7t1tNm5S96QWO8AQLRU4wGzcrfz3g0FPNgKhgfZi0qmkNcPQtN0zn83QX80PSc74ebd076RhS7q5+jL6dP1hso
4bheyk3j8jo5NvxLv+IH5R+rE01Fhqank14lwZ1l9WsttVBagnQ/6YSA5b8Yk0nEiub3E/mEjtieRzZun/rPma6856FbUNlaj1mz8P+WFz6HpzUw83XqLm
8/XN1ftPQo0Z6QnnrqPPLXFoxSzech2Ti6Me91dRc7+9vXT03mbLgD/Co2KISKpcyPPv8YsF9IUJ9V3O4DHMZqMSh2IXFtN1gvWK69xhxjI+HPprnmo3fJ
dZJgvC3B4rHgTsjuvC4cvNzuUi5KG/OQxu0rxiD3o4j06OW+OAOW44tzf6Vq0fBTjQzRlz7rj187Ufi0I3/BK/t0XYFO6JA4OybmJq0eTIkL2c6Wgftl+U
N2U8Hv80daIYLLj/K4v+kadtud2ZTvfdbftQfhSHzw/M6gFGTeojJMi0PZJ+v7uC8eQcu1B396nrlBy0s2VgOHbSydBtZ4TNOOyflpqZsrcM2nbqz1O1vo
pjSAW5P6o9dvm+LaAx/fL9z/A8cobjDBXPGRd4zrjAccYIz2Kgagisz/BC6OE5xMMJoUjtZDzdGjLoaYi2M2TbX5p+UG70331a/dy+sXsH5HsTqH8sFW9s
cuQkiSPffdvI9ttYvjcA+bhRyYcKcoKoYMS0hWc6RDUgkhBnONBUS8HL4hofeh+BFivQLK7x0H3F8/FXPGfM8GbfA55DHvDwTkXGO5D+anlt4/CRytsU5L
wQxS8Gsu0vSr9dKd9E0W0h+8VCtJ0j5iWFegZ4a5hN3ge9Of098s//6p8exZf0vyL9p96f4kv668imssJu/Sckf/we/SrHvKLPrei3dux6yLHoAq8L8MBC
/NR63gXI6A3X2rQSqTQ6e7AjoADtAcxyz0OzOm8cDOpF8f6eLdc8kSXWEmzg2oONkkMakFHqO/HfxW9l7Dm7rG31eb11oSB0fS4E2jgnWQ2XOscdCaHPTC
4EGqY0lb/U/CYZfbi5/nuUSPD1jfprRx7brLgTBrvXuLZyLhYJBbiaojTONqCPeuVJWDf/yVu5Yqy8GQX1lTXAAjh0OCtMfo64dKBWmxJdWHtWpWouKBR9
3nNgOgAFLyUrde9EibRAnvibU3wZiTSvk3fGIu8S22xUyStzyjhwD8XUferSz4OWLJDYTXZInbwtRrHF9ovZ2gBQctcqCf8ZsPFL/cE/ThfDF5ddK9N01X
VpFsFgC1nh/iEIBC8fAN+OJ4eXXSBeGoSXp4OX3Wy87L5lvPxTgID4jBq/hJYlJTUUxuvFA+B85SbhwengQS8bD3pvFQ/yLn3WSFbjhrMySU03Smp2qUpS
5aAJkzSj+oTRSt7nSu1WNrfWnK2dRbCl1/61L7aOcqlk1DMAl44ocs+WZRFFDrPimChy1R/eEEWOKHKNqCaKHFHkGredKHJEkSOKHE5yQxQ5osghqCaKHF
HkiCLXpCSKHFHksChmRJEjihxR5Eg/UaiIIkfxJf1EkaP4kn6iyBFFjihyRJErZx1R5CqtPxFFjiRR5IgiV4jaTyhyWQWNnb4qvwsc5gUzN9yWNN5+fj8q
9qZ+mVr3gnBAto+UO+WfN5SKerx5BP8W4cttjDBXYsuG6CrtibR2AnbPrdu52IFj2Omex61iy4e417M7GcS0mna8i4e/SPrLUet4Op0+HiOz3j7FLl1Bzr
UqvBXAyjtg/wkIkxJRjmCluE8reYvYEleiiygw5aK7qaSWyUuF+lXTp4huSnTTt0WXoF2rqgACbR9VbvuoU+MY583Gl2yz9PgvsRnmQQ==
"""
QUEUE = MessageQueue("orders", "broker-a", 0)


def stored(number: int) -> StoredMessage:
    message = Message(
        b"body %d" % number,
        f"ID{number}",
        "red",
        ("k", "kk"),
        {"p": "v", "": "value"},
        born_timestamp_ms=4,
        born_host="born",
        body_encoding=BodyEncoding.GZIP,
        trace_context="trace",
        system_properties={"PGROUP": "payments"},
    )
    return StoredMessage(message, number, 1_000 + number, "store", 1)


@pytest.mark.parametrize("lost", [(), (".snapshot",), (".snapshot", ".chunks")])
def test_everything_in_it_is_recovered(lost: tuple[str, ...]) -> None:
    files = json.loads(zlib.decompress(base64.b64decode(DIRECTORY)))
    kept = {name: data.encode("latin-1") for name, data in files.items() if not name.endswith(lost)}
    broker = StorageHarness(MemoryFileSystem(kept))
    state = broker.state
    assert columns.to_rows(state.store.read(QUEUE, *state.bounds(QUEUE))) == [stored(number) for number in range(5)]
    assert state.topics == {"orders": TopicConfig("orders", 1, 1, creation_id="made once")}
    assert state.groups == {"readers": GroupConfig("readers")}
    assert state.resets == {("readers", QUEUE): 1}
    assert state.find_consumer_offset("others", QUEUE) == 3
    assert broker.reports == []
