"""Options of a query's progress: the consumer group that follows it, where its offsets are, and what a loss does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from pyspark_rmqpull.options.declaration import Mode, Option, boolean, one_of, resource_name
from rmqpull_client.errors import OptionError
from rmqpull_client.offsets.stores import BROADCASTING, CLUSTERING, LOCAL_OFFSET_STORE_DIR

_CLIENT_ID = re.compile(r"(?!\.{1,2}$)[%|a-zA-Z0-9_@.:#-]{1,255}")


def _client_id(text: str) -> str:
    if not _CLIENT_ID.fullmatch(text):
        raise ValueError("Expected 1 to 255 of the characters a-z A-Z 0-9 _ - % | @ . : #, for it names a folder, too.")
    return text


def _directory(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("Expected the path of a directory.")
    return text


PROGRESS_OPTIONS = (
    Option(
        "consumerGroup",
        None,
        "name",
        "Group whose offsets follow the query, micro-batch by micro-batch; without one nothing is committed.",
        resource_name(120),
    ),
    Option(
        "commitOffsets",
        "true",
        "true, false",
        "Whether the group's offsets are set. With `false` the group is only the name in which is pulled, and where "
        "`startingOffsets=group` finds its begin.",
        boolean,
        only=Mode.STREAM,
    ),
    Option(
        "messageModel",
        CLUSTERING,
        "name",
        f"Where the group's offsets are: `{CLUSTERING}`, on the broker; or `{BROADCASTING}`, in a file of the driver's "
        "machine, as RocketMQ's broadcasting consumers keep them.",
        one_of(CLUSTERING, BROADCASTING),
    ),
    Option(
        "clientId",
        None,
        "name",
        f"Who this query is. `{BROADCASTING}` finds the offsets of an earlier run by it, so it must stay the same, and "
        "no other query of the group may have it; unset, `<driver's host name>@DEFAULT`. Servers see it at the begin "
        "of their client ids.",
        _client_id,
    ),
    Option(
        "localOffsetStoreDir",
        LOCAL_OFFSET_STORE_DIR,
        "path",
        f"For `{BROADCASTING}`: the directory that holds `<clientId>/<group>/offsets.json`, as RocketMQ's property "
        "`rocketmq.client.localOffsetStoreDir` does.",
        _directory,
    ),
    Option(
        "failOnDataLoss",
        "true",
        "true, false",
        "Whether a query ends whose messages are gone. With `false` it goes on from the earliest that is left, never "
        "gives a row twice, and reports what is missing.",
        boolean,
    ),
)


class _Progress(Protocol):
    @property
    def consumer_group(self) -> str | None: ...
    @property
    def commit_offsets(self) -> bool: ...
    @property
    def message_model(self) -> str: ...


def refuse_stray_progress(given: Mapping[str, str], checked: _Progress) -> None:
    """Raises OptionError for an option that lacks what it is about. ``given`` has names in lower case."""
    is_broadcasting = checked.message_model == BROADCASTING
    if checked.consumer_group is None and is_broadcasting:
        raise OptionError(
            f"Option messageModel is {BROADCASTING}, and no group is named whose offsets could be kept in a file. "
            "Name it with option consumerGroup."
        )
    if checked.consumer_group is None and checked.commit_offsets and "commitoffsets" in given:
        raise OptionError(
            "Option commitOffsets is true, and no group is named whose offsets could be set. "
            "Name it with option consumerGroup, or remove commitOffsets."
        )
    if "localoffsetstoredir" in given and not is_broadcasting:
        raise OptionError(
            f"Option localOffsetStoreDir is for messageModel {BROADCASTING}; in {CLUSTERING} the broker keeps the "
            f"offsets. Set messageModel to {BROADCASTING}, or remove localOffsetStoreDir."
        )
