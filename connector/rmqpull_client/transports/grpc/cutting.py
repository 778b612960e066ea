"""Ranges cut by bytes, as the columnar extension does it in one call or few."""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_client.cutting import Part, RangeToCut
from rmqpull_client.errors import OptionError
from rmqpull_client.transports.grpc.channel import BrokerChannel, Unserved
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS


def cut_ranges(channel: BrokerChannel, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
    """The parts of each range; an answer that is full is followed by another call. Raises OptionError."""
    found: list[list[Part]] = [[] for _ in wanted]
    unfinished = list(range(len(wanted)))
    while True:
        request = v1.CutRangesRequest(ranges=[_rest(wanted[index], found[index]) for index in unfinished])
        try:
            answer = channel.call(COLUMNS.methods["CutRanges"], request)
        except Unserved:
            raise without_sizes(channel.endpoints) from None
        for index, cut in zip(unfinished, answer.ranges, strict=True):
            found[index] += [Part(part.until_offset, part.byte_count) for part in cut.parts]
        has_progress = any(cut.parts for cut in answer.ranges)
        unfinished = [index for index, cut in zip(unfinished, answer.ranges, strict=True) if cut.has_more]
        if not unfinished or not has_progress:
            return found


def _rest(wanted: RangeToCut, found: Sequence[Part]) -> v1.RangeToCut:
    """What is still to be asked of a range."""
    queue = v1.Queue(topic=wanted.queue.topic, broker_name=wanted.queue.broker_name, queue_id=wanted.queue.queue_id)
    return v1.RangeToCut(
        queue=queue,
        from_offset=found[-1].until_offset if found else wanted.from_offset,
        until_offset=wanted.until_offset,
        byte_max=wanted.byte_max,
        parts_max=wanted.parts_max - len(found) if wanted.parts_max else 0,
    )


def without_sizes(endpoints: str) -> OptionError:
    """What is said of a server that cannot tell how large messages are."""
    return OptionError(
        "Options maxBytesPerTrigger and maxBytesPerPartition need the sizes of messages, which the server at "
        f"{endpoints} does not tell: it lacks CutRanges of rmqpull.v1 (extension columns). "
        "Limit messages instead, with maxOffsetsPerTrigger and maxRecordsPerPartition."
    )
