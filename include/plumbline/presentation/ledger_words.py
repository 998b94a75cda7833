"""Where a finding's amount is counted, in words."""

from __future__ import annotations

from plumbline.answers.ledger import Ledger, LedgerRow
from plumbline.metrics.formatting import capitalize_first, format_count, format_money


def row_text(row: LedgerRow) -> str:
    """What a row of the ledger says: its amount, with its sign in words."""
    if row.sort == "ending":
        return f"{format_money(row.paid)} a month is paid until {row.until}; {_renewing(row.usd)}"
    if row.sort == "claim":
        amount = "a credit of unknown amount" if row.usd is None else f"a credit of {format_money(row.usd)}, once"
        last = f" until {row.until}" if row.until else ""
        state = {"claimed": "claimed already", "too_late": f"too late to claim, the last day was {row.until}"}
        return f"{amount}: {state.get(row.claim) or f'to claim{last}'}"
    if row.usd is None:
        return "without a price: counted beside the sum"
    return f"{'saves' if row.sort == 'gain' else 'costs'} {format_money(row.usd)} a month"


def _renewing(usd: float | None) -> str:
    if usd is None:
        return "what renewing is worth is not known"
    return f"renewing at this price {'saves' if usd >= 0 else 'costs'} {format_money(abs(usd))} a month against the cheapest other price"


def counted_text(ledger: Ledger, finding_id: str) -> str:
    """The row of the ledger that has the finding's amount, what else is in it, and the sum that it is part of, then each credit that it
    claims beside it; empty of a finding without either."""
    claims = [f"{row_text(row)}{_sum_text(ledger, row)}" for row in ledger.claims_with(finding_id)]
    return ". ".join(
        capitalize_first(text) if n else text for n, text in enumerate(filter(None, (_amount_text(ledger, finding_id), *claims)))
    )


def unclaimed_text(ledger: Ledger) -> str:
    """The credits that no open finding claims; empty without any."""
    return "; ".join(f"{row.what}: {row_text(row)}" for row in ledger.unclaimed)


def _amount_text(ledger: Ledger, finding_id: str) -> str:
    row = ledger.row_with(finding_id)
    if row is None:
        return ""
    text = row_text(row)
    if row.row_id != finding_id:
        others = len(row.counts) - 1
        beside = f" and {format_count(others, 'other')}" if others > 0 else ""
        text = (
            f"counted with this{beside} in finding {row.row_id}, which {text}"
            if row.sort == "cost"
            else f"counted in finding {row.row_id}: {text}"
        )
    elif row.counts:
        text = f"{text}, with {format_count(len(row.counts), 'other finding')} of its cause"
    return f"{text}{_sum_text(ledger, row)}"


def _sum_text(ledger: Ledger, row: LedgerRow) -> str:
    month = ledger.total(row.simulated)
    if row.sort == "cost" and row.usd is not None:
        if month.costly == 1:
            return "; no other finding costs"
        return f"; part of {format_money(month.lost)} lost a month by {format_count(month.costly, 'finding')}"
    if row.sort == "gain":
        return f"; part of {format_money(month.saved)} saved a month by {format_count(month.gains, 'finding')}"
    if row.claim == "to_claim" and row.usd is not None:
        return f"; part of {format_money(month.to_claim)} to claim in {format_count(month.claims, 'claim')}"
    return ""
