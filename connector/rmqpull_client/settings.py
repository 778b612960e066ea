"""Settings of the client that are options of Spark's source and sink, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True)
class Setting(Generic[_T]):
    """What is known of a field of ``Connection``, ``Credentials``, ``Tls`` or ``Flow``: its only declaration.

    The field takes its default from here, and the option takes all of it.

    Args:
        default: The value of the field when it is not given, in ``unit``.
        unit: Of the value, as the tables of options show it.
        doc: What it means, in Markdown, for the tables of options. It names other settings as options of Spark, such as
            `requestTimeoutMs` for ``request_timeout_ms``.
    """

    default: _T
    unit: str
    doc: str
