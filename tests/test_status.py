"""How fits end."""

import pytest

from unbin._watching import Status


@pytest.mark.parametrize("status", Status)
def test_every_status_is_a_sentence_that_says_whether_it_converged(status):
    assert len(status.value.split()) > 2
    assert status.converged <= ("converged" in status.value)
    assert not (status.converged and status.value.startswith("not "))
    assert status.identified == (not status.value.startswith("not estimable: "))


def test_what_stopped_early_has_not_converged():
    early = {Status.NOT_CONVERGED, Status.POOLED, Status.INTERRUPTED, Status.MAX_ITER}
    assert not any(status.converged for status in early)
