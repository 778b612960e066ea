"""What only clients of the remoting protocol see of a message: its flag, and bits of its system flag (rules 4.7).

Few messages have them, so they have no columns: they are stored among RocketMQ's own properties, under names that no
client can send, and all other protocols leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.messages.columns import slice_live_values
from rmqpull_proto.remoting.properties import NAME_END

FLAG = NAME_END + "FLAG"
"""The producer's own flag, of 32 bits."""
SYS_FLAG = NAME_END + "SYS_FLAG"
"""The bits of the system flag that cannot be derived from other fields, such as MULTI_TAGS."""


def hide_flags(flag: int, sys_flag: int) -> dict[str, str]:
    """Returns the hidden properties of a message. Zeros need none."""
    return {name: str(value) for name, value in ((FLAG, flag), (SYS_FLAG, sys_flag)) if value}


def drop_hidden(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the properties that all protocols see."""
    if FLAG not in properties and SYS_FLAG not in properties:
        return properties
    return {name: value for name, value in properties.items() if not name.startswith(NAME_END)}


def has_hidden(maps: pa.Array) -> bool:
    """Whether a row of RocketMQ's own properties has a hidden one."""
    return bool(pc.any(pc.starts_with(slice_live_values(maps, maps.keys), NAME_END)).as_py())


def drop_hidden_columns(maps: pa.Array) -> pa.Array:
    """Returns RocketMQ's own properties of each row without the hidden ones."""
    if not has_hidden(maps):
        return maps
    names, values = slice_live_values(maps, maps.keys), slice_live_values(maps, maps.items)
    is_kept = pc.invert(pc.starts_with(names, NAME_END))
    counts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(is_kept.cast(pa.int32()))])
    offsets = counts.take(pc.subtract(maps.offsets, maps.offsets[0]))
    return pa.MapArray.from_arrays(offsets, names.filter(is_kept), values.filter(is_kept))


def read_hidden(maps: pa.Array, name: str) -> pa.Array:
    """Returns a hidden number of each row (int64); 0 where it is missing."""
    return pc.fill_null(pc.map_lookup(maps, name, "first").cast(pa.int64()), 0)
