"""Reads single messages from the segments of the log, at any position."""

from __future__ import annotations

import pyarrow as pa

from rmqpull_broker.core.model import LoggedMessage
from rmqpull_broker.store.log.logged_columns import DamagedMessage, read_message
from rmqpull_broker.store.log.segments import CorruptLog, segment_name
from rmqpull_broker.store.vfs import FileSystem, OpenFiles, is_lack


class LogReader:
    """Keeps the files open that were read last. Each thread needs its own reader."""

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._files = OpenFiles(file_system, segment_name)

    def read(self, message: LoggedMessage) -> pa.RecordBatch:
        """Returns the rows of a message. Raises CorruptLog when the log does not have it: it is the only copy.

        Raises OSError when no more files can be opened.
        """
        name = segment_name(message.segment)
        try:
            data = self._files.find(message.segment).read(message.position - message.segment, message.length)
            return read_message(data, message)
        except (DamagedMessage, OSError) as error:
            if isinstance(error, OSError) and is_lack(error):
                raise
            raise CorruptLog(
                f"{self._file_system.describe(name)} is damaged at offset {message.position - message.segment}: "
                f"{message.row_count} messages cannot be read: {error}"
            ) from error

    def forget_before(self, position: int) -> None:
        """Closes the files of deleted segments, whose space the disk keeps until then."""
        self._files.close_where(lambda segment: segment < position)

    def close(self) -> None:
        """Closes all files."""
        self._files.close()
