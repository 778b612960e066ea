"""JSON as name servers and brokers write it with fastjson (rules 4.3).

value  = object | array | string | number | true | false | null | NaN | Infinity
object = "{" [ entry { "," entry } [ "," ] ] "}"
entry  = ( string | number | name | object | array ) ":" value
array  = "[" [ value { "," value } [ "," ] ] "]"
string = in double or in single quotes
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX, WireError

DEPTH_MAX = 64
_DIGITS_MAX = 400
"""The most digits of a number: the time to read them grows with their square."""

DIALECT_COST = 16
"""How many times longer fastjson's dialect takes to read than standard JSON. It divides ``values_max``."""
_ESCAPES_OF_A_VALUE = 8
"""How many escapes take as long to read as one value."""

_SPACE = re.compile(r"[ \t\n\r\f\b]*")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_WORD = re.compile(r"[A-Za-z_$@][\w$.@-]*")
_STRINGS = {
    '"': re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL),
    "'": re.compile(r"'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL),
}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = dict(zip("01234567btnvfFr\"'/\\", "\0\1\2\3\4\5\6\7\b\t\n\v\f\f\r\"'/\\", strict=True))
_CONSTANTS = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
}


def read_json(text: bytes | memoryview, bytes_max: int = FRAME_BYTES_MAX, *, values_max: int | None = None) -> Any:
    """Reads standard JSON, or that of fastjson.

    Keys of objects become texts: a number as it is written, an object or an array as compact JSON with sorted names.
    Raises ``WireError`` with the position of what cannot be read, and for a text of more than ``bytes_max`` bytes or
    with more than ``DEPTH_MAX`` objects and arrays inside each other. ``values_max`` limits the values, estimated
    before parsing by the bytes that separate them: a server sets it for what clients send.
    """
    raw = bytes(text)
    if len(raw) > bytes_max:
        raise WireError(f"JSON has {len(raw)} bytes, expected at most {bytes_max}")
    values = 0 if values_max is None else sum(map(raw.count, (b",", b"[", b"{")))
    if values_max is not None and values > values_max:
        raise WireError(f"JSON has {values} values, expected at most {values_max}; send fewer at a time")
    # Java's reader replaces bytes that are not UTF-8 by U+FFFD.
    decoded = raw.decode(errors="replace")
    # The standard library would keep a lone surrogate, which cannot be encoded as UTF-8.
    if "\\" in decoded and _SURROGATE.search(decoded):
        return _read_dialect(decoded, values, values_max)
    try:
        return _DECODER.decode(decoded)
    except RecursionError:
        raise WireError(f"JSON has more than {DEPTH_MAX} objects and arrays inside each other") from None
    except ValueError:
        return _read_dialect(decoded, values, values_max)


def _read_dialect(text: str, values: int, values_max: int | None) -> Any:
    values += text.count("\\") // _ESCAPES_OF_A_VALUE
    if values_max is not None and values * DIALECT_COST > values_max:
        raise WireError(
            f"JSON has {values} values and escapes, and is not standard JSON, or has surrogates as escapes; "
            f"expected at most {values_max // DIALECT_COST} of them"
        )
    return _Reader(text).read_all()


def write_json(value: Any) -> bytes:
    """Writes compact standard JSON, with the names in objects sorted, as fastjson does."""
    return _ENCODER.encode(value).encode(errors="replace")


def _read_integer(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise WireError(f"JSON has a number of {len(digits)} digits, expected at most {_DIGITS_MAX}")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_read_integer)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)
"""Made once: ``json.loads`` and ``json.dumps`` would make one for each text."""


class _Reader:
    """Reads one text. ``_at`` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._in_key = False

    def read_all(self) -> Any:
        value = self._read_value(0)
        if self._peek():
            self._refuse("nothing more")
        return value

    def _refuse(self, expected: str) -> NoReturn:
        seen = self._text[self._at : self._at + 20]
        what = repr(seen) if seen else "the end"
        raise WireError(f"JSON has {what} at character {self._at} of {len(self._text)}, expected {expected}")

    def _peek(self) -> str:
        """Skips white space and returns the next character; an empty text at the end."""
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        """Skips the next character if it is this one."""
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def _read_value(self, depth: int) -> Any:
        first = self._peek()
        if depth > DEPTH_MAX:
            self._refuse(f"at most {DEPTH_MAX} objects and arrays inside each other")
        if first == "{":
            return self._read_object(depth)
        if first == "[":
            return self._read_array(depth)
        if first in _STRINGS and first:
            return self._read_string(first)
        word = _WORD.match(self._text, self._at)
        if word and word[0] in _CONSTANTS:
            self._at = word.end()
            return _CONSTANTS[word[0]]
        if self._text.startswith("-Infinity", self._at):
            self._at += len("-Infinity")
            return float("-inf")
        number = self._read_number()
        return int(number) if number.lstrip("+-").isdigit() else float(number)

    def _read_number(self) -> str:
        found = _NUMBER.match(self._text, self._at)
        if not found:
            self._refuse("a value")
        if len(found[0]) > _DIGITS_MAX:
            self._refuse(f"a number of at most {_DIGITS_MAX} digits")
        self._at = found.end()
        return found[0]

    def _read_string(self, quote: str) -> str:
        found = _STRINGS[quote].match(self._text, self._at)
        if not found:
            self._refuse(f"a text with {quote} at its end")
        self._at = found.end()
        if "\\" not in found[1]:
            return found[1]
        raw = _ESCAPE.sub(self._read_escape, found[1])
        # A character beyond 16 bits is escaped as two surrogates.
        return raw.encode("utf-16-be", errors="surrogatepass").decode("utf-16-be", errors="replace")

    def _read_escape(self, found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        if escape not in _ESCAPED:
            raise WireError(f"JSON has the unknown escape {found[0]!r} in the text before character {self._at}")
        return _ESCAPED[escape]

    def _read_key(self, depth: int) -> str:
        first = self._peek()
        if first in _STRINGS and first:
            return self._read_string(first)
        if first in ("{", "["):
            return self._read_object_key(depth)
        word = _WORD.match(self._text, self._at)
        if word:
            self._at = word.end()
            return word[0]
        return self._read_number()

    def _read_object_key(self, depth: int) -> str:
        if self._in_key:  # each level would double the escapes of the levels in it
            self._refuse("no object in the key of an object that is a key itself")
        self._in_key = True
        key = write_json(self._read_value(depth)).decode()
        self._in_key = False
        return key

    def _read_object(self, depth: int) -> dict[str, Any]:
        self._at += 1
        found: dict[str, Any] = {}
        while not self._take("}"):
            key = self._read_key(depth + 1)
            if not self._take(":"):
                self._refuse("':'")
            found[key] = self._read_value(depth + 1)
            if not self._take(",") and self._peek() != "}":
                self._refuse("',' or '}'")
        return found

    def _read_array(self, depth: int) -> list[Any]:
        self._at += 1
        found: list[Any] = []
        while not self._take("]"):
            found.append(self._read_value(depth + 1))
            if not self._take(",") and self._peek() != "]":
                self._refuse("',' or ']'")
        return found
