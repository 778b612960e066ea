"""CHECK_TRANSACTION_STATE: asks a producer of the remoting protocol how a half message ends (rules 3.15, 4.6)."""

from __future__ import annotations

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.message_properties import make_common_properties
from rmqpull_broker.core.messages.remoting_records import encode_records
from rmqpull_broker.core.sending.half_messages import TransactionCheck
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.peers import make_request
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.sending_headers import CheckTransactionStateRequestHeader


def make_check(state: BrokerState, check: TransactionCheck) -> RemotingCommand:
    """Makes the request. Its body is the message with its own topic, but with the offsets of the half message."""
    topic, broker_name, queue_id = check.queue
    find, half, stored = state.physical_offsets.find, check.half_queue, check.stored
    msg_id = stored.message.msg_id
    header = CheckTransactionStateRequestHeader(
        topic=half.topic,
        tran_state_table_offset=stored.queue_offset,
        commit_log_offset=find(half, stored.queue_offset),
        msg_id=msg_id,
        transaction_id=msg_id,
        bname=broker_name,
    )
    common = make_common_properties(state.properties)
    records = encode_records(columns.from_rows([stored]), topic, queue_id, find(half, 0), common)
    return make_request(RequestCode.CHECK_TRANSACTION_STATE, header, records.data, is_oneway=True)
