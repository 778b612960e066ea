"""Which peers may administrate a broker, by the networks of their addresses."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LOOPBACK, _ALL, _NONE = "loopback", "all", "none"
_WORDS: dict[str, tuple[Network, ...]] = {
    _LOOPBACK: (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128")),
    _ALL: (IPv4Network("0.0.0.0/0"), IPv6Network("::/0")),
}
_MAPPED_BITS = 96
"""The bits of an IPv6 address before the IPv4 address that it contains (``::ffff:10.0.0.1``)."""


@dataclass(frozen=True)
class AdminPeers:
    """The peers that may administrate the broker. ``words`` are as the operator wrote them."""

    words: tuple[str, ...]
    networks: tuple[Network, ...]

    def allows(self, host: str) -> bool:
        """Whether the peer with this address may administrate the broker. A text that is not an IP address may not.

        An IPv6 address that contains an IPv4 address counts as the IPv4 address.
        """
        address = read_host(host)
        return address is not None and any(address in network for network in self.networks)

    def describe(self) -> str:
        """Names these peers, for the end of a sentence."""
        names = {_LOOPBACK: "loopback addresses", _ALL: "everybody", _NONE: "nobody"}
        return ", ".join(names.get(word, word) for word in self.words)

    def add(self, host: str) -> str:
        """Returns the value of the setting that also allows this host."""
        return ",".join((*(word for word in self.words if word != _NONE), host))


def parse_admin_peers(text: str) -> AdminPeers:
    """Parses addresses and networks such as ``10.0.0.0/8``, ``loopback`` and ``all``, with commas between them, or
    ``none`` alone. Raises ValueError, whose text names the first bad part.
    """
    words = tuple(word.strip() for word in text.split(","))
    if words == (_NONE,):
        return AdminPeers(words, ())
    return AdminPeers(words, tuple(network for word in words for network in _read_networks(word)))


def _read_networks(word: str) -> tuple[Network, ...]:
    if word in _WORDS:
        return _WORDS[word]
    try:
        network = None if "%" in word else ip_network(word, strict=False)
    except ValueError:
        network = None
    if network is None:
        raise ValueError(f"{word!r} is not an IP address or network")
    if "/" in word and ip_address(word.partition("/")[0]) != network.network_address:
        raise ValueError(f"{word!r} is an address within the network {network}: give one of them")
    return (_unmap(network),)


def _unmap(network: Network) -> Network:
    """Returns the IPv4 network of mapped addresses; any other network as it is."""
    if isinstance(network, IPv6Network) and network.prefixlen >= _MAPPED_BITS:
        first = network.network_address.ipv4_mapped
        if first is not None:
            return IPv4Network((first, network.prefixlen - _MAPPED_BITS))
    return network


def read_host(host: str) -> Address | None:
    """Parses the address of a peer, with or without brackets and a zone. Returns None if it is not an IP address."""
    try:
        address = ip_address(host.strip("[]").partition("%")[0])  # the zone is not part of the address
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


LOOPBACK_PEERS = parse_admin_peers(_LOOPBACK)
