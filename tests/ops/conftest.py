"""What tests of several operations use."""

import pytest
import torch


@pytest.fixture
def threads():
    """Sets torch's number of threads, until the test ends."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
