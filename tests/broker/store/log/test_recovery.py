"""What a replay leaves as it was."""

import gc

import pytest

from rmqpull_broker.store.log.recovery import pause_cycle_search


@pytest.fixture(params=[True, False])
def enabled(request: pytest.FixtureRequest) -> bool:
    """Whether cycles were searched for before."""
    return bool(request.param)


def test_cycles_are_searched_for_again_as_they_were_before(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pause_cycle_search():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
