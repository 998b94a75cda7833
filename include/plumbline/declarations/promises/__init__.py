"""Promises of a contract, one file a promise: its fields of `sla`, how it is measured, judged, worded and credited. A new file with `@register` is all
that a promise needs.

judging      what promises share: evidence, the rule of a share, words, the base class
the others   one promise each, called as its field
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from plumbline.declarations.promises.judging.evidence import PromiseEvidence, SharedTerms
from plumbline.declarations.promises.judging.promise import REGISTERED, JudgedPromise, Promise, register
from plumbline.declarations.promises.judging.row import PromiseRow, format_seconds
from plumbline.declarations.promises.judging.share import judge_share
from plumbline.metrics.formatting import join_words

__all__ = ["PROMISES", "Evidence", "JudgedPromise", "Promise", "PromiseRow", "Terms", "format_seconds", "judge_share", "register"]

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

PROMISES: tuple[Promise[Any], ...] = tuple(sorted(REGISTERED, key=lambda one: (one.order, one.id)))
"""Every promise, in the order of lists."""


def promisable() -> str:
    """What can be promised, in words."""
    return join_words(promise.noun for promise in PROMISES)


def never_shown(terms: SharedTerms, every_s: Mapping[str, float]) -> list[str]:
    """Promises that checks at the declared intervals can never show kept, each with an interval that can. `every_s`: kind of check → seconds."""
    whys = ((promise, promise.never_shown(terms, every_s)) for promise in PROMISES)
    return [f"{' and '.join(promise.declared(terms))}: {why}" for promise, why in whys if why]
