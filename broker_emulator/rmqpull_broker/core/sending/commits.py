"""Decides whether a commit of a query is new, done already, or that of another query.

A query numbers its transactions, and repeats only the newest one: after a crash it does not know whether the commit was
kept. So a number that was committed before has one of two causes. Either the same transaction is repeated, and there
is nothing to do. Or another transaction has the number, because the query's state was restored from a backup or copied;
then the answer "done" would lose its rows. The records of both commits decide:

    ======================  ==========================================================  ==================
    number                  records                                                     outcome
    ======================  ==========================================================  ==================
    above the newest        any                                                         NEW
    the newest              one of them is missing                                      UNCOMPARED
    the newest              same destination and same plan                              DONE
    the newest              same destination, same number of rows, same digest          DONE
    the newest              anything else                                               refused
    below the newest        any                                                         refused
    ======================  ==========================================================  ==================

The plan decides if it is known, because a repeated transaction may have other rows (``rand()``). If it is not known, or
if the transaction was planned again, equal rows for the same destination are the same transaction.

Numbers without a commit between the newest one and a new one are a gap: their rows are missing here, because the
broker's data is older than the query's state, or because another broker has them.
"""

from __future__ import annotations

import enum

from rmqpull_broker.core.errors import BadRequest, InvalidTransactionId, PreconditionFailed
from rmqpull_broker.core.state.stage_facts import CommitRecord, TransactionId
from rmqpull_broker.core.state.stages import CommittedTransaction

DESTINATION_LENGTH_MAX = 1_024
DIGEST_BYTES_MAX = 64
"""The maximum size of a plan, and of a digest."""


class Outcome(enum.Enum):
    """The result of a commit. ``UNCOMPARED`` counts as done, and the caller learns that it could not be compared.

    ``GAP``: nothing was committed, because numbers are missing and the caller refuses that.
    """

    NEW = enum.auto()
    DONE = enum.auto()
    UNCOMPARED = enum.auto()
    GAP = enum.auto()


def judge(transaction: TransactionId, record: CommitRecord | None, newest: CommittedTransaction | None) -> Outcome:
    """Applies the table above. ``newest`` is the newest transaction that the query has committed.

    Raises InvalidTransactionId with both descriptions.
    """
    assert transaction.number is not None, "a write without a query has no number"
    if newest is None or transaction.number > newest.number:
        return Outcome.NEW
    refuse_older(transaction, newest)
    known = newest.record
    if record is None or known is None:
        return Outcome.UNCOMPARED
    if record.destination == known.destination:
        if record.plan and record.plan == known.plan:
            return Outcome.DONE
        if (record.row_count, record.digest) == (known.row_count, known.digest):
            return Outcome.DONE
    raise InvalidTransactionId(
        f"batch {transaction.number} of {transaction.writer} was committed with {_describe(known)}, and now has "
        f"{_describe(record)}; {_explain_difference(record, known)}"
    )


def refuse_older(transaction: TransactionId, newest: CommittedTransaction | None) -> None:
    """Raises InvalidTransactionId for a transaction that is older than the newest that its query has committed."""
    if transaction.number is not None and newest is not None and transaction.number < newest.number:
        had = "" if newest.record is None else f", with {_describe(newest.record)}"
        raise InvalidTransactionId(
            f"batch {transaction.number} of {transaction.writer} is older than batch {newest.number}, the newest one "
            f"that was committed{had}"
        )


def count_missing(transaction: TransactionId, newest: CommittedTransaction | None) -> int:
    """Returns how many numbers are missing between the newest transaction of a query and this one.

    A query begins with number 0.
    """
    if transaction.number is None:
        return 0
    return max(transaction.number - (0 if newest is None else newest.number + 1), 0)


def check_record(record: CommitRecord) -> None:
    """Raises BadRequest for a record that is too large: the broker keeps one for each query for ever."""
    if len(record.destination) > DESTINATION_LENGTH_MAX:
        raise BadRequest(
            f"the destination of the record has {len(record.destination)} characters, more than the max of "
            f"{DESTINATION_LENGTH_MAX}"
        )
    for name, value in (("plan", record.plan), ("digest", record.digest)):
        if len(value) > DIGEST_BYTES_MAX:
            raise BadRequest(
                f"the {name} of the record has {len(value)} bytes, more than the max of {DIGEST_BYTES_MAX}"
            )
    if record.row_count < 0:
        raise BadRequest(f"row_count {record.row_count} of the record is negative")


def check_rows(
    transaction: TransactionId, staged_count: int, record: CommitRecord | None, row_count: int | None
) -> None:
    """Raises PreconditionFailed when the stages of a new commit lack rows: it would count as done without them.

    ``row_count`` is what the stages must have. A writer that does not say it has only its record, which also counts
    rows that no stage has, because they were skipped. Then stages without any row are refused.
    """
    if row_count is not None:
        is_whole, wanted = staged_count == row_count, f"its writers staged {_count_rows(row_count)}"
    elif record is not None:
        is_whole = staged_count > 0 or record.row_count == 0
        wanted = f"its record counts {_count_rows(record.row_count)}"
    else:
        return
    if not is_whole:
        raise PreconditionFailed(
            f"the stages that the commit of {_name(transaction)} names have {_count_rows(staged_count)}, but {wanted}: "
            "rows would be lost. Nothing was committed; stage all rows again, and name all of their stages"
        )


def _name(transaction: TransactionId) -> str:
    return transaction.writer if transaction.number is None else f"batch {transaction.number} of {transaction.writer}"


def _count_rows(count: int) -> str:
    return f"{count} {'row' if count == 1 else 'rows'}"


def _describe(record: CommitRecord) -> str:
    return f"{_count_rows(record.row_count)} for {record.destination or 'no topic'}"


def _explain_difference(record: CommitRecord, known: CommitRecord) -> str:
    """Returns why two transactions differ, besides their descriptions."""
    if record.destination != known.destination:
        return "the topics differ"
    rows = "the number of rows differs" if record.row_count != known.row_count else "the rows differ"
    if not record.plan or not known.plan:
        return f"the plan of the batch is not known, and {rows}"
    return f"it was planned again, and {rows}"
