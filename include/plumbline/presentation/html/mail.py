"""The cover of a report as a mail: HTML that mail clients show (tables, inline styles, charts as PNG), a text part, the report attached."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path

from plumbline.analysis.conclusions import Conclusions
from plumbline.presentation.charts.fleet import cover_charts
from plumbline.presentation.charts.static import light_colours, png
from plumbline.presentation.html.report import report_templates
from plumbline.presentation.verdicts import campaign_verdict


def write_mail(conclusions: Conclusions, report: Path, to: Sequence[str] = ()) -> Path:
    """`report.eml` beside the report: a draft to open, address and send. `to`: its recipients.

    `report`: the HTML file that `write_report` wrote; the text part is the Markdown beside it.
    """
    page_one = campaign_verdict(conclusions)
    campaign = conclusions.campaign
    message = EmailMessage(policy=SMTP)
    message["Subject"] = page_one.headline
    message["To"] = ", ".join(to)
    message["Date"] = format_datetime(campaign.written_at)
    message["X-Unsent"] = "1"  # mail programs open it as a draft
    message.set_content(report.with_suffix(".md").read_text(encoding="utf-8"))
    colours = light_colours()
    pictures = [(f"{chart.name}@plumbline", chart, png(chart, colours)) for chart in cover_charts(conclusions)]
    page = report_templates().get_template("mail.html.j2")
    written_at = campaign.written_at.strftime("%d %B %Y, %H:%M UTC").lstrip("0")
    html = page.render(page_one=page_one, campaign=campaign, written=written_at, pictures=pictures, colours=colours)
    message.add_alternative(html, subtype="html")
    html_part = message.get_body(("html",))
    assert isinstance(html_part, EmailMessage)  # added above
    for name, _, data in pictures:
        html_part.add_related(data, "image", "png", cid=f"<{name}>", filename=f"{name.partition('@')[0]}.png", disposition="inline")
    message.add_attachment(report.read_bytes(), maintype="text", subtype="html", filename=report.name)
    # The same report gives the same bytes.
    boundaries(message, hashlib.sha256(html.encode()).hexdigest()[:24])
    target = report.with_suffix(".eml")
    target.write_bytes(message.as_bytes())
    return target


def check_recipients(to: Sequence[str]) -> None:
    """ValueError for a recipient that is no mail address."""
    for address in to:
        if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", address):
            raise ValueError(f'--to "{address}" is no mail address; expected one such as ada@example.com')


def boundaries(message: EmailMessage, seed: str) -> None:
    """Name the boundaries of all parts after `seed` instead of by chance."""
    for i, part in enumerate(p for p in message.walk() if p.is_multipart()):
        part.set_boundary(f"=_{seed}_{i}")
