"""Checks the ports of the VIP channel: each is two below a port that routes give to clients of remoting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqpull_broker.config_values import Address, SettingError
from rmqpull_broker.server.addresses import VIP_DISTANCE, WILDCARDS, find_address


def check_vip_ports(
    addresses: Sequence[Address], advertised: Sequence[Address], brokers: Sequence[str], others: Mapping[str, Address]
) -> None:
    """Raises SettingError if a port two below does not exist, or is another port of this broker.

    Port 0 is not checked: the free port is chosen so that it fits. ``others`` has the addresses of other settings, by
    setting name.
    """
    listening = {name: Address(*find_address(addresses, index)) for index, name in enumerate(brokers)}
    taken = {**others, **{f"remoting ({name})": address for name, address in listening.items()}}
    for index, (name, (host, port)) in enumerate(listening.items()):
        told = advertised[index].port if advertised else port
        if not told:
            continue
        vip = Address(host, told - VIP_DISTANCE)
        needs = f"remoting-vip listens two below the port {told} of {name}"
        if vip.port < 1:
            raise SettingError(f"{needs}, and there is no port {vip.port}: use port {VIP_DISTANCE + 1} or above")
        user = next((user for user, address in taken.items() if _collide(address, vip)), None)
        if user is not None:
            raise SettingError(f"{needs}, and port {vip.port} is that of {user}: use ports further apart")
        taken[f"remoting-vip ({name})"] = vip


def _collide(one: Address, other: Address) -> bool:
    hosts = {one.host, other.host}
    return one.port == other.port and (len(hosts) == 1 or not hosts.isdisjoint(WILDCARDS))
