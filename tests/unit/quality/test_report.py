"""Verdicts: the worst severity decides, every reason stays."""

from __future__ import annotations

from plumbline.quality import Verdict
from plumbline.results import Reason

A, B, C = (Reason(code=code, detail="…") for code in ("a", "b", "c"))


def test_a_warning_annotates_and_a_critical_failure_rejects_in_any_order() -> None:
    assert Verdict() == Verdict("accept", ())
    assert Verdict().with_reason("warning", A) == Verdict("annotate", (A,))
    assert Verdict().with_reason("critical", A).with_reason("warning", B) == Verdict("reject", (A, B))
    assert Verdict().with_reason("warning", A).with_reason("critical", B).with_reason("warning", C) == Verdict("reject", (A, B, C))
