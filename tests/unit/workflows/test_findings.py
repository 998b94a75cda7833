from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.alerts.test_message import FINDING

from plumbline.answers.findings import readable_findings
from plumbline.archive import FindingRecord, open_archive


@pytest.mark.fault("a stored finding of another shape", ends="an error in the log", keeps="review, prices, watch and budget go on")
def test_a_finding_of_another_shape_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        for finding_id, detail in (("whole", replace(FINDING, finding_id="whole").to_dict()), ("broken", {"members": 3})):
            archive.save_findings([FindingRecord(finding_id, "", None, "lab", "price", "warn", "a headline", detail)])
        archive.set_finding_state("whole", "acknowledged", by="ada", why="known")
        with caplog.at_level(logging.ERROR):
            (found,) = readable_findings(archive.findings_of("lab"))
    assert (found.finding_id, found.state) == ("whole", "acknowledged")
    assert "broken" in caplog.text
