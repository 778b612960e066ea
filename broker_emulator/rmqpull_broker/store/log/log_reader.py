"""Reads single messages from the segments of the log, at any position."""

from __future__ import annotations

from collections import OrderedDict

import pyarrow as pa

from rmqpull_broker.core.model import LoggedMessage
from rmqpull_broker.store.log.logged_columns import DamagedMessage, read_message
from rmqpull_broker.store.log.segments import CorruptLog, segment_name
from rmqpull_broker.store.vfs import FileSystem, ReadFile

OPEN_FILES_MAX = 64


class LogReader:
    """Keeps the files open that were read last. Each thread needs its own reader."""

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._open: OrderedDict[int, ReadFile] = OrderedDict()

    def read(self, message: LoggedMessage) -> pa.RecordBatch:
        """Returns the rows of a message. Raises CorruptLog when the log does not have it: it is the only copy."""
        name = segment_name(message.segment)
        try:
            data = self._find_file(message.segment).read(message.position - message.segment, message.length)
            return read_message(data, message)
        except (DamagedMessage, OSError) as error:
            raise CorruptLog(
                f"{self._file_system.describe(name)} is damaged at offset {message.position - message.segment}: "
                f"{message.row_count} messages cannot be read: {error}"
            ) from error

    def _find_file(self, segment: int) -> ReadFile:
        file = self._open.get(segment)
        if file is None:
            file = self._open[segment] = self._file_system.open(segment_name(segment))
            if len(self._open) > OPEN_FILES_MAX:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(segment)
        return file

    def forget_before(self, position: int) -> None:
        """Closes the files of deleted segments, whose space the disk keeps until then."""
        for segment in [segment for segment in self._open if segment < position]:
            self._open.pop(segment).close()

    def close(self) -> None:
        """Closes all files."""
        while self._open:
            self._open.popitem()[1].close()
