"""A claim on a provider: a mail made from a finding, with what was promised and measured, the evidence pack, and how to verify it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from statistics import median
from typing import Any

from plumbline.alerts.monthly_cost import MonthlyCost
from plumbline.analysis.prices.book import quote
from plumbline.archive import Archive
from plumbline.archive.trends import LaunchCounts
from plumbline.declarations import Declarations, Provider
from plumbline.metrics.formatting import capitalize_first, common_scale, format_money, format_percent, join_words
from plumbline.presentation.charts.launches import launch_success
from plumbline.results.finding import Finding
from plumbline.workflows.evidence_pack import EvidencePack, write_evidence_pack
from plumbline.workflows.monthly_costs import monthly_cost_of

KINDS = ("performance", "reliability", "missing_data", "environment")
_LATEST, _MOST_LINES, _MOST_TRIALS = 24, 6, 12


@dataclass(frozen=True)
class Claim:
    """A claim in a folder of its own: `mail` (a draft with the pack attached), `letter` (the same as text) and `pack`.

    `usd`: the credit that it asks for, None where it cannot be computed. `missing`: what to declare for a complete claim.
    """

    finding_id: str
    subject: str
    folder: Path
    mail: Path
    letter: Path
    pack: EvidencePack
    sha256: str
    usd: float | None
    missing: tuple[str, ...]


def write_claim(archive: Archive, declared: Declarations, finding_id: str, folder: Path, to: str = "") -> Claim:
    """Write the claim of a finding into a new folder.

    LookupError for an unknown finding or one without trials; ValueError for a kind of finding that is no provider's matter;
    FileExistsError if the folder exists; otherwise as `write_evidence_pack`.
    """
    view = archive.finding(finding_id)
    finding = Finding.of(view.detail).with_state(view.state)
    if finding.kind not in KINDS:
        raise ValueError(f"finding {finding_id} is of kind {finding.kind}, which no contract covers; expected one of {', '.join(KINDS)}")
    if folder.exists():
        raise FileExistsError(f"{folder} exists; expected the name of a new folder")
    provider = declared.providers.get(finding.provider)
    folder.mkdir(parents=True)
    try:
        pack = write_evidence_pack(archive, finding_id, folder / f"evidence-{finding_id}.zip")
    except BaseException:
        folder.rmdir()  # empty: the pack appears whole or not at all
        raise
    sha256 = hashlib.sha256(pack.file.read_bytes()).hexdigest()
    launches = [c for c in archive.launches(finding.provider, _LATEST) if c.campaign_id in finding.campaigns]
    cost = monthly_cost_of(archive, declared, view)
    usd = _credit(declared, provider)
    subject = f"{'REHEARSAL, do not send: ' if finding.simulated else ''}Service claim: {finding.provider}, {finding.title or finding.subject} ({finding_id})"
    text = _letter(finding, provider, launches, cost, usd, pack, sha256)
    letter = folder / "claim.txt"
    letter.write_text(text, encoding="utf-8")
    recipient = to or (provider.sla.contact or "" if provider is not None else "")
    mail = folder / "claim.eml"
    mail.write_bytes(_mail(subject, recipient, text, pack, sha256))
    return Claim(finding_id, subject, folder, mail, letter, pack, sha256, usd, _missing(declared, provider, recipient))


def _credit(declared: Declarations, provider: Provider | None) -> float | None:
    """The contract's credit on a month at the declared volume and today's price, in USD."""
    if provider is None or provider.sla.credit is None:
        return None
    today = datetime.now(timezone.utc).date()
    total = 0.0
    for volume in declared.alerts.volumes_of(provider.name):
        price = quote(provider, today, volume.purchase).basis
        if price is None:
            return None
        total += volume.time_per_month / 3600 * price.usd_per_hour
    return provider.sla.credit * total or None


def _missing(declared: Declarations, provider: Provider | None, recipient: str) -> tuple[str, ...]:
    if provider is None:
        return ("the provider is no longer declared: promises, clause and credit are unknown",)
    file = f"providers/{provider.name}.yaml"
    expected = [
        (provider.sla.clause, f"{file}: sla.clause, such as 'Annex B, 4.2'"),
        (provider.sla.credit, f"{file}: sla.credit, the share of a month's bill such as 10%"),
        (recipient, f"{file}: sla.contact, or --to"),
        (declared.alerts.volumes_of(provider.name), "alerts.yaml: volumes, the instance time a month"),
    ]
    return tuple(text for known, text in expected if not known)


def _letter(
    finding: Finding,
    provider: Provider | None,
    launches: Sequence[LaunchCounts],
    cost: MonthlyCost,
    usd: float | None,
    pack: EvidencePack,
    sha256: str,
) -> str:
    began = finding.began
    lines = [
        f"To the support of {provider.cloud if provider is not None else finding.provider}",
        "",
        f"We claim a service credit for {_place(finding, provider)}.",
        f"{capitalize_first(finding.title or finding.subject)}, since {began}.",
        *(["", "This is a rehearsal with simulated results. Do not send it."] if finding.simulated else []),
        "",
        "PROMISED AND MEASURED",
        "",
        *_promises(provider, launches),
        *_measured(finding),
        "",
        "WHAT CHANGED",
        "",
        *(finding.explanation.splitlines() or ["No recorded change of driver, image, hardware or price explains it."]),
        "",
        "CLAUSE AND CREDIT",
        "",
        *_demand(provider, cost, usd),
        "",
        "EVIDENCE",
        "",
        *_evidence(pack, sha256),
        "",
        "VERIFY AND REPEAT",
        "",
        f"  unzip {pack.file.name} -d evidence && pip install cryptography && python evidence/verify.py",
        "",
        "The verifier needs nothing of ours. It checks every signature and checksum and exits with 0, or with 3 if some trials carry no key.",
        "Each document.json holds the whole specification of its trial: workload, seeds, image and versions. In our installation one command",
        "repeats a trial; we run it for you on a node that you name:",
        "",
        *[f"  {command}" for command in _replays(pack)],
        "",
        f"Finding {finding.finding_id}. Please name it in your answer.",
    ]
    return "\n".join(lines) + "\n"


def _place(finding: Finding, provider: Provider | None) -> str:
    if provider is None:
        return finding.provider
    return f"{provider.instance_type} in {provider.region} ({provider.cloud}), our name {provider.name}"


def _promises(provider: Provider | None, launches: Sequence[LaunchCounts]) -> list[str]:
    if provider is None:
        return []
    lines = []
    if provider.sla.launch_success is not None:
        shares = [launch_success(c) for c in launches]
        tried, started = sum(s.n for s in shares), sum(s.successes for s in shares)
        measured = (
            f"measured {started} of {tried} launches ({format_percent(started / tried, 1)})" if tried else "no launch in these campaigns"
        )
        lines.append(f"- Launch success: promised {format_percent(provider.sla.launch_success, 1)}, {measured}")
    if provider.sla.provisioning_lead_time is not None:
        promised = provider.sla.provisioning_lead_time
        times = [t for c in launches for t in c.lead_times]
        unit = common_scale("s", [promised, *times], "provisioning_lead_time")
        late = sum(t > promised for t in times)
        measured = f"measured a median of {unit.text(median(times))}, {late} of {len(times)} later" if times else "not measured"
        lines.append(f"- Lead time: promised {unit.text(promised)}, {measured}")
    return lines


def _measured(finding: Finding) -> list[str]:
    """The metrics or facts that show it, against the accepted baseline."""
    against = f" (baseline: campaign {join_words(finding.baseline_campaigns)})" if finding.baseline_campaigns else ""
    shown = [f"- {m.text}" for m in finding.members[:_MOST_LINES]] or [f"- {finding.evidence}"]
    more = len(finding.members) - _MOST_LINES
    lines = [f"- Shown by campaign {join_words(finding.campaigns)}{against}"] if finding.campaigns else []
    return [*shown, *([f"- and {more} more, in finding.json"] if more > 0 else []), *lines]


def _demand(provider: Provider | None, cost: MonthlyCost, usd: float | None) -> list[str]:
    lines = []
    sla = provider.sla if provider is not None else None
    if sla is not None and sla.clause:
        lines.append(f"Clause: {sla.clause}.")
    if sla is not None and sla.credit is not None:
        amount = f", {format_money(usd)} a month at our volume" if usd is not None else ""
        lines.append(
            f"Credit: {format_percent(sla.credit)} of the month's bill{amount}, for each month since the change until it is repaired."
        )
    else:
        lines.append("Please state the credit that our contract grants for it.")
    if cost.usd is not None and cost.usd > 0:
        lines.append(f"For comparison, the change {cost.text}.")
    return lines


def _index(pack: EvidencePack) -> dict[str, Any]:
    with zipfile.ZipFile(pack.file) as packed:
        index: dict[str, Any] = json.loads(packed.read("index.json"))
    return index


def _evidence(pack: EvidencePack, sha256: str) -> list[str]:
    index = _index(pack)
    lines = [
        f"{pack.file.name}: {pack.trials} attempts, {pack.signed} of them signed, {pack.files} files",
        f"SHA-256 {sha256}",
        "",
    ]
    for trial in index["trials"][:_MOST_TRIALS]:
        lines.append(f"- {trial['trial_id']}, attempt {trial['attempt']}: {trial['signature']}")
        lines.append(f"  document.json SHA-256 {index['files'][trial['folder'] + '/document.json']}")
    more = len(index["trials"]) - _MOST_TRIALS
    return [*lines, *([f"- and {more} more, in index.json"] if more > 0 else [])]


def _replays(pack: EvidencePack) -> list[str]:
    """The command that repeats the newest attempt."""
    last = _index(pack)["trials"][-1:]
    return [f"plumbline replay {trial['trial_id']}" for trial in last]


def _mail(subject: str, to: str, text: str, pack: EvidencePack, sha256: str) -> bytes:
    message = EmailMessage(policy=SMTP)
    message["Subject"] = subject
    message["To"] = to
    message["Date"] = format_datetime(datetime.now(timezone.utc))
    message["X-Unsent"] = "1"  # mail programs open it as a draft
    message.set_content(text)
    message.add_attachment(pack.file.read_bytes(), maintype="application", subtype="zip", filename=pack.file.name)
    message.set_boundary(f"=_{sha256[:24]}")
    return message.as_bytes()
