"""A person's mark on a claim: it was sent, its credit came, or the provider refused it."""

from __future__ import annotations

from plumbline.answers.claim_marks import MARKS, WORDS, ClaimState, claim_key, claim_marks
from plumbline.answers.claims import claimable
from plumbline.archive import Archive, FindingView
from plumbline.declarations import Declarations
from plumbline.findings.types.broken_promise import BrokenPromise
from plumbline.results.finding import OPEN_STATES, Finding
from plumbline.workflows.claim import NothingToClaim


def mark_claim(archive: Archive, declared: Declarations, finding_id: str, state: ClaimState, by: str, why: str) -> FindingView:
    """Note it in the audit log; a claim that was sent acknowledges its finding, the end of one resolves it. The same mark again changes nothing.

    LookupError for an unknown finding; NothingToClaim for one without a claim; ValueError for an empty author or reason.
    """
    view = archive.finding(finding_id)
    marked = claim_marks(archive, [finding_id]).get(finding_id)
    if marked is not None and marked.state == state:
        return view
    finding = Finding.of(view.detail)
    promises = marked.promises if marked is not None else ()
    if not promises:
        answer = claimable(archive, declared, [view])[finding_id]
        promises = tuple(claim_key(each) for each in answer.broken)
        if not promises and not BrokenPromise.has(finding):
            raise NothingToClaim(answer.why)
        promises = promises or (BrokenPromise.rest(finding),)
    if not (by.strip() and why.strip()):
        raise ValueError("by and why are needed: who marks the claim, and what happened")
    what = next(name for name, known in MARKS.items() if known == state)
    archive.add_audit(who=by, what=what, subject=finding_id, why=why, detail={"promises": list(promises)})
    if state == "claimed":
        return archive.set_finding_state(finding_id, "acknowledged", by=by, why=why) if view.state == "open" else view
    return archive.set_finding_state(finding_id, "resolved", by=by, why=f"{WORDS[state]}: {why}") if view.state in OPEN_STATES else view
