"""`plumbline check`: all right, or every problem on standard error and nothing starts."""

from __future__ import annotations

import shutil

import pytest
from tests.fakes.trials import CONFIG


def test_the_shipped_declarations_are_right(plumbline, said):
    found, code = said("check")
    assert code == 0 and found["ok"]
    assert {row["provider"] for row in found["would_run"] if row["trials"]} == {"local-1core", "local-2core"}
    assert "all right" in plumbline("check").stdout


def test_a_broken_declaration_names_file_line_field_and_shape(tmp_path, plumbline, home):
    shutil.copytree(CONFIG, tmp_path / "config")
    file = tmp_path / "config" / "providers" / "local-1core.yaml"
    file.write_text(file.read_text().replace("0.02 USD/h", "0.02"))
    result = plumbline("check", "--config", str(tmp_path / "config"))
    assert result.exit_code == 2
    assert "local-1core.yaml:9  prices[0].price:" in result.stderr and "expected a price such as" in result.stderr
    assert not any(home.iterdir())


def test_on_demand_workloads_are_shown_and_not_counted(said):
    found, _ = said("check")
    assert all(row["trials"] == 0 for row in found["would_run"] if row["on_demand_only"])
    assert any(row["on_demand_only"] for row in found["would_run"])


@pytest.mark.parametrize(("patch", "code"), [("schedulerName: volcano", 0), ("affinity: {nodeAfinity: {}}", 2)])
def test_what_a_pod_patch_changes_is_shown_and_a_field_that_no_pod_has_is_refused(tmp_path, said, patch, code):
    shutil.copytree(CONFIG, tmp_path / "config")
    file = tmp_path / "config" / "providers" / "example-oke-h100.yaml"
    file.write_text(file.read_text().replace("prices:", f"  pod_patch: {{spec: {{{patch}}}}}\nprices:", 1))
    found, exit_code = said("check", "--config", str(tmp_path / "config"))
    assert exit_code == code and found["ok"] == (code == 0)
    (field, *unknown) = [row for row in found["pod_patches"] if row["provider"] == "example-oke-h100"]
    assert field["field"] == f"spec.{patch.partition(':')[0]}"
    assert [item["known"] for item in unknown] == [False] * (code // 2)
