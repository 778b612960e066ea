"""What the libraries of Apache's gRPC clients cannot do, which the scenarios of the tests leave out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Language = Literal["python", "java", "node", "rust"]
LIBRARIES: Mapping[Language, str] = {
    "python": "rocketmq-python-client 5.1.2",
    "java": "rocketmq-client-java 5.2.0",
    "node": "rocketmq-client-nodejs 1.0.8",
    "rust": "rocketmq 5.0.0",
}
LACKS: Mapping[tuple[Language, str], str] = {
    ("python", "reconnect"): (
        "its push consumer reads no Telemetry after the first settings (it fails to create a gauge without metrics), "
        "and sends its settings to a restarted proxy only five to ten minutes later"
    ),
    ("node", "fifo retry"): "it has no customized back-off, and gives up on a failed FIFO message",
    ("rust", "reconnect"): "it sends its settings to a proxy only once, and a restarted proxy refuses its receives",
    ("rust", "push"): "it has no push consumer",
    ("rust", "change"): "it cannot change invisible times",
    ("rust", "recall"): "it cannot recall messages",
}
"""The reason by the language and what it cannot do: a call, a field of a call, or a habit. A test says `uses(what)`.

`reconnect`: a consumer continues when the proxy was restarted. `fifo retry`: a FIFO push consumer consumes a failed
message again.
"""
