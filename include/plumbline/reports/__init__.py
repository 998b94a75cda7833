"""Reports of a campaign: one self-contained HTML file and the same in Markdown."""

from plumbline.reports.conclusions import Conclusions, conclude
from plumbline.reports.content import CampaignData, FindingRow, Quality, SeriesDrift
from plumbline.reports.numbers import campaign_numbers, numbers_of
from plumbline.reports.write import write

__all__ = [
    "CampaignData",
    "Conclusions",
    "FindingRow",
    "Quality",
    "SeriesDrift",
    "campaign_numbers",
    "conclude",
    "numbers_of",
    "write",
]
