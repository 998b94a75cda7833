"""Findings an archive holds whose campaign it does not: which one found them plays no part in how they are told."""

from dataclasses import replace

from plumbline.archive import Archive
from plumbline.results.finding import Finding
from plumbline.workflows.findings import finding_record


def keep(archive: Archive, *findings: Finding) -> None:
    archive.save_findings([replace(finding_record(finding), campaign_id=None) for finding in findings])
