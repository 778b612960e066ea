"""The table of all attacks."""

from __future__ import annotations

from bench.hostile.attacks.asking import ASKING
from bench.hostile.attacks.calls import CALLS
from bench.hostile.attacks.connecting import CONNECTING
from bench.hostile.attacks.filters import FILTERS
from bench.hostile.attacks.framing import FRAMING
from bench.hostile.attacks.growing import GROWING
from bench.hostile.attacks.http2_frames import HTTP2_FRAMES
from bench.hostile.attacks.sending import SENDING
from bench.hostile.attacks.waiting import WAITING

_ALL = (*FRAMING, *CONNECTING, *ASKING, *GROWING, *WAITING, *FILTERS, *SENDING, *CALLS, *HTTP2_FRAMES)
ATTACKS = {attack.name: attack for attack in _ALL}
