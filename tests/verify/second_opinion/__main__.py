"""python -m tests.verify.second_opinion CERTIFICATE MODEL [CONDITIONS]: a second opinion on a certificate."""

from __future__ import annotations

import sys
from pathlib import Path

from lengthwise.errors import Error, check_extra
from lengthwise.verify.checker import check, read_json

from .opinion import MOST, opinion_on

if __name__ == "__main__":
    try:
        check_extra("flint", "test", "A second opinion")
        file, model, *most = sys.argv[1:]
        certificate = read_json(Path(file).read_text(encoding="utf-8"), file)
        print(check(certificate, model))
        print(opinion_on(certificate, model, *map(int, most or [MOST])))
    except (Error, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
