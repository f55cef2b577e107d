"""What the tests of the lab share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quick_pages(without_charts):
    """The charts of a page are tested where they are drawn."""
