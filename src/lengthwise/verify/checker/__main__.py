"""python -m lengthwise.verify.checker FILE MODEL: check a certificate, where nothing but numpy is installed."""

from __future__ import annotations

import sys
from pathlib import Path

from ...errors import Error
from . import check
from .fields import read_json
from .weights import read_bytes


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0].startswith("-"):
        print("usage: python -m lengthwise.verify.checker CERTIFICATE MODEL", file=sys.stderr)
        return 2
    file, model = map(Path, arguments)
    try:
        certificate = read_json(read_bytes(file).decode(errors="replace"), str(file))
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        print(check(certificate, model))
    except Error as error:
        print(f"{'rejected' if error.exit_code == 1 else 'error'}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
