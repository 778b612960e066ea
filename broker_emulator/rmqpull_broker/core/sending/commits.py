"""Whether a commit of a query's batch is new, done already, or somebody else's.

A query numbers its batches, and repeats only its newest one: after a crash, when it does not know whether the commit
was kept. So a number that was committed before is one of two things. The same batch comes again, and nothing is to be
done. Or another batch has its number, because the query's own state was restored from a backup or copied, and answering
"done" would lose its rows. The records of both commits tell which:

    ======================  ==========================================================  ==================
    number                  records                                                     outcome
    ======================  ==========================================================  ==================
    above the newest        whatever they say                                           NEW
    the newest              one of them is missing                                      UNCOMPARED
    the newest              same destination and same plan                              DONE
    the newest              same destination, same number of rows, same digest          DONE
    the newest              anything else                                               refused
    below the newest        whatever they say                                           refused
    ======================  ==========================================================  ==================

The plan decides where it is known, since a batch that comes again may have other rows (``rand()``). Where it is not, or
where a batch was planned anew, equal rows for the same destination are the same batch.
"""

from __future__ import annotations

import enum

from rmqpull_broker.core.errors import BadRequest, InvalidTransactionId
from rmqpull_broker.core.state.facts import CommitRecord, TransactionId
from rmqpull_broker.core.state.stages import CommittedTransaction

DESTINATION_LENGTH_MAX = 1_024
DIGEST_BYTES_MAX = 64
"""Of a plan and of a digest."""


class Outcome(enum.Enum):
    """What a commit comes to. ``UNCOMPARED`` is taken for done, and the caller is told that nobody could know."""

    NEW = enum.auto()
    DONE = enum.auto()
    UNCOMPARED = enum.auto()


def judge(batch: TransactionId, record: CommitRecord | None, newest: CommittedTransaction | None) -> Outcome:
    """The table above for a query's batch; ``newest`` is what its query has committed last.

    Raises InvalidTransactionId, which says what was seen.
    """
    assert batch.number is not None, "a write that is no part of a query has no number"
    if newest is None or batch.number > newest.number:
        return Outcome.NEW
    refuse_older(batch, newest)
    known = newest.record
    if record is None or known is None:
        return Outcome.UNCOMPARED
    if record.destination == known.destination:
        if record.plan and record.plan == known.plan:
            return Outcome.DONE
        if (record.row_count, record.digest) == (known.row_count, known.digest):
            return Outcome.DONE
    raise InvalidTransactionId(
        f"batch {batch.number} of {batch.writer} was committed before with {_described(known)}, and comes now with "
        f"{_described(record)}; {_difference(record, known)}"
    )


def refuse_older(batch: TransactionId, newest: CommittedTransaction | None) -> None:
    """Raises InvalidTransactionId for a batch that is older than the newest that its query has committed."""
    if batch.number is not None and newest is not None and batch.number < newest.number:
        had = "" if newest.record is None else f", with {_described(newest.record)}"
        raise InvalidTransactionId(
            f"batch {batch.number} of {batch.writer} is older than batch {newest.number}, the newest that was "
            f"committed{had}"
        )


def check(record: CommitRecord) -> None:
    """Raises BadRequest for a record that cannot be: the broker keeps one of each query for ever."""
    if len(record.destination) > DESTINATION_LENGTH_MAX:
        raise BadRequest(
            f"the destination of the record has {len(record.destination)} characters, and must have at most "
            f"{DESTINATION_LENGTH_MAX}"
        )
    for name, value in (("plan", record.plan), ("digest", record.digest)):
        if len(value) > DIGEST_BYTES_MAX:
            raise BadRequest(
                f"the {name} of the record has {len(value)} bytes, and must have at most {DIGEST_BYTES_MAX}"
            )
    if record.row_count < 0:
        raise BadRequest(f"row_count {record.row_count} of the record is negative")


def _described(record: CommitRecord) -> str:
    return f"{record.row_count} {'row' if record.row_count == 1 else 'rows'} for {record.destination or 'no topic'}"


def _difference(record: CommitRecord, known: CommitRecord) -> str:
    """Why they are not the same batch, as far as the two descriptions do not say it."""
    if record.destination != known.destination:
        return "the topics differ"
    rows = "the number of rows differs" if record.row_count != known.row_count else "the rows differ"
    if not record.plan or not known.plan:
        return f"the plan of the batch is not known, and {rows}"
    return f"it was planned anew, and {rows}"
