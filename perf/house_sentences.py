"""Random sentences of a checkout, for a review of its language: `python perf/house_sentences.py [--seed N] [--count N] [ROOT …]`.

A third each from docstrings, from messages (texts of at least five words in code) and from the pages below docs/. The same seed draws the same
sentences from the same checkout.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

_WORDS = 5
_END = re.compile(r"(?<=[.;:!?])\s+(?=[A-Z`\"(])")


def docstrings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            yield text


def messages(tree: ast.AST) -> Iterator[str]:
    """Texts in code other than docstrings; inserted values show as …."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node}
    own = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in inner or id(node) in own:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def sentences(texts: Iterator[str]) -> list[str]:
    """Sentences of at least five words, without duplicates."""
    distinct = {" ".join(part.split()): None for text in texts for part in _END.split(text)}
    return [sentence for sentence in distinct if len(sentence.split()) >= _WORDS and re.search("[a-z]", sentence)]


def prose(page: str) -> Iterator[str]:
    """Paragraphs and list items of a page, without code and tables."""
    for block in re.sub(r"```.*?```", "", page, flags=re.DOTALL).split("\n\n"):
        if not block.lstrip().startswith(("|", "#", "    ")):
            yield from re.split(r"\n(?=- |\d+\. )", block)


def draw(root: Path, count: int, seed: int) -> list[tuple[str, str]]:
    """(source, sentence), a third of `count` from each source."""
    trees = [ast.parse(path.read_text()) for path in sorted((root / "include" / "plumbline").rglob("*.py"))]
    pages = [path.read_text() for path in sorted((root / "docs").rglob("*.md"))]
    sources = {
        "docstring": sentences(text for tree in trees for text in docstrings(tree)),
        "message": sentences(text for tree in trees for text in messages(tree)),
        "page": sentences(text for page in pages for text in prose(page)),
    }
    chance, names = random.Random(seed), list(sources)
    sizes = {name: count // len(names) + (i < count % len(names)) for i, name in enumerate(names)}
    return [(name, sentence) for name, size in sizes.items() for sentence in chance.sample(sources[name], size)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("roots", nargs="*", type=Path, default=[Path(__file__).resolve().parents[1]])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    options = parser.parse_args()
    for root in options.roots:
        print(f"# {root.resolve().name}")
        for source, sentence in draw(root, options.count, options.seed):
            print(f"{source:10} {sentence}")


if __name__ == "__main__":
    main()
