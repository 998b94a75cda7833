"""The declaration of the upkeep: units, bounds, and what holds if nothing is declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.declarations import DeclarationError, load
from plumbline.declarations.installation import Upkeep


def test_what_is_shipped_keeps_half_a_year_and_exports_nothing() -> None:
    shipped = load().upkeep
    assert (shipped.evidence.keep, shipped.evidence.read_every, shipped.export) == (180 * 86400, 30 * 86400, None)


def test_without_the_file_no_evidence_is_ever_deleted(config: Path) -> None:
    assert not (config / "upkeep.yaml").exists()
    assert load(config).upkeep == Upkeep()
    assert Upkeep().evidence.keep is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("evidence: {keep: 180}", 'evidence.keep: "180" has no unit'),
        ("evidence: {keep: 2h}", "evidence.keep: "),
        ("evidence: {kept: 180d}", "did you mean keep?"),
        ("evidence: {read_every: 2000d}", "evidence.read_every: "),
        ("keep: {logs: 1h}", "keep.logs: "),
        ("keep: {report: 30d}", "did you mean reports?"),
        ("export: {to: /tmp/x}", "export.to: "),
        ("export: {connection: aws}", "export.to: is missing"),
    ],
)
def test_what_is_wrong_is_told_with_file_line_and_field(config: Path, text: str, said: str) -> None:
    (config / "upkeep.yaml").write_text(f"# first\n{text}\n")
    with pytest.raises(DeclarationError) as told:
        load(config)
    assert said in str(told.value)
    assert "upkeep.yaml:2" in str(told.value)


def test_a_part_is_kept_for_ever_by_null(config: Path) -> None:
    (config / "upkeep.yaml").write_text("keep: {logs: null, reports: 30d}\n")
    keep = load(config).upkeep.keep
    assert (keep.logs, keep.reports, keep.data_docs) == (None, 30 * 86400, 180 * 86400)


def test_a_place_of_each_kind_may_be_exported_to(config: Path) -> None:
    for url in ("s3://bucket/a", "gs://bucket", "az://container/a", "file:///srv/exports"):
        (config / "upkeep.yaml").write_text(f'export: {{to: "{url}", connection: plumbline_export}}\n')
        export = load(config).upkeep.export
        assert export is not None and (export.to, export.connection) == (url, "plumbline_export")
