"""Up to where a copy has come: in memory and, where the user names one, in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from rmqpull_client.cli.copies.offsets_file import BadOffsets, Copy, decode_offsets, encode_offsets
from rmqpull_client.cli.durable_files import write_file
from rmqpull_client.cli.file_locks import InUse, lock_file
from rmqpull_client.cli.output import Refused
from rmqpull_client.cli.servers import make_click_error
from rmqpull_client.errors import RmqpullError
from rmqpull_client.model import Bounds, MessageQueue, QueueRange


class Copied:
    """The offsets and the number of messages that are copied.

    ``file`` has the offsets of earlier runs, if it exists. It is locked until the command ends. Raises Refused for one
    that cannot be used.
    """

    def __init__(self, copy: Copy, file: Path | None) -> None:
        self._copy = copy
        self._file = file
        self._offsets = {} if file is None else _read_offsets(file, copy)
        self.message_count = 0

    def list_ranges(
        self,
        bounds: Mapping[MessageQueue, Bounds],
        since: Mapping[MessageQueue, int] | None,
        until: Mapping[MessageQueue, int] | None,
    ) -> list[QueueRange]:
        """Returns what is to be copied now. Offsets of an earlier run take precedence over ``since``.

        Raises Refused for a queue that ends before its offset.
        """
        ranges = []
        for queue, own in bounds.items():
            kept = self._offsets.get(queue)
            if kept is not None and kept > own.max_offset:
                raise Refused(
                    f"{self._file} has offset {kept} of queue {queue}, which ends at {own.max_offset}: the topic was "
                    f"created again. Use another file to copy it from its begin"
                )
            first = kept if kept is not None else own.min_offset if since is None else own.clamp(since[queue])
            end = own.max_offset if until is None else own.clamp(until[queue])
            self._offsets[queue] = first
            if first < end:
                ranges.append(QueueRange(queue, first, end))
        return ranges

    def keep(self, reached: Mapping[MessageQueue, int], message_count: int) -> int:
        """Notes what an acknowledged call has copied. Returns the number of offsets that are done with it."""
        done = sum(offset - self._offsets[queue] for queue, offset in reached.items())
        self._offsets.update(reached)
        if self._file is not None:
            write_file(self._file, encode_offsets(self._copy, self._offsets))
        self.message_count += message_count
        return done

    @contextmanager
    def describe_end(self) -> Iterator[None]:
        """Says of a copy that cannot go on what is copied, and how to go on."""
        try:
            yield
        except RmqpullError as error:
            more = f"; {self._describe()}, and some that were sent last may be copied too{self._advise()}"
            raise make_click_error(error, more) from None
        except OSError as error:
            raise Refused(f"cannot write {self._file}: {error.strerror}; {self._describe()}{self._advise()}") from None
        except KeyboardInterrupt:
            raise Refused(f"interrupted; {self._describe()}{self._advise()}") from None

    def _describe(self) -> str:
        return "1 message is copied" if self.message_count == 1 else f"{self.message_count} messages are copied"

    def _advise(self) -> str:
        if self._file is None:
            return ". Another run begins anew: --offsets FILE would let it go on"
        return ". Run the command again to go on, which may repeat the messages of the last call, up to 10,000"


def _read_offsets(file: Path, copy: Copy) -> dict[MessageQueue, int]:
    try:
        click.get_current_context().with_resource(lock_file(file))
    except InUse:
        raise Refused(f"another copy has {file} now; wait for its end, or use another file") from None
    except OSError as error:
        raise Refused(f"cannot write beside {file}: {error.strerror}") from None
    try:
        return decode_offsets(file.read_bytes(), copy)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Refused(f"cannot read {file}: {error.strerror}") from None
    except BadOffsets as error:
        raise Refused(f"cannot go on with {file}: {error}; use another file") from None
