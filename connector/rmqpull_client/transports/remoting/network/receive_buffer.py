"""The bytes that a connection has received, and the whole frames in them. Pure.

One large buffer holds thousands of frames, so that few calls receive them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_proto.remoting.frames import PREFIX_BYTES, WireError, read_frame_bytes, split_frames

BUFFER_BYTES = 64 << 10
"""The size of a buffer, unless more is reserved or a frame is larger."""
_FRAME_START_BYTES = 8


class ReceiveBuffer:
    """Bytes arrive at the end, and frames are handed out at the start."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(BUFFER_BYTES))
        self._size = BUFFER_BYTES
        self._start = self._end = 0  # what was received and not handed out
        self.has_had_frame = False

    @property
    def rest(self) -> int:
        """The number of bytes that have arrived of an incomplete frame."""
        return self._end - self._start

    @property
    def room(self) -> memoryview:
        """Where the next bytes go. It is empty when the buffer is full."""
        return self.view[self._end :]

    def reserve(self, byte_count: int) -> None:
        """Makes the buffer at least this large, or smaller again, before the next bytes arrive."""
        self._size = max(byte_count, BUFFER_BYTES)

    def make_room(self) -> None:
        """Moves the bytes of an incomplete frame to the start of a buffer that can hold all of it.

        The frames that were handed out are overwritten.
        """
        rest = self.view[self._start : self._end]
        needed = self._size
        if len(rest) >= PREFIX_BYTES:
            needed = max(needed, read_frame_bytes(self.view, self._start, self._end) or 0)
        if len(self.view) < needed or len(self.view) > 2 * needed:
            self.view = memoryview(bytearray(needed))
        elif not self._start:
            return
        self.view[: len(rest)] = rest
        self._start, self._end = 0, len(rest)

    def add(self, byte_count: int) -> None:
        """Counts bytes that were received into :attr:`room`."""
        self._end += byte_count

    def take_frames(self) -> Sequence[tuple[int, int]]:
        """Returns the bounds in :attr:`view` of the whole frames, each without its length.

        Raises WireError for bytes that form no frame.
        """
        frames = split_frames(self.view, self._start, self._end)
        if frames:
            self._start = frames[-1][1]
            self.has_had_frame = True
        return frames

    def has_begun_well(self) -> bool:
        """Whether the very first bytes look like a frame."""
        try:
            split_frames(self.view, self._start, min(self._end, self._start + _FRAME_START_BYTES))
        except WireError:
            return self.has_had_frame
        return True
