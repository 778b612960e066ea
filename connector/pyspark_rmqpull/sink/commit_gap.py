"""Option ``onCommitGap``: the broker lacks the micro-batches before the one that a query commits.

A query numbers its micro-batches from 0, and the broker remembers the newest one that it has committed. A jump means
that rows are missing there: the broker's data is older than the checkpoint, or it is another broker.
"""

from __future__ import annotations

import logging

from pyspark_rmqpull.errors import CommitGap
from pyspark_rmqpull.options.sending import FAIL, WARN
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import find_folder
from rmqpull_client.errors import OptionError
from rmqpull_client.transports.port import CommitResponse, TransactionId

_logger = logging.getLogger(__name__)


def refuse_blind_query(options: SinkOptions) -> None:
    """Raises OptionError for ``fail`` where the driver cannot read the checkpoint.

    It then cannot commit a micro-batch without tasks, which would count as a gap.
    """
    if options.on_commit_gap == FAIL and find_folder(options.checkpoint_location) is None:
        raise OptionError(
            f"Option onCommitGap is {FAIL}, which needs a checkpoint that Python on the driver can open, and "
            f"checkpointLocation is {options.checkpoint_location or 'no option of this write'}. Set the option "
            f"checkpointLocation of the write to a folder, or set onCommitGap to {WARN}."
        )


def judge_gap(transaction: TransactionId, response: CommitResponse) -> None:
    """Warns of missing micro-batches. Raises CommitGap if the broker has refused to commit because of them."""
    if response.missing_count <= 0:
        return
    assert transaction.batch_id is not None, "only micro-batches have numbers"
    first, last = transaction.batch_id - response.missing_count, transaction.batch_id - 1
    which = f"micro-batch {last}" if first == last else f"micro-batches {first} to {last}"
    text = (
        f"The broker has never committed {which} of {transaction.writer_id}, but was asked to commit micro-batch "
        f"{transaction.batch_id}. If exactly-once writes have written them, their rows are missing on this broker: the "
        "broker's data is older than the checkpoint (restored from a backup, or lost), or this is another broker. "
        "Nothing is missing if they were written at least once, or under another producerGroup, or if they had no rows "
        "and the driver cannot read the checkpoint."
    )
    if not response.is_refused:
        _logger.warning("%s Because onCommitGap is %s, the micro-batch is committed.", text, WARN)
        return
    raise CommitGap(
        f"{text} Nothing of this micro-batch was written.\n"
        "To write the missing rows again: start the query with a new checkpoint, and set startingOffsets to the "
        f"offsets in offsets/{first - 1} of this checkpoint, or to where the query began if the first missing one is "
        f"0. To continue without them: set onCommitGap to {WARN} until one micro-batch is committed."
    )
