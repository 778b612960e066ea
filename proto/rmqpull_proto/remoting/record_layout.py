"""The layout of a stored message in responses to pulls (rules 4.7).

Apache's brokers also keep it in their commit logs. The log of rmqpull-broker has another form: ``store/log/record.py``.

All numbers are big-endian. Positions are those of a record with IPv4 hosts::

    at   bytes
     0      4   size of the record
     4      4   magic code
     8      4   CRC-32 of the body, without its highest bit
    12      4   queue id
    16      4   flag, which producers set
    20      8   queue offset
    28      8   physical offset
    36      4   system flag
    40      8   born timestamp in ms
    48      8   born host: the address and 4 bytes for the port
    56      8   store timestamp in ms
    64      8   store host, in the same form
    72      4   reconsume times
    76      8   offset of the half message that a commit or a rollback ends
    84      4   length of the body
    88          body
            1   length of the topic: 2 bytes with LONG_TOPIC_MAGIC
                topic
            2   length of the properties
                properties, as one text

An IPv6 host has 20 bytes, and what follows it begins 12 bytes later. A bit of the system flag marks it.
"""

from __future__ import annotations

from struct import Struct

MAGIC = 0xDAA320A7
LONG_TOPIC_MAGIC = 0xDAA320AB
"""The magic code of records whose topic has more than SHORT_TOPIC_BYTES: the length of the topic has two bytes."""
SHORT_TOPIC_BYTES = 127
PROPERTIES_BYTES_MAX = 0x7FFF

SIZE_AT = 0
MAGIC_AT = 4
BODY_CRC_AT = 8
QUEUE_ID_AT = 12
FLAG_AT = 16
QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_TIMESTAMP_AT = 40
BORN_HOST_AT = 48
STORE_TIMESTAMP_AT = 56
STORE_HOST_AT = 64
RECONSUME_TIMES_AT = 72
BODY_LENGTH_AT = 84
HEAD_BYTES = 88
"""The bytes before the body, with IPv4 hosts."""
RECORD_BYTES_MIN = 91
"""The bytes of a record without body, topic and properties, with IPv4 hosts."""
IPV4_HOST_BYTES = 8
IPV6_HOST_BYTES = 20
IPV6_MORE_BYTES = IPV6_HOST_BYTES - IPV4_HOST_BYTES

# The numbers between the parts without a fixed length, for records that are packed one by one.
HEAD = Struct(">IIIiIqqIq")
"""From the size of the record to the born timestamp."""
STORE_TIMESTAMP = Struct(">q")
TAIL = Struct(">iqi")
"""From the reconsume times to the length of the body."""
PROPERTIES_LENGTH = Struct(">H")

# Bits of the system flag.
COMPRESSED = 0x1
BORN_HOST_IPV6 = 0x10
STORE_HOST_IPV6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_TYPE = 0x700
