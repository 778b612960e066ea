"""What a name server knows besides its brokers: its own table of values, and brokers that may not be written to.

All of it is in memory only. Apache's name server keeps its table in a file; here each start begins with an empty one,
which suits tests and demonstrations.
"""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.errors import BadRequest, TooManyRequests

VALUES_MAX = 10_000
"""Values of all namespaces."""
ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""The namespace with the brokers and queues of ordered topics."""
_ORDER_MESSAGE_ENABLE = "orderMessageEnable"


class NameServer:
    """Belongs to the event loop."""

    def __init__(self) -> None:
        self.write_protected: set[str] = set()
        """The names of brokers that WIPE_WRITE_PERM_OF_BROKER has named."""
        self._values: dict[str, dict[str, str]] = {}
        self._tells_order = False

    # --- values -------------------------------------------------------------------------------------------------------

    def put(self, namespace: str, key: str, value: str) -> None:
        """Sets a value. Raises TooManyRequests."""
        values = self._values.get(namespace, {})
        if key not in values and sum(map(len, self._values.values())) >= VALUES_MAX:
            raise TooManyRequests(f"the name server has {VALUES_MAX} values already, the max; delete some first")
        self._values[namespace] = {**values, key: value}

    def find(self, namespace: str, key: str) -> str | None:
        """Returns a value, or None."""
        return self._values.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Removes a value. Ignores an unknown one. The namespace stays."""
        self._values.get(namespace, {}).pop(key, None)

    def list_values(self, namespace: str) -> Mapping[str, str] | None:
        """Returns all values of a namespace; None for an unknown one."""
        return self._values.get(namespace)

    def find_order(self, topic: str) -> str | None:
        """Returns the brokers and queues of an ordered topic if routes include them (``orderMessageEnable``)."""
        return self.find(ORDER_TOPIC_CONFIG, topic) if self._tells_order else None

    # --- properties ---------------------------------------------------------------------------------------------------

    def list_properties(self) -> dict[str, str]:
        """Returns the properties of a name server that have an effect here."""
        return {_ORDER_MESSAGE_ENABLE: str(self._tells_order).lower()}

    def change_properties(self, changes: Mapping[str, str]) -> None:
        """Changes properties. Raises BadRequest for one that this name server does not have, and for a bad value."""
        for name, value in changes.items():
            if name != _ORDER_MESSAGE_ENABLE:
                raise BadRequest(f"this name server has no property {name}")
            if value not in ("true", "false"):
                raise BadRequest(f"property {name} is {value!r}: use true or false")
        if changes:
            self._tells_order = changes[_ORDER_MESSAGE_ENABLE] == "true"
