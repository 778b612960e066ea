"""The end of transactions: END_TRANSACTION (rules 3.15, 4.6)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.errors import WrongTransaction
from rmqpull_broker.core.sending import half_messages as transactions
from rmqpull_broker.core.sending.half_messages import Resolution, TransactionEnd, find_half_message_id
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.sending_headers import EndTransactionRequestHeader

_RESOLUTIONS = {0: Resolution.UNKNOWN, 8: Resolution.COMMIT, 12: Resolution.ROLLBACK}
"""By the transaction bits of the system flag."""
NO_RESPONSE_CODE = "not set any response code"


async def end_transaction(service: RemotingService, call: RemotingCall) -> RemotingCommand | None:
    """END_TRANSACTION. The end of an unknown outcome gets no response, as from Apache's broker."""
    header = call.read_header(EndTransactionRequestHeader)
    resolution = _RESOLUTIONS.get(header.commit_or_rollback)
    if resolution is None:
        raise WireError(f"commitOrRollback is {header.commit_or_rollback}, expected 0, 8 or 12")
    if resolution is Resolution.UNKNOWN:
        return None
    located = service.state.physical_offsets.locate(call.site.broker_name, header.commit_log_offset)
    msg_id = None if located is None else find_half_message_id(service.state, *located)
    if located is None or msg_id is None:
        raise WrongTransaction("Find prepared transaction message failed")
    # A check stores the message again. So the producer may name an older place, but it must be consistent.
    is_consistent = header.tran_state_table_offset == located[1]
    end = TransactionEnd(
        msg_id,
        header.producer_group,
        resolution,
        header.from_transaction_check,
        None if is_consistent else header.tran_state_table_offset,
    )
    now_ms, store_host = service.clock_ms(), service.sender.store_host
    await service.group_commit.execute(lambda draft: transactions.end_transaction(draft, end, now_ms, store_host))
    # Apache's initial remark stays in the response if the message is rolled back.
    remark = NO_RESPONSE_CODE if resolution is Resolution.ROLLBACK else None
    return call.respond(remark=remark)


HANDLERS: Mapping[int, Handler] = {RequestCode.END_TRANSACTION: end_transaction}
