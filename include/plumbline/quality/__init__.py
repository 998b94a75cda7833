"""Data quality of a campaign's results, checked as tables by Great Expectations."""

from plumbline.quality.check import check
from plumbline.quality.report import QualityReport, Verdict
