"""Reading segments: record by record through a window, so that no segment takes much memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rmqpull_broker.store.log import record
from rmqpull_broker.store.vfs import FileSystem, ReadFile

WINDOW_BYTES = 4 << 20
"""The size of the window. A record larger than this is read alone."""

_SUFFIX = ".log"
_SEGMENT_NAME = re.compile(r"[0-9]{20}\.log")


class CorruptLog(Exception):
    """Acknowledged records are damaged. The text names the file and the offset."""


def segment_name(base: int) -> str:
    """Returns the name of a segment: as in Apache's broker, the log position at which it begins, in 20 digits."""
    return f"{base:020d}{_SUFFIX}"


def list_segment_bases(file_system: FileSystem) -> list[int]:
    """Returns the log positions at which the segments of a directory begin, in order."""
    return [int(name.removesuffix(_SUFFIX)) for name in file_system.names() if _SEGMENT_NAME.fullmatch(name)]


def read_frames(file: ReadFile, offset: int, end: int) -> Iterator[tuple[int, record.Frame]]:
    """Yields the records from ``offset`` to ``end``, each with its offset in the file.

    Stops at the first record that is damaged or not complete.
    """
    window, window_offset = memoryview(b""), offset
    while offset < end:
        frame = record.read_frame(window, offset - window_offset)
        if frame is not None:
            yield offset, frame
            offset += frame.size
            continue
        wanted = min(max(WINDOW_BYTES, record.read_frame_size(window, offset - window_offset)), end - offset)
        if window_offset == offset and len(window) >= wanted:
            return
        window, window_offset = memoryview(file.read(offset, wanted)), offset
        if len(window) < wanted:
            end = offset + len(window)


def is_synced_behind(data: memoryview, damaged: int, base: int) -> bool:
    """Whether a record after ``damaged``, an offset in the segment, says that the log was synced beyond it.

    A record can only say that about bytes before itself. So a message whose body contains a record of another log does
    not count.
    """
    for found in re.finditer(re.escape(record.RECORD_MAGIC), data[damaged + 1 :]):
        offset = damaged + 1 + found.start()
        frame = record.read_frame(data, offset)
        if frame is not None and base + damaged < frame.synced_until <= base + offset:
            return True
    return False


def is_zero(data: memoryview) -> bool:
    """Whether a file contains only zeros, as it may after a power cut."""
    step = 1 << 20
    return not any(bytes(data[offset : offset + step]).strip(b"\0") for offset in range(0, len(data), step))
