"""Models of this library in lm-eval, by the name "lengthwise".

    python -m lengthwise.evaluate.harness --model lengthwise --model_args pretrained=FOLDER --tasks …

is lm-eval's own command line. A version of lm-eval that looks for plugins knows the name in its own command too.
"""

from __future__ import annotations

from ...errors import Error

try:
    from lm_eval.api.registry import register_model  # pyright: ignore[reportMissingImports]
    from lm_eval.models.huggingface import HFLM  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise Error(
        f"lengthwise.evaluate.harness needs lm-eval, which cannot be imported here ({error}). "
        "Install it by: pip install 'lengthwise[harness]'"
    ) from error


@register_model("lengthwise")
class LengthwiseLM(HFLM):
    """A saved model, with all that `--model hf` can do. To import this is enough for its folder to load.

    `max_length`, where lm-eval cuts requests from the left, is the argument of that name. Without it, it is what the
    config or the tokenizer says, or else 2048: most models of this library have no longest length.
    """
