"""Quality: whether a campaign's results are well-formed, plausible and complete, judged as a table by Great Expectations."""

from plumbline.quality.check import check
from plumbline.quality.report import FailedExpectation, QualityReport, Verdict

__all__ = ["FailedExpectation", "QualityReport", "Verdict", "check"]
