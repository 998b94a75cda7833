"""Invoices that were compared, as entries of the audit log: the result that is shown is the one that was found that day."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive.audit import write_entry
from plumbline.archive.schema import AuditEntry
from plumbline.results.compared_invoice import ComparedInvoice, ComparedInvoiceView

INVOICE_COMPARED = "invoice_compared"


def save_compared_invoice(session: Session, now: datetime, found: ComparedInvoice, *, by: str) -> None:
    """Store a comparison; the same result of the same file again adds nothing."""
    last = next((view.invoice for view in compared_invoices(session) if _same_question(view.invoice, found)), None)
    if last is None or last.to_dict() != found.to_dict():
        write_entry(session, now, who=by, what=INVOICE_COMPARED, subject=found.sha256, why=found.file, detail=found.to_dict())


def compared_invoices(session: Session) -> list[ComparedInvoiceView]:
    """The newest comparison of each file's content, providers and lines that it was limited to, the last compared first; what a newer version
    wrote in another shape is left out."""
    newest: list[ComparedInvoiceView] = []
    query = select(AuditEntry).where(AuditEntry.what == INVOICE_COMPARED).order_by(AuditEntry.at.desc(), AuditEntry.id.desc())
    for entry in session.scalars(query):
        with suppress(KeyError, TypeError, ValueError, ArithmeticError):
            found = ComparedInvoice.of(entry.detail)
            if not any(_same_question(each.invoice, found) for each in newest):
                newest.append(ComparedInvoiceView(found, entry.at, entry.who))
    return newest


def _same_question(one: ComparedInvoice, other: ComparedInvoice) -> bool:
    return (one.sha256, one.asked, one.selection) == (other.sha256, other.asked, other.selection)
