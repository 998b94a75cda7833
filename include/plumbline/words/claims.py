"""What can be claimed with a finding, and why nothing can, in words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from plumbline.declarations.promises import JudgedPromise, promisable
from plumbline.metrics.formatting import capitalize_first, format_day, format_limit, format_money, join_words


def not_covered(noun: str) -> str:
    return f"No promise covers a {noun}: {promisable()} can be promised."


def several_providers() -> str:
    return "Several providers share the cause: claim from each by the finding of its own."


def not_declared(provider: str) -> str:
    return f"{provider} is no longer declared, so its promises are unknown."


def no_promise_of_failures(file: str, promises: Iterable[str]) -> str:
    return f"{file} declares no promise but of speed (expected one of {', '.join(f'sla.{promise}' for promise in promises)})."


def not_the_providers(causes: Iterable[str]) -> str:
    return f"No failure of it is proven to be the provider's: {join_words(sorted(causes))}."


def no_promised_speed(file: str, workloads: Iterable[str]) -> str:
    return f"{file} declares no promised speed of {join_words(sorted(workloads))} (sla.speed_floors)."


def changed_by_us(facts: Iterable[str]) -> str:
    return f"The cause is not proven to be the provider's: {join_words(facts)} changed too, which our image brings."


def not_proven(covering: Iterable[JudgedPromise]) -> str:
    shown = ". ".join(f"{capitalize_first(each.row.sentence)}: {each.row.verdict_text}" for each in covering)
    return f"No promise is proven broken. {shown}."


def credit_amount(share: float, usd: float | None) -> str:
    """Such as `17,082 USD (25 % of the month's bill)`; the share alone where the amount is not known, or not for the reader."""
    part = f"{format_limit(share)} of the month's bill"
    return part if usd is None else f"{format_money(usd, 'USD')} ({part})"


def to_claim(amount: str, until: str) -> str:
    """`until`: the last day, empty where the contract's term is not declared."""
    return f"{amount} to claim{f' until {format_day(until)}' if until else ''}"


def deadline(day: date | None, lapsed: bool) -> str:
    """Until when a claim can be made, or that the day has passed; empty where the contract's term is not declared."""
    if day is None:
        return ""
    last = format_day(f"{day:%Y-%m-%d}")
    return f"too late to claim since {last} has passed" if lapsed else f"to claim until {last}"


def broke_promises(provider: str, promises: Iterable[str]) -> str:
    return f"{provider} broke its promise of {join_words(list(promises))}"


def claimed_elsewhere(others: Iterable[tuple[JudgedPromise, str]]) -> str:
    """`others`: broken promises, each with the finding that claims it."""
    return f"One claim a promise and period: {join_words([f'{each.row.name} is claimed with finding {name}' for each, name in others])}."
