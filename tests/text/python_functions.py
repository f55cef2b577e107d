"""Where functions of Python code end, told by its syntax.

    def f():
        a = 1        the same tokens so far;
        b = 2        with this line the function goes on, without it the newline before has ended it

So no rule over tokens that were read can say it where it happens, and no causal model can count functions by their
ends: it knows an end only from the line behind it. What tokens can say is `segment_ends(tokenizer, by="function")`: two
blank lines. This file gives the truth that such a rule is measured by.
"""

import ast
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def function_ends(code: str, *, top_level: bool = False) -> list[int]:
    """Places in the text just behind the last line of each function; `top_level`: of functions and classes there alone.

    >>> code = "def f():\\n    return 1\\n\\n\\nx = 2\\n"
    >>> [code[:place] for place in function_ends(code)]
    ['def f():\\n    return 1\\n']
    """
    tree = ast.parse(code)
    if top_level:
        nodes = [node for node in tree.body if isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    else:
        nodes = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    places = [0]
    # As ast counts lines: a form feed or another separator of lines ends none.
    for line in code.split("\n"):
        places.append(places[-1] + len(line) + 1)
    return sorted({min(places[node.end_lineno or 0], len(code)) for node in nodes})


def function_end_mask(tokenizer: Any, code: str, *, top_level: bool = False) -> tuple[list[int], list[bool]]:
    """The tokens of the code, and of each whether a function ends in it."""
    read = tokenizer(code, add_special_tokens=False, return_offsets_mapping=True)
    places = function_ends(code, top_level=top_level)
    mask, next_place = [], 0
    for _, end in read["offset_mapping"]:
        ended = next_place < len(places) and end >= places[next_place]
        mask.append(ended)
        while next_place < len(places) and end >= places[next_place]:
            next_place += 1
    return read["input_ids"], mask
