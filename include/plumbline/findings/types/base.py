"""What every type of finding says of itself. A type is one file of this folder with one class, under `@register`.

What is stored of a type is its kind and subject; nothing else of the program reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from plumbline.findings.phrases import on_provider, titled
from plumbline.results.finding import OPEN_STATES, Finding, FindingKind

if TYPE_CHECKING:
    from plumbline.analysis.drift.comparison import Comparison

Accepting = Literal["baseline", "price", "first_choice", "log"]
"""What accepting a finding changes: the baselines of its series, the price in use, a team's first choice, or which witness promises are judged by."""
Costs = Literal["price", "pace"]
History = Literal["series", "probes", "price"]
Step = tuple[str, str]
"""A command and its purpose."""


class FindingType:
    """One type of finding. The defaults are those of something that a person looks into and resolves.

    `kinds` and `subject` are how the archive stores it; a subject that ends with a space or a slash is what its findings' subjects begin with. `usual`:
    it also has findings of its kinds with a subject that no type knows, as an older version stored them.
    """

    id: ClassVar[str]
    kinds: ClassVar[tuple[FindingKind, ...]]
    subject: ClassVar[str]
    usual: ClassVar[bool] = False
    order: ClassVar[int] = 90
    """Its place where several types are counted, the gravest first."""
    noun: ClassVar[str] = "finding"
    nouns: ClassVar[str] = ""
    """Several of them; empty if an s makes the plural."""
    accepting: ClassVar[Accepting | None] = None
    accept_label: ClassVar[str] = ""
    """On the button."""
    reject_label: ClassVar[str] = ""
    """On the button; empty where rejecting means nothing that resolving does not."""
    accepted_as: ClassVar[str] = ""
    """In a message, once it was accepted, such as NEW BASELINE."""
    reruns: ClassVar[bool] = False
    """Whether measuring again can settle it."""
    resolved_if: ClassVar[str] = "fixed, or a false alarm"
    claimable: ClassVar[bool] = False
    """Whether a promise of the provider's may cover it."""
    grants_credit: ClassVar[bool] = False
    """Whether it is itself a claim, which a person marks as sent, credited or refused."""
    moves_choices: ClassVar[bool] = False
    """Whether it may move a team's first choice."""
    costs: ClassVar[Costs | None] = None
    """What its cost a month follows from: a changed price, or how much longer the same work takes."""
    history: ClassVar[History | None] = None
    """What its chart draws."""
    explains: ClassVar[bool] = False
    """Whether it explains others: of equal severity, what a user feels comes before it."""
    advice: ClassVar[str] = "Check"
    """What a report says to do, before the provider's name."""
    recovered: ClassVar[str] = "is back to normal"
    """What its series does in the campaign that resolves it; see `recovery`."""
    missing: ClassVar[bool] = False
    """Whether data is missing: it names the last campaign that had some, and compares nothing."""
    members_title: ClassVar[str] = "moved together"
    reason_label: ClassVar[str] = "Because"
    """Of its explanation, in a message."""

    @classmethod
    def owns(cls, kind: str, subject: str) -> bool:
        """Whether a finding that is stored so is of this type."""
        known = subject.startswith(cls.subject) if cls.subject.endswith((" ", "/")) else subject == cls.subject
        return kind in cls.kinds and known

    @classmethod
    def has(cls, finding: Finding) -> bool:
        """Whether the finding is of this type."""
        return cls.owns(finding.kind, finding.subject)

    @classmethod
    def rest(cls, finding: Finding) -> str:
        """What the finding's subject says after the type's own part, such as a node's name."""
        return finding.subject.removeprefix(cls.subject)

    def word(self, direction: str, effect: float | None) -> str:
        """A finding of this type in a headline that counts them. `direction`: regressed or improved, else empty."""
        return self.noun

    def is_good_news(self, direction: str, effect: float | None) -> bool:
        """As of `word`."""
        return False

    def advise(self, direction: str, effect: float | None) -> str:
        return self.advice

    def cause(self, finding: Finding) -> str:
        """The change in words; empty if nothing recorded explains the finding."""
        return on_provider(finding.causes, finding.provider)

    def consequence(self, finding: Finding, caused: bool) -> str:
        """What follows from it. `caused`: the line begins with its cause, which names the provider."""
        return titled(finding, caused)

    def worth(self, finding: Finding, credit: float | None) -> str:
        """What can be claimed with it, and until when; empty of a type that grants nothing by itself. `credit`: in USD, None if unknown."""
        return ""

    def together(self, finding: Finding) -> frozenset[str]:
        """Possible causes; findings of one provider that share one belong together."""
        return frozenset(finding.attributed_to)

    def has_recovered(self, known: Finding, now: Comparison) -> bool:
        """Whether a later campaign's comparison of one of its series no longer shows it."""
        return False

    def recovery(self, known: Finding) -> str:
        return self.recovered

    def about(self, finding: Finding) -> list[Step]:
        """Name and value of what it is about, in a message."""
        return [("Provider", finding.provider), ("Workload", finding.concerns or "all workloads")]

    def accept_purpose(self, finding: Finding) -> str:
        return ""

    def steps(self, finding: Finding) -> list[Step]:
        """Commands that a person may run next, the first one first."""
        show = [(f"plumbline findings show {finding.finding_id}", "all measured values")]
        return [*show, *self.looks(finding), *self.answers(finding), *_ownership(finding)]

    def looks(self, finding: Finding) -> list[Step]:
        """Commands that show more of it."""
        return []

    def answers(self, finding: Finding) -> list[Step]:
        """Commands that settle it, while it is open."""
        if finding.state not in OPEN_STATES:
            return []
        accept, resolve = (f"plumbline findings {verb} {finding.finding_id} --why …" for verb in ("accept", "resolve"))
        if self.accepting == "baseline":
            return [(accept, self.accept_purpose(finding))]
        if self.accepting is not None:
            return [(accept, self.accept_purpose(finding)), (resolve, self.resolved_if)]
        return [(resolve, self.resolved_if)]


def _ownership(finding: Finding) -> list[Step]:
    return [(f"plumbline findings acknowledge {finding.finding_id} --why …", "take ownership")] if finding.state == "open" else []


TYPES: list[FindingType] = []
_Type = TypeVar("_Type", bound=type[FindingType])


def register(made: _Type) -> _Type:
    """Add a type of finding. ValueError if its id is taken."""
    if any(known.id == made.id for known in TYPES):
        raise ValueError(f"the type of finding {made.id} is registered twice; expected an id of its own")
    TYPES.append(made())
    return made
