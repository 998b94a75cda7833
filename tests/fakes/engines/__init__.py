"""Stand-ins for inference engines, which the model files import in the server: a deterministic answer behind each engine's own interface.

Token i of an answer is (sum of the prompt + i) modulo 50; an adapter adds 100 times its number. A prompt that begins with 13 breaks the engine,
one with 14 is refused. With end of text allowed, token 7 ends an answer."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fakes.quick_python import search_path

_REPOSITORY = Path(__file__).resolve().parents[3]


def python_with_fakes(folder: Path) -> str:
    """A program for PLUMBLINE_ENGINE_PYTHON: this interpreter, which finds the stand-ins first."""
    program = folder / "engine-python"
    path = search_path(_REPOSITORY / "tests" / "fakes" / "engines", _REPOSITORY / "include")
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return str(program)
