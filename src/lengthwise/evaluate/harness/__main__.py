"""lm-eval's command line, where the model "lengthwise" is known."""

from __future__ import annotations

from lm_eval.__main__ import cli_evaluate  # pyright: ignore[reportMissingImports]

if __name__ == "__main__":
    cli_evaluate()
