"""Source code as a tree, parsed once a process: a dozen tests of the house read every file of the package."""

from __future__ import annotations

import ast
from functools import cache


@cache
def source_tree(text: str) -> ast.Module:
    """Shared: whoever asks must not change it."""
    return ast.parse(text)
