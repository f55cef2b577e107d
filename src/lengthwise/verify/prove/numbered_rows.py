"""Rows of small whole numbers, each known by the number under which it was first met.

>>> rows = NumberedRows(2, np.uint8)
>>> numbers, first = rows.add(np.array([[0, 1], [5, 5], [0, 1]]))
>>> numbers.tolist(), first.tolist(), rows.rows.tolist()
([0, 1, 0], [0, 1], [[0, 1], [5, 5]])
"""

from __future__ import annotations

import numpy as np


class NumberedRows:
    """Rows by number, each once."""

    def __init__(self, width: int, dtype: type):
        self.known: dict[bytes, int] = {}
        self.width, self.dtype = width, np.dtype(dtype)
        self._rows = np.zeros((64, width), self.dtype)

    def __len__(self) -> int:
        return len(self.known)

    @property
    def rows(self) -> np.ndarray:
        return self._rows[: len(self.known)]

    def add(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of each row, and which of `rows` are the first of their kind."""
        data = np.ascontiguousarray(rows, self.dtype).tobytes()
        size = self.width * self.dtype.itemsize
        keys = [data[i : i + size] for i in range(0, len(data), size)] if size else [b""] * len(rows)
        before, known = len(self.known), self.known
        numbers = np.fromiter((known.setdefault(key, len(known)) for key in keys), np.int64, len(keys))
        found, first = np.unique(numbers, return_index=True)
        first = first[found >= before]
        if len(known) > len(self._rows):
            more = np.zeros((2 * len(known), self.width), self.dtype)
            more[:before] = self._rows[:before]
            self._rows = more
        self._rows[before : len(known)] = rows[first]
        return numbers, first
