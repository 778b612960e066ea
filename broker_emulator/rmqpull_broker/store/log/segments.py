"""Segments as they are read: record after record, through a window, so that no size takes much memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rmqpull_broker.store.log import record
from rmqpull_broker.store.vfs import FileSystem, ReadFile

WINDOW_BYTES = 4 << 20
"""What is read at once; a record above it is read alone."""

_SUFFIX = ".log"
_SEGMENT_NAME = re.compile(r"[0-9]{20}\.log")


class CorruptLog(Exception):
    """Acknowledged records are damaged; the text names file and offset."""


def segment_name(base: int) -> str:
    """Segments are named after the log position at which they begin, as Apache's are: 20 digits."""
    return f"{base:020d}{_SUFFIX}"


def segment_bases(file_system: FileSystem) -> list[int]:
    """Where the segments of a directory begin, in order."""
    return [int(name.removesuffix(_SUFFIX)) for name in file_system.names() if _SEGMENT_NAME.fullmatch(name)]


def read_frames(file: ReadFile, place: int, end: int) -> Iterator[tuple[int, record.Frame]]:
    """The whole, undamaged records from ``place`` on, up to ``end`` or to the first that is neither.

    Each comes with the place in the file where it begins.
    """
    window, window_place = memoryview(b""), place
    while place < end:
        frame = record.read_frame(window, place - window_place)
        if frame is not None:
            yield place, frame
            place += frame.size
            continue
        wanted = min(max(WINDOW_BYTES, record.frame_bytes(window, place - window_place)), end - place)
        if window_place == place and len(window) >= wanted:
            return
        window, window_place = memoryview(file.read(place, wanted)), place
        if len(window) < wanted:
            end = place + len(window)


def is_synced_behind(data: memoryview, damaged: int, base: int) -> bool:
    """Whether some whole record behind ``damaged``, a place in the segment, says that the log was synced beyond it.

    None knows of what lies behind itself: bytes of a message that look like a record of another log say nothing.
    """
    for found in re.finditer(re.escape(record.RECORD_MAGIC), data[damaged + 1 :]):
        place = damaged + 1 + found.start()
        frame = record.read_frame(data, place)
        if frame is not None and base + damaged < frame.synced_until <= base + place:
            return True
    return False


def is_zero(data: memoryview) -> bool:
    """Whether a file has its size and not yet any content, as a power cut may leave it."""
    step = 1 << 20
    return not any(bytes(data[place : place + step]).strip(b"\0") for place in range(0, len(data), step))
