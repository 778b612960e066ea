"""Born hosts: the address and port from which a message came (rules 4.7), and the host that a producer names.

Apache's proxy stores the host and the time of its clients in properties, which messages of other producers do not have.
Messages stored by older releases have a host without a port, which also stands for that property.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.messages.columns import format_milliseconds, set_null
from rmqpull_proto.remoting import properties as names

_WITH_PORT = r"^(?:(\d+\.\d+\.\d+\.\d+)|\[([0-9a-zA-Z:.%]+)\]):\d+$"
_match = re.compile(_WITH_PORT).match


def remove_port(host: str) -> str:
    """Returns the host of a producer without its port. An IPv6 address with a port gets Java's form."""
    found = _match(host)
    if found is None:
        return host
    return str(found[1]) if found[1] else _format_ipv6(found[2])


def _format_ipv6(text: str) -> str:
    """Formats all parts of an address, without leading zeros; an IPv4-mapped address as IPv4."""
    try:
        address = IPv6Address(text.partition("%")[0])
    except ValueError:
        return text
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))


def find_named_hosts(hosts: pa.Array) -> pa.Array:
    """Returns the hosts that also stand for a property: those without a port. All others become null."""
    encoded = hosts.dictionary_encode()  # there are few different ones
    named = [text if text and is_named(text) else None for text in encoded.dictionary.to_pylist()]
    return pa.array(named, pa.string()).take(encoded.indices)


def is_named(host: str) -> bool:
    """Whether the host of a message also stands for a property: it has no port."""
    return bool(host) and _match(host) is None


def make_named_columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Returns the properties that hosts without a port stand for; none if there are no such hosts."""
    hosts = find_named_hosts(batch.column("bornHost"))
    if hosts.null_count == len(hosts):
        return {}
    times = format_milliseconds(batch.column("bornTimestamp"))
    named_times = set_null(times, pc.is_null(hosts))
    return {names.BORN_HOST: hosts, names.BORN_TIMESTAMP: named_times}
