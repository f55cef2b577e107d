"""What a room shows: its public names and no others, each of which is there."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import lengthwise

ROOMS = [name for name in lengthwise.__all__ if name not in ("Error", "__version__")]
LAZY = [room for room in ROOMS if room not in ("ops", "positions", "mixers", "models", "recipes")]
"""Those whose names load when they are used. The models tell transformers of themselves when they are imported."""


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_shows_its_public_names(room):
    module = importlib.import_module(f"lengthwise.{room}")
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = module.nothing_of_this_name


@pytest.mark.parametrize("room", ROOMS)
def test_no_public_name_hides_a_file(room):
    """The name would be the file as soon as somebody imports that."""
    module = importlib.import_module(f"lengthwise.{room}")
    files = {path.stem for path in Path(str(module.__file__)).parent.glob("*.py")}
    hidden = [name for name in set(module.__all__) & files if getattr(module, name).__class__ is not type(module)]
    assert hidden == []


def test_importing_rooms_imports_neither_torch_nor_transformers():
    code = f"import sys; from lengthwise import {', '.join(LAZY)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
