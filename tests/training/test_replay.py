"""What a capture needs around it; captured steps themselves are in test_member.py."""

import gc

import pytest

from dgn.training.replay import without_collection


def test_no_garbage_is_collected_meanwhile():
    with without_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collection_goes_on_after_a_failure_and_stays_off_where_it_was():
    with pytest.raises(ValueError, match="spoilt"), without_collection():
        raise ValueError("spoilt")
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
