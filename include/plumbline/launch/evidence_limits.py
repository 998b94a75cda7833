"""Which evidence a result may list: files below `evidence/`, so many, of so many bytes together."""

from __future__ import annotations

from plumbline.declarations import load_upkeep
from plumbline.results import ResultDocument
from plumbline.results.reading import size

BELOW = "evidence/"
"""The only part of an attempt's folder that a harness fills; specification, launch record and document beside it are the launcher's."""


def exceeded(document: ResultDocument) -> list[str]:
    """What of the document's list of files is not allowed, one sentence each. Declared in upkeep.yaml, `evidence`."""
    rules, listed = load_upkeep().evidence, document.evidence
    problems = [
        f"the document lists {item.uri} as evidence; expected only files below {BELOW}" for item in listed if not item.uri.startswith(BELOW)
    ][:1]
    if len(listed) > rules.most_files:
        problems.append(
            f"the document lists {len(listed):,} files of evidence; expected at most {rules.most_files:,} (evidence.most_files)"
        )
    if (total := sum(item.bytes for item in listed)) > rules.most_bytes:
        problems.append(
            f"the document lists {size(total)} of evidence; expected at most {size(int(rules.most_bytes))} (evidence.most_bytes)"
        )
    return problems
