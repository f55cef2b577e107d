from __future__ import annotations

import pytest

from lengthwise.verify import certification, families


@pytest.fixture
def family(monkeypatch):
    """Has every model proved by these methods alone, and taught so."""

    def of(*methods, teach=None):
        monkeypatch.setattr(certification, "family_of", lambda model: families.ProofFamily(None, methods, teach))

    return of
