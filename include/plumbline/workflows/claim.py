"""A claim on a provider: a mail made from a finding, with what was promised and measured, the evidence pack, and how to verify it."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from plumbline.answers.claims import Claimable, claimable
from plumbline.answers.monthly_costs import monthly_cost_of
from plumbline.archive import Archive
from plumbline.archive.trends import LaunchCounts
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.promises import PROMISES, JudgedPromise
from plumbline.declarations.promises.judging.launches import OPERATOR_FAULTS, UNPROVEN, launch_share
from plumbline.declarations.promises.judging.row import PromiseRow
from plumbline.declarations.providers.service_level import ServiceLevel
from plumbline.findings.monthly_cost import MonthlyCost
from plumbline.metrics.formatting import capitalize_first, first_lines, join_words
from plumbline.metrics.units import Amount
from plumbline.presentation.availability import outage_line
from plumbline.presentation.promises import claimed_credits, total_credit
from plumbline.results.finding import Finding
from plumbline.whole_file import sha256_file
from plumbline.workflows.evidence_pack import EvidencePack, write_evidence_pack

_MOST_LINES, _MOST_TRIALS, _MOST_SPANS = 6, 12, 40
LARGEST_ATTACHMENT = 20 * 10**6
"""Bytes; many mail servers refuse more than 25 MB, and attachments grow by a third."""


class NothingToClaim(ValueError):
    """The sentence says what is not promised or not proven."""


@dataclass(frozen=True)
class Claim:
    """A claim in a folder of its own: `mail` (a draft with the pack attached), `letter` (the same as text) and `pack`.

    `attached`: the pack is in the mail, not too large for it. `usd`: the credit that it asks for, None where it cannot be computed. `missing`: what to declare for a complete claim.
    """

    finding_id: str
    subject: str
    folder: Path
    mail: Path
    letter: Path
    pack: EvidencePack
    sha256: str
    usd: Amount | None
    missing: tuple[str, ...]
    attached: bool


def write_claim(archive: Archive, declared: Declarations, finding_id: str, folder: Path, to: str = "") -> Claim:
    """Write the claim of a finding into a new folder.

    LookupError for an unknown finding or one without trials; NothingToClaim where no promise is proven to be broken; FileExistsError if the folder
    exists; ValueError for a recipient that is no address; raises like `write_evidence_pack` and `Finding.of`. Nothing is written then.
    """
    view = archive.finding(finding_id)
    finding = Finding.of(view.detail).with_state(view.state)
    answer = claimable(archive, declared, [view])[finding_id]
    if answer.why:
        raise NothingToClaim(answer.why)
    if folder.exists():
        raise FileExistsError(f"{folder} exists; expected the name of a new folder")
    provider = declared.providers[finding.provider]
    recipient = _recipient(to or provider.sla.contact or "")
    folder.mkdir(parents=True)
    try:
        pack = write_evidence_pack(archive, finding_id, folder / f"evidence-{finding_id}.zip", sheets=_promises(archive, answer))
    except BaseException:
        folder.rmdir()  # empty: the pack appears whole or not at all
        raise
    sha256 = sha256_file(pack.file)
    cost = monthly_cost_of(archive, declared, view)
    usd = total_credit(answer.broken)
    subject = f"{'REHEARSAL, do not send: ' if finding.simulated else ''}Service claim: {finding.provider}, {join_words(each.row.name for each in answer.broken)} ({finding_id})"
    text = _letter(finding, provider, answer, cost, pack, sha256)
    letter = folder / "claim.txt"
    letter.write_text(text, encoding="utf-8")
    mail = folder / "claim.eml"
    mail.write_bytes(_mail(subject, recipient, text, pack, sha256))
    return Claim(finding_id, subject, folder, mail, letter, pack, sha256, usd, _missing(declared, provider, answer, recipient), _fits(pack))


def _promises(archive: Archive, answer: Claimable) -> dict[str, bytes]:
    """`promises.json` of the pack: broken promises with credits, every revision of the entries of the operations log that show them, and outages."""
    log = [asdict(state) for each in answer.broken for entry in each.row.evidence for state in archive.operations_history(entry)]
    outages = [asdict(outage) for outage in answer.outages]
    data = {"broken": [asdict(each.row) for each in answer.broken], "operations_log": log, "outages": outages}
    return {"promises.json": json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, default=datetime.isoformat).encode()}


def _recipient(text: str) -> str:
    """Addresses of a mail, separated by commas."""
    for each in filter(None, (part.strip() for part in text.split(","))):
        if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+|[^@<>,;\r\n]*<[^@\s<>,;]+@[^@\s<>,;]+>", each):
            raise ValueError(f'the recipient "{each}" is no address; expected such as support@example.com')
    return text


def _missing(declared: Declarations, provider: Provider, answer: Claimable, recipient: str) -> tuple[str, ...]:
    file = f"providers/{provider.name}.yaml"
    own = "".join(f"; sla.{promise.credits} for {promise.noun}" for promise in PROMISES if promise.credits)
    expected = [
        (provider.sla.clause, f"{file}: sla.clause, such as 'Annex B, 4.2'"),
        (
            all(each.row.credit for each in answer.broken),
            f"{file}: sla.credit, the share of a month's bill such as 10%{own}",
        ),
        (recipient, f"{file}: sla.contact, or --to"),
        (declared.alerts.volumes_of(provider.name), "alerts.yaml: volumes, the instance time a month"),
    ]
    return tuple(text for known, text in expected if not known)


def _letter(
    finding: Finding,
    provider: Provider,
    answer: Claimable,
    cost: MonthlyCost,
    pack: EvidencePack,
    sha256: str,
) -> str:
    with zipfile.ZipFile(pack.file) as packed:
        index = json.loads(packed.read("index.json"))
    lines = [
        f"To the support of {provider.cloud}",
        "",
        f"We claim a service credit for {provider.instance_type} in {provider.region}, our name {provider.name}.",
        f"Your promise of {join_words(each.row.name for each in answer.broken)} is broken. We noticed it in {finding.began}.",
        *(["", "This is a rehearsal with simulated results. Do not send it."] if finding.simulated else []),
        "",
        "PROMISED AND MEASURED",
        "",
        *[f"- {capitalize_first(each.row.sentence)}" for each in answer.broken],
        *_counted(answer.launches),
        *[line for each in answer.broken for line in _hours(each.row)],
        *first_lines([f"- Our checks: {outage_line(o).text}" for o in answer.outages], _MOST_LINES, "- and {} more, in promises.json"),
        *(["- Chance explains it less than once in 40."] if any(each.row.interval for each in answer.broken) else []),
        "",
        "WHAT WE FOUND",
        "",
        *_measured(finding),
        "",
        "WHAT CHANGED",
        "",
        *(finding.explanation.splitlines() or ["No recorded change of driver, image, hardware or price explains it."]),
        "",
        "CLAUSE AND CREDIT",
        "",
        *_demand(provider.sla, cost, answer.broken),
        "",
        "EVIDENCE",
        "",
        *_evidence(pack, index, sha256),
        "",
        "VERIFY AND REPEAT",
        "",
        f"  unzip {pack.file.name} -d evidence && pip install cryptography",
        f"  python -I evidence/verify.py --key {pack.key}",
        *([f"  (our next key, announced now, signed it too: {pack.next_key})"] if pack.next_key else []),
        "",
        "The verifier needs nothing of ours. It checks every signature and checksum and exits with 0, or with 3 if some trials carry no key or",
        "some evidence has expired.",
        "Each document.json holds the whole specification of its trial: workload, seeds, image and versions. In our installation one command",
        "repeats a trial; we run it for you on a node that you name:",
        "",
        *[f"  plumbline replay {trial['trial_id']}" for trial in index["trials"][-1:]],  # the newest attempt
        "",
        f"Finding {finding.finding_id}. Please name it in your answer.",
    ]
    return "\n".join(lines) + "\n"


def _hours(row: PromiseRow) -> list[str]:
    """The time that was down, span by span, with its sum: what the claim counts, without maintenance."""
    spans = [(f"{begin:%Y-%m-%d %H:%M} … {end:%Y-%m-%d %H:%M} UTC", round((end - begin).total_seconds())) for begin, end in row.down]
    if row.single_s:
        spans.append(("single missed checks outside of outages", round(row.single_s)))
    if not spans:
        return []
    shown, rest = spans[:_MOST_SPANS], spans[_MOST_SPANS:]
    if rest:
        shown = [*shown, (f"{len(rest)} more, in promises.json", sum(seconds for _, seconds in rest))]
    width = max(len(what) for what, _ in shown)
    lines = [f"    {what:<{width}}  {_clock(seconds)}" for what, seconds in shown]
    return [f"- Down in {row.name.rpartition(' ')[2]}:", *lines, f"    {'Sum':<{width}}  {_clock(sum(seconds for _, seconds in spans))}"]


def _clock(seconds: int) -> str:
    """Exact to the second, so that the lines of a list add up."""
    hours, rest = divmod(seconds, 3600)
    return f"{hours:>4} h {rest // 60:02} min{f' {rest % 60:02} s' if rest % 60 else ''}"


def _counted(launches: Sequence[LaunchCounts]) -> list[str]:
    """The launches by campaign, so that the provider can check them."""
    unproven = sum(n for c in launches for cause, n in c.ended.items() if cause in UNPROVEN)
    apart = f" Not counted: {unproven} whose cause is not proven to be yours." if unproven else ""
    shares = [(c.campaign_id, share) for c in launches if (share := launch_share(c.ended)).n]
    counts = ", ".join(f"{campaign}: {share.successes} of {share.n}" for campaign, share in shares)
    return [f"- Launches that started, without those that failed by our own fault: {counts}.{apart}"] if shares else []


def _measured(finding: Finding) -> list[str]:
    """The metrics or facts that show it, against the accepted baseline."""
    against = f" (baseline: campaign {join_words(finding.baseline_campaigns)})" if finding.baseline_campaigns else ""
    members = [m for m in finding.members if m.name not in OPERATOR_FAULTS | UNPROVEN]
    shown = first_lines([f"- {m.text}" for m in members], _MOST_LINES, "- and {} more, in finding.json") or [f"- {finding.evidence}"]
    lines = [f"- Shown by campaign {join_words(finding.campaigns)}{against}"] if finding.campaigns else []
    return [*shown, *lines]


def _demand(sla: ServiceLevel, cost: MonthlyCost, broken: Sequence[JudgedPromise]) -> list[str]:
    lines = [f"Clause: {sla.clause}."] if sla.clause else []
    listed = [(names, credit) for names, credit, _ in claimed_credits(broken) if credit]
    lines += [f"Credit for {names}: {credit}." for names, credit in listed]
    total = total_credit(broken)
    if len(listed) > 1 and total is not None:
        lines.append(f"Total: {total:,.2f} USD.")
    if not all(each.row.credit for each in broken):
        lines.append("Please state the credit that our contract grants for it.")
    if cost.usd is not None and cost.usd > 0:
        lines.append(f"For comparison, the change {cost.text}.")
    return lines


def _evidence(pack: EvidencePack, index: dict[str, Any], sha256: str) -> list[str]:
    lines = [
        f"{pack.file.name}{'' if _fits(pack) else ', which we send apart'}: {pack.trials} attempts, {pack.signed} of them signed, {pack.files} files",
        f"SHA-256 {sha256}",
        "",
    ]
    for trial in index["trials"][:_MOST_TRIALS]:
        lines.append(f"- {trial['trial_id']}, attempt {trial['attempt']}: {trial['signature']}")
        lines.append(f"  document.json SHA-256 {index['files'][trial['folder'] + '/document.json']}")
    more = len(index["trials"]) - _MOST_TRIALS
    return [*lines, *([f"- and {more} more, in index.json"] if more > 0 else [])]


def _fits(pack: EvidencePack) -> bool:
    return pack.file.stat().st_size <= LARGEST_ATTACHMENT


def _mail(subject: str, to: str, text: str, pack: EvidencePack, sha256: str) -> bytes:
    message = EmailMessage(policy=SMTP)
    message["Subject"] = subject
    message["To"] = to
    message["Date"] = format_datetime(datetime.now(timezone.utc))
    message["X-Unsent"] = "1"  # mail programs open it as a draft
    message.set_content(text)
    if _fits(pack):
        message.add_attachment(pack.file.read_bytes(), maintype="application", subtype="zip", filename=pack.file.name)
        message.set_boundary(f"=_{sha256[:24]}")
    return message.as_bytes()
