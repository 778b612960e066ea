"""Prints the packages that rmqpull requires, one a line, as setup.py declares them.

usage: python scripts/list_packages.py [--oldest] EXTRA...

With ``--oldest``, pyarrow and NumPy have their oldest allowed release.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import requires

# Not grpcio and protobuf: the oldest packages of health and reflection that fit the one do not fit the other.
OF_SPARK = {"pyarrow", "numpy"}
_EXTRA = re.compile(r"""; *extra == ["'](\w+)["']$""")
_OLDEST = re.compile(r">=([0-9.]+)")


def list_packages(extras: list[str], *, oldest: bool) -> list[str]:
    """Returns what the installed rmqpull requires with these extras."""
    chosen = []
    for line in requires("rmqpull") or ():
        extra = _EXTRA.search(line)
        if extra is not None and extra[1] not in extras:
            continue
        need = _EXTRA.sub("", line)
        name = re.split("[^A-Za-z0-9_-]", need, maxsplit=1)[0]
        lowest = _OLDEST.search(need)
        chosen.append(f"{name}=={lowest[1]}" if oldest and lowest is not None and name in OF_SPARK else need)
    return chosen


if __name__ == "__main__":
    arguments = sys.argv[1:]
    print(*list_packages([each for each in arguments if each != "--oldest"], oldest="--oldest" in arguments), sep="\n")
