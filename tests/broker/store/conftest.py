"""Properties of the storage are tested with messages of any kind."""

from __future__ import annotations

from tests.harness.storage import register_messages

register_messages()
