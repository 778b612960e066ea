"""Input that only a hostile or broken peer sends: damaged bytes, damaged JSON, and long repetitions.

Tests of an edge have the marker ``edge``; ``make fuzz`` runs them with 10,000 inputs each. An input that once failed
stays with its test, as ``@example``.
"""

from __future__ import annotations

import copy
import functools
import signal
import struct
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, ParamSpec

from hypothesis import strategies as st

INPUT_CPU_S = 10
"""Processor time that one input may take in a test. Most take less than a thousandth of it."""
WILD_NUMBERS = (0, 1, 3, 8, *(1 << bits for bits in (16, 31, 40, 62, 63)), *((1 << bits) - 1 for bits in (31, 63, 64)))

P = ParamSpec("P")


class TooSlow(Exception):
    """An input took more processor time than any input may."""


def limit_cpu(test: Callable[P, None]) -> Callable[P, None]:
    """Ends the example of a property with TooSlow when it takes far more processor time than any input may."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"one input has taken {INPUT_CPU_S} s of processor time")

    @functools.wraps(test)
    def limited(*args: P.args, **kwargs: P.kwargs) -> None:
        before = signal.signal(signal.SIGVTALRM, end)
        signal.setitimer(signal.ITIMER_VIRTUAL, INPUT_CPU_S)
        try:
            test(*args, **kwargs)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    return limited


@st.composite
def damage(draw: st.DrawFn, sound: bytes, times_max: int = 4) -> bytes:
    """Bytes in which bits are flipped, numbers are replaced, and parts are missing, zero or repeated."""
    data = bytearray(sound)
    for _ in range(draw(st.integers(1, times_max))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                at -= at % 8
                data[at : at + 8] = struct.pack(draw(st.sampled_from("<>")) + "Q", draw(st.sampled_from(WILD_NUMBERS)))
            case 2:
                at -= at % 4
                number = draw(st.sampled_from(WILD_NUMBERS)) & 0xFFFFFFFF
                data[at : at + 4] = struct.pack(draw(st.sampled_from("<>")) + "I", number)
            case 3:
                at -= at % 8
                until = at + 8 * draw(st.integers(1, 64))
                data[at:until] = data[at:until] * draw(st.sampled_from((0, 2)))
            case 4:
                until = at + draw(st.integers(1, 600))
                data[at:until] = bytes(len(data[at:until]))
    return bytes(data)


WILD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, 10**30, 0.5, -0.0, 1e300, float("nan")),
    *("", " ", "0", "-1", "1.5", "x", "\0", "\ud800", "€", "9" * 400, "x" * 300, "true", "null", "a\x01b\x02"),
    *([], {}, [[]], [None], [{}], {"": None}, {"0": {"0": {"0": 0}}}, [[[[[[[[]]]]]]]]),
)


def find_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of each value in a JSON value, that of the whole first."""
    yield path
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, inner in entries:
        yield from find_places(inner, (*path, key))


@st.composite
def damage_json(draw: st.DrawFn, sound: Any, times_max: int = 3) -> Any:
    """A JSON value of which some parts are replaced, missing or have another name."""
    whole = [copy.deepcopy(sound)]
    for _ in range(draw(st.integers(1, times_max))):
        path = (0, *draw(st.sampled_from(list(find_places(whole[0])))))
        holder: Any = whole
        for key in path[:-1]:
            holder = holder[key]
        what = draw(st.integers(0, 3)) if isinstance(holder, dict) else 0
        if what == 1:
            del holder[path[-1]]
        elif what == 2:
            holder[draw(st.sampled_from([each for each in WILD_VALUES if isinstance(each, str)]))] = holder.pop(
                path[-1]
            )
        else:
            holder[path[-1]] = copy.deepcopy(draw(st.sampled_from(WILD_VALUES)))
    return whole[0]


@st.composite
def repeat(draw: st.DrawFn, parts: tuple[str, ...], lengths: tuple[int, ...]) -> str:
    """A text that repeats one of ``parts`` up to one of ``lengths``, between some of them."""
    some = st.lists(st.sampled_from(parts), max_size=3).map("".join)
    part = draw(st.sampled_from(parts))
    return draw(some) + part * (draw(st.sampled_from(lengths)) // len(part)) + draw(some)
