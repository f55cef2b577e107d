from __future__ import annotations

import pytest

from lengthwise.verify import certification, families


@pytest.fixture
def family(monkeypatch):
    """Has every model proved by these methods alone, and taught so."""

    def of(*methods, teach=None):
        named = {method.__name__.removeprefix("prove_").replace("_", " "): method for method in methods}
        monkeypatch.setattr(certification, "family_of", lambda model: families.ProofFamily(None, named, teach))

    return of
