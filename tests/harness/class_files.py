"""Reads the constants of a compiled Java class from its jar, without Java (JVM specification, chapter 4)."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

_UTF8, _STRING = 1, 8
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_OF_TWO_ENTRIES = (5, 6)
_CONSTANT_VALUE = "ConstantValue"


def read_string_constants(jar: Path, class_name: str) -> dict[str, str]:
    """Returns the string constants of a class, by name. ``class_name`` has dots."""
    with zipfile.ZipFile(jar) as archive:
        data = archive.read(class_name.replace(".", "/") + ".class")
    pool, at = _read_pool(data)
    (interface_count,) = struct.unpack_from(">6xH", data, at)
    at += 8 + 2 * interface_count
    (field_count,) = struct.unpack_from(">H", data, at)
    at += 2
    found = {}
    for _ in range(field_count):
        name, attribute_count = struct.unpack_from(">2xH2xH", data, at)
        at += 8
        for _ in range(attribute_count):
            attribute, size = struct.unpack_from(">HI", data, at)
            if pool[attribute] == _CONSTANT_VALUE:
                value = pool.get(struct.unpack_from(">H", data, at + 6)[0])  # None for a number
                if isinstance(value, tuple):
                    found[pool[name]] = pool[value[0]]
            at += 6 + size
    return found


def _read_pool(data: bytes) -> tuple[dict[int, Any], int]:
    """Returns the texts of the constant pool, and of each string the index of its text; and where the pool ends."""
    (count,) = struct.unpack_from(">8xH", data, 0)
    pool: dict[int, Any] = {}
    index, at = 1, 10
    while index < count:
        tag = data[at]
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", data, at + 1)
            pool[index] = data[at + 3 : at + 3 + size].decode()
            at += 3 + size
        else:
            if tag == _STRING:
                pool[index] = struct.unpack_from(">H", data, at + 1)
            at += 1 + _SIZES[tag]
        index += 2 if tag in _OF_TWO_ENTRIES else 1
    return pool, at
