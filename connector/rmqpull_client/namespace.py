"""Names of topics and groups within a namespace, as RocketMQ's NamespaceUtil wraps them: ``shop%orders``."""

from __future__ import annotations

_PREFIXES = ("%RETRY%", "%DLQ%")


def wrapped(namespace: str, name: str) -> str:
    """The name that a broker knows for one in a namespace: ``%RETRY%g`` is ``%RETRY%shop%g``."""
    prefix, rest = _parted(name)
    if not namespace or not name or rest.startswith(f"{namespace}%"):
        return name
    return f"{prefix}{namespace}%{rest}"


def plain(namespace: str, name: str) -> str | None:
    """The name within the namespace of one that a broker knows; None for one of elsewhere."""
    prefix, rest = _parted(name)
    inner = rest.removeprefix(f"{namespace}%") if namespace else rest
    return None if namespace and inner == rest else prefix + inner


def _parted(name: str) -> tuple[str, str]:
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return prefix, name.removeprefix(prefix)
