"""Born hosts: with a port if the producer uses the remoting protocol, without one if not (rules 4.7, 5.12.1).

Only clients of the remoting protocol see the port. Apache's proxy names the host of its clients in properties, which
the messages of other producers do not have.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address

import pyarrow as pa

_WITH_PORT = r"^(?:(\d+\.\d+\.\d+\.\d+)|\[([0-9a-zA-Z:.%]+)\]):\d+$"
_match = re.compile(_WITH_PORT).match


def remove_port(host: str) -> str:
    """Returns the host of a producer without its port. An IPv6 address with a port gets Java's form."""
    found = _match(host)
    if found is None:
        return host
    return str(found[1]) if found[1] else _format_ipv6(found[2])


def _format_ipv6(text: str) -> str:
    """Returns all parts of an address, without leading zeros; an IPv4 address if it is one within IPv6."""
    try:
        address = IPv6Address(text.partition("%")[0])
    except ValueError:
        return text
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


def remove_ports(hosts: pa.Array) -> pa.Array:
    """Returns hosts without ports. There are few different ones."""
    if not _has_colon(hosts):
        return hosts
    encoded = hosts.dictionary_encode()
    texts = [text and remove_port(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def find_named_hosts(hosts: pa.Array) -> pa.Array:
    """Returns the hosts that stand in properties, too: those without a port. All others become null."""
    encoded = hosts.dictionary_encode()  # there are few different ones
    named = [text if text and is_named(text) else None for text in encoded.dictionary.to_pylist()]
    return pa.array(named, pa.string()).take(encoded.indices)


def is_named(host: str) -> bool:
    """Whether the host of a message stands in a property, too."""
    return bool(host) and _match(host) is None


def _has_colon(hosts: pa.Array) -> bool:
    """Looks for a colon in the bytes of all hosts at once."""
    _, offsets, data = hosts.buffers()
    if data is None or not len(hosts):
        return False
    bounds = pa.Array.from_buffers(pa.int32(), hosts.offset + len(hosts) + 1, [None, offsets])
    first, last = bounds[hosts.offset].as_py(), bounds[hosts.offset + len(hosts)].as_py()
    return re.search(b":", memoryview(data)[first:last]) is not None
