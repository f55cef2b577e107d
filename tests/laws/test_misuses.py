"""Whatever is asked wrongly is an `Error` of a line or two that has the words a reader needs: see `misuses.py`."""

import pytest

from lengthwise import Error

from .misuses import MISUSES


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_one_line(name):
    call, words = MISUSES[name]
    with pytest.raises(Error, match=words) as caught:
        call()
    said = str(caught.value)
    assert len(said.splitlines()) <= 2
    assert len(said) < 1300
