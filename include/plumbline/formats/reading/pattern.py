"""Regular expressions that a declaration gives: in the language of Python's re, and with a limit on the time that a text may take.

Python's re has none, and a pattern such as (a+)+b takes years for a line of forty characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from time import thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT_S = 1.0
"""Seconds that one text may take: a hundred times what a slow pattern takes for a line of a log."""
_TRIED_LENGTH = 400
"""Characters of a text that is tried: too few for what grows with their cube, as honest patterns may."""
_TRIED_S = 3.0
"""After so long, of this thread's own time, no further text is tried."""
_TRIES, _VARIANTS = 48, 4
_CANDIDATES = "1a -.\x01Z"
_NEVER = "\x00"
_REPETITION = re.compile(r"\{\d*,?\d*\}")


class SlowPattern(ValueError):
    """A text took longer than LIMIT_S; nothing is known of whether it matches."""


class Pattern:
    """A compiled pattern. Raises `re.error` for one that Python's re refuses; SlowPattern when a text takes too long."""

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        import regex  # where a pattern is used, and not where DAG files are parsed

        self.text, flags = text, re.IGNORECASE if ignore_case else 0
        self.groups: Mapping[str, int] = re.compile(text, flags).groupindex
        self._compiled = regex.compile(_without_extensions(text), regex.V0 | (regex.IGNORECASE if ignore_case else 0))

    def search(self, text: str) -> Any:
        """The first match, as `re.search` gives it; None without one."""
        try:
            return self._compiled.search(text, timeout=LIMIT_S)
        except TimeoutError:
            raise SlowPattern(_sentence(self.text, text)) from None

    def finditer(self, text: str) -> Iterator[Any]:
        """Every match, as `re.finditer` gives them."""
        try:
            yield from self._compiled.finditer(text, timeout=LIMIT_S)
        except TimeoutError:
            raise SlowPattern(_sentence(self.text, text)) from None


def _sentence(pattern: str, text: str) -> str:
    shown = pattern if len(pattern) <= 80 else f"{pattern[:80]}…"
    expected = "expected a pattern without a repetition inside a repetition, such as [0-9.]+ in place of ([0-9]+.?)+"
    return f"the regular expression {shown} takes more than {LIMIT_S:g} s for a text of {len(text):,} characters; {expected}"


@lru_cache(maxsize=256)
def compiled(text: str, *, ignore_case: bool = False) -> Pattern:
    """The pattern, compiled once."""
    return Pattern(text, ignore_case=ignore_case)


@lru_cache(maxsize=1024)
def checked(text: str) -> str:
    """The pattern, after it was tried on texts that repeat what it repeats. ValueError if it does not compile, SlowPattern if one takes too long."""
    try:
        pattern = compiled(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression ({error}); expected one of Python's re") from None
    ends = thread_time() + _TRIED_S
    for tried in _texts(text):
        pattern.search(tried)
        if thread_time() > ends:
            break
    return text


def _without_extensions(text: str) -> str:
    """The pattern with a backslash before what Python's re takes as it is and the library with time limits does not: braces that repeat nothing, and
    brackets within a set."""
    out, at, within = [], 0, False
    while at < len(text):
        char = text[at]
        if char == "\\":
            out.append(text[at : at + 2])
            at += 2
            continue
        if within:
            within = char != "]"
            out.append(f"\\{char}" if char in "[{&~|" or (char == "-" and text[at - 1] == "-") else char)
        elif char == "[":
            within = True
            head = text[at + 1 : at + 3]
            skip = 2 if head.startswith("^") else 1
            first = text[at + skip : at + skip + 1]
            out.append(text[at : at + skip] + ("\\]" if first == "]" else ""))
            at += skip + (first == "]")
            continue
        elif char == "{" and _REPETITION.match(text, at) is None:
            out.append("\\{")
        else:
            out.append(char)
        at += 1
    return "".join(out)


def _texts(pattern: str) -> list[str]:
    """Texts that begin as the pattern does and then repeat what one of its repetitions takes, and end with what it cannot match."""
    parser: Any = getattr(re, "_parser", None) or import_module("sre_parse")
    found: dict[str, None] = {}
    for variant in range(_VARIANTS):
        walk = _Walk(variant)
        walk.sample(parser.parse(pattern), "")
        for prefix, unit in walk.repeated:
            if unit:
                found[prefix + unit * max(1, (_TRIED_LENGTH - len(prefix)) // len(unit)) + _NEVER] = None
    return list(found)[:_TRIES]


class _Walk:
    """Goes over a parsed pattern. `repeated`: what comes before a repetition, and what it repeats."""

    def __init__(self, variant: int) -> None:
        self._variant = variant
        self.repeated: list[tuple[str, str]] = []

    def sample(self, items: Any, before: str) -> str:
        """A text that the items match, as far as it can be said without a search."""
        text = ""
        for op, argument in items:
            text += self._of(str(op), argument, before + text)
        return text

    def _of(self, op: str, argument: Any, before: str) -> str:
        if op == "LITERAL":
            return chr(argument)
        if op in ("NOT_LITERAL", "ANY", "IN"):
            return self._character(op, argument)
        if op in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = argument
            unit = self.sample(body, before)
            if int(most) > 8:
                self.repeated.append((before, unit))
            return unit * min(max(int(least), 1), 64)
        if op in ("SUBPATTERN", "ATOMIC_GROUP"):
            return self.sample(argument[-1] if op == "SUBPATTERN" else argument, before)
        if op == "BRANCH":
            texts = [self.sample(branch, before) for branch in argument[1]]
            return texts[self._variant % len(texts)]
        return ""

    def _character(self, op: str, argument: Any) -> str:
        fits = [char for char in _CANDIDATES if _fits(op, argument, char)]
        parts = [(str(kind), value) for kind, value in argument] if op == "IN" else []
        own = [chr(value if kind == "LITERAL" else value[0]) for kind, value in parts if kind in ("LITERAL", "RANGE")]
        known = [*fits, *(char for char in own if _fits(op, argument, char))]
        return known[self._variant % len(known)] if known else "a"


def _fits(op: str, argument: Any, char: str) -> bool:
    """Whether a character is of a set, by the set's own parts."""
    if op == "ANY":
        return char != "\n"
    if op == "NOT_LITERAL":
        return bool(ord(char) != argument)
    negated, inside = False, False
    for kind, value in argument:
        name = str(kind)
        negated = negated or name == "NEGATE"
        inside = inside or (
            (name == "LITERAL" and ord(char) == value)
            or (name == "RANGE" and value[0] <= ord(char) <= value[1])
            or (name == "CATEGORY" and _of_category(str(value), char))
        )
    return inside != negated


def _of_category(name: str, char: str) -> bool:
    kind, inside = name.rpartition("_")[2], char.isalnum() or char == "_"
    inside = char.isdigit() if kind == "DIGIT" else char.isspace() if kind == "SPACE" else inside
    return inside != ("_NOT_" in name)
