"""`plumbline findings`, on an archive of its own."""

from __future__ import annotations

SAME = [0.100, 0.101, 0.099, 0.1005, 0.0995]
SLOWER = [t * 1.5 for t in SAME]


def test_a_finding_is_listed_shown_and_decided(campaigns, plumbline, said):
    from plumbline.orchestration.review import review

    campaigns(before=SAME)
    review("before")
    campaigns(after=SLOWER)
    review("after")
    found, _ = said("findings")
    assert [f["kind"] for f in found] == ["performance"]
    name = found[0]["finding_id"]
    assert "step_time" in plumbline("findings", "show", name).stdout
    assert plumbline("findings", "acknowledge", name, "--why", "looking").exit_code == 0
    assert plumbline("findings", "accept", name, "--why", "new normal").exit_code == 0
    assert said("findings")[0] == []
    told, _ = said("findings", "show", name)
    assert [entry["why"] for entry in told["audit"] if entry["why"] in ("looking", "new normal")] == ["looking", "new normal"]
    _, code = said("compare", "before", "after")
    assert code == 4  # what was measured stays what it was


def test_an_unknown_finding_is_said(plumbline):
    result = plumbline("findings", "show", "000000000000")
    assert result.exit_code == 2 and "000000000000" in result.stderr


def test_a_resolved_finding_leaves_the_baseline_where_it_was(campaigns, plumbline, said):
    from plumbline.archive import open_archive
    from plumbline.orchestration.review import review

    campaigns(before=SAME)
    review("before")
    campaigns(after=SLOWER)
    review("after")
    (found,) = said("findings")[0]
    assert plumbline("findings", "resolve", found["finding_id"], "--why", "cable").exit_code == 0
    assert said("findings")[0] == []
    with open_archive() as archive:
        assert archive.baseline(found["series_key"]) == ["before"]
