"""The report as a whole: what it must say, what it must not load, and what it says when there is little to say."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone
from html import escape
from pathlib import Path

import pytest
from tests.browser.sample import campaign
from tests.data.plain_rows import plain_row
from tests.golden import Golden
from tests.parsed import Parsed
from tests.unit.formats.test_tool_files import DATA as IMPORTED
from tests.unit.formats.test_tool_files import FILES

from plumbline.analysis.campaign_data import CampaignData, CampaignQuality
from plumbline.analysis.conclusions import conclude
from plumbline.analysis.decisions.winner_change import LeadPart, StoredChange, WinnerChange
from plumbline.analysis.prices.book import quote
from plumbline.analysis.scorecards.scorecard import Scorecard, scorecard
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import InferenceWorkload, SimulatedLauncher, Trial
from plumbline.formats import read_benchmark_file
from plumbline.metrics.formatting import capitalize_first, format_name
from plumbline.presentation.card_tables import card_tables
from plumbline.presentation.charts.chart import Chart, log_axis
from plumbline.presentation.decisions import decision_tables, nearest_change
from plumbline.presentation.html.report import report_context, write_concluded, write_report
from plumbline.presentation.scorecard_rows import campaign_rows
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.results import Curve, LaunchRecord, PodRecord, Point, ResultDocument, ResultStore, evidence_files
from plumbline.results.published_files import published_results
from plumbline.words.decisions import note_text, why_not_texts


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> CampaignData:
    return campaign(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def report(sample: CampaignData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the sample: drawing the charts of one takes seconds."""
    return write_report(sample, tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="module")
def page(report: Path) -> str:
    return report.read_text()


@pytest.fixture(scope="module")
def markdown(report: Path) -> str:
    return report.with_name("report.md").read_text()


@pytest.fixture(scope="module")
def few_charts(tmp_path_factory: pytest.TempPathFactory) -> CampaignData:
    """One training trial, with half of the sample's charts."""
    alone = campaign(tmp_path_factory.mktemp("one"), repeats=1, names=("local-1core",))
    return replace(alone, documents=alone.documents[:1], planned=alone.planned[:1], store=None)


def _chat(trial: Trial) -> bool:
    return (trial.provider.name, trial.workload.name) == ("local-2core", "chat-tiny-cpu")


def body(page: str) -> str:
    """The page without its script."""
    return re.sub(r"<script>.*?</script>", "", page, flags=re.S)


def drawn(page: str) -> list[str]:
    """Names of the charts below the cover."""
    return [name.removeprefix("chart-") for name in Parsed(page).values("figure[id^=chart-]", "id")]


def charts(data: CampaignData) -> dict[str, Chart]:
    return {chart.name: chart for chart in report_context(conclude(data))["charts"]}


def test_it_is_one_file_that_names_nothing_to_load(page: str) -> None:
    parsed = Parsed(page)
    addresses = parsed.values("script, img, iframe", "src") + parsed.values("link", "href")
    assert [address for address in addresses if not address.startswith("data:")] == []
    assert len(page.encode()) < 1_000_000 and "plotly" not in page.lower()


def test_training_and_inference_stand_apart_with_their_trials(page: str, sample: CampaignData) -> None:
    text = body(page)
    assert text.index('id="training-gpt-tiny-cpu-v1"') < text.index('id="inference-chat-tiny-cpu-v6"')
    assert all(escape(c.text) in text for document in sample.documents for c in document.trial.workload.acceptance)
    for document in sample.documents:
        assert document.checksum in text
        assert document.trial.trial_id in text
    assert "plumbline replay 2026-11.local-1core.training.gpt-tiny-cpu.0200.r1" in text
    usable = sum(d.validity.status != "failed" for d in sample.documents if _chat(d.trial))
    planned = sum(_chat(t) for t in sample.planned)
    assert f"{usable} of {planned} trials usable" in text
    assert "Comparison class: standardised." in text


def test_every_chart_that_the_data_allows_is_there(page: str) -> None:
    costs = {name for name in drawn(page) if name.endswith(("-scenarios", "-tornado", "-parts", "-volume", "-utilisation"))}
    assert {"training-gpt-tiny-cpu-scenarios", "inference-chat-tiny-cpu-scenarios", "training-gpt-tiny-cpu-local-1core-tornado"} <= costs
    assert set(drawn(page)) - costs == {
        "cost-bill",
        "training-gpt-tiny-cpu-steps",
        "training-gpt-tiny-cpu-over-training_loss",
        "training-gpt-tiny-cpu-over-effective_tokens_per_second",
        "training-gpt-tiny-cpu-over-rank_busy_time",
        "training-gpt-tiny-cpu-repeats-step_time",
        "training-gpt-tiny-cpu-repeats-tokens_per_second",
        "training-gpt-tiny-cpu-stages",
        "inference-chat-tiny-cpu-cdf-time_to_first_token",
        "inference-chat-tiny-cpu-cdf-request_scheduled_latency",
        "inference-chat-tiny-cpu-percentiles-time_to_first_token",
        "inference-chat-tiny-cpu-percentiles-time_per_output_token",
        "inference-chat-tiny-cpu-repeats-time_to_first_token",
        "inference-chat-tiny-cpu-repeats-output_token_throughput",
        "inference-chat-tiny-cpu-stages",
    }


def test_what_grows_with_the_prompt_is_drawn_by_provider(sample: CampaignData) -> None:
    def curved(document: ResultDocument, k: int) -> ResultDocument:
        points = tuple(Point(at=at, value=(1 + k) * at * 1e-4, n=8) for at in (128, 2048))
        curve = Curve(phase="context", along="input_tokens", metric="time_to_first_token", statistic="p50", unit="s", points=points)
        return document.model_copy(update={"curves": (curve,)} if document.trial.workload.kind == "inference" else {})

    documents = tuple(curved(d, d.trial.repeat) for d in sample.documents)
    rejected = documents[3].trial
    assert (rejected.provider.name, rejected.workload.kind, rejected.repeat) == ("local-1core", "inference", 1)
    quality = {(rejected.trial_id, rejected.attempt): CampaignQuality("reject", ())}
    found = charts(replace(sample, documents=documents, quality=quality))
    assert not any("along-inter_token_latency" in name for name in found), "nobody measured that"
    first = found["inference-chat-tiny-cpu-along-time_to_first_token"].data[0]
    assert (first["name"], first["x"]) == ("local-1core", [128, 2048])
    # The median of the second and third repeats, three and four times as long; the rejected first one is left out.
    assert first["y"] == pytest.approx([128 * 0.35, 2048 * 0.35])
    assert first["error_y"]["array"] == pytest.approx([128 * 0.05, 2048 * 0.05])


def test_steps_of_the_load_are_drawn_by_their_rate(sample: CampaignData) -> None:
    points = tuple(Point(at=at, value=value, n=80) for at, value in ((8, 45.0), (16, None), (32, 20.0)))
    curve = Curve(phase="scale_out", along="offered_rate", metric="time_to_scale_out", statistic="max", unit="s", points=points)
    documents = tuple(d.model_copy(update={"curves": (curve,)}) for d in sample.documents if d.trial.workload.kind == "inference")
    drawn = charts(replace(sample, documents=documents))["inference-chat-tiny-cpu-along-time_to_scale_out"]
    assert drawn.title == "Time to scale out by offered rate"
    assert drawn.data[0]["x"] == [8, 32], "a step that never held has no point"


def test_logarithmic_ticks_say_their_whole_number() -> None:
    wide, narrow = log_axis("", [0.0, 20.0, 2000.0]), log_axis("", [83.0, 170.0])
    assert wide["ticktext"] == ["20", "50", "100", "200", "500", "1,000", "2,000"]
    assert narrow["ticktext"] == ["80", "100", "120", "150", "200"]
    assert log_axis("", [1e-3, 1e3])["ticktext"] == ["0.001", "0.01", "0.1", "1", "10", "100", "1,000"]


def test_curves_through_zero_have_no_logarithmic_scale(sample: CampaignData) -> None:
    def scales(*values: float) -> list[object]:
        points = tuple(Point(at=at, value=value, n=8) for at, value in zip((128, 2048), values, strict=True))
        curve = Curve(
            phase="context", along="input_tokens", metric="memory_growth_per_sequence", statistic="max", unit="bytes", points=points
        )
        documents = tuple(d.model_copy(update={"curves": (curve,)}) for d in sample.documents if d.trial.workload.kind == "inference")
        layout = charts(replace(sample, documents=documents))["inference-chat-tiny-cpu-along-memory_growth_per_sequence"].layout
        return [layout[axis].get("type") for axis in ("xaxis", "yaxis")]

    assert scales(4096.0, 8192.0) == ["log", "log"]
    assert scales(0.0, 8192.0) == ["log", None]


def test_nobody_wins_by_what_the_client_did_and_an_absent_tail_is_no_row() -> None:
    def card(provider: str, delay: float) -> Scorecard:
        rows = (
            plain_row("steady", "time_to_first_token", "p50", delay, "s", "lower_is_better", 50),
            plain_row("steady", "time_to_first_token", "p99", None, "s", "lower_is_better", 50),
            plain_row("steady", "request_dispatch_delay", "p99", delay, "s", "lower_is_better", 50),
        )
        numbers = [TrialSample(f"{provider}.{i}", provider, "inference", "chat", 1, "valid", "02:00", i, None, rows) for i in range(1, 7)]
        return scorecard(numbers)

    (table,) = card_tables([card("a", 0.001), card("b", 0.01)])
    rows = {(row.name, row.detail): [cell.mark for cell in row.cells] for _, group in table.groups for row in group}
    first_token = format_name("time_to_first_token")
    assert rows[first_token, "p50"] == ["best", ""]
    assert rows["request dispatch delay", "p99"] == ["", ""]
    assert (first_token, "p99") not in rows


def test_the_limits_speak_of_this_campaign(markdown: str, golden: Golden) -> None:
    golden("presentation.limitations", markdown.split("## Limits\n\n")[1].split("\n\nDetails")[0])


def test_the_first_screen_answers_who_is_first_how_sure_what_it_costs_and_what_drifted(page: str, sample: CampaignData) -> None:
    cover = Parsed(page).one("header.cover").text
    first = campaign_verdict(conclude(sample))
    assert [tile for tile in first.tiles if tile.name not in cover or tile.note not in cover] == []
    for row in first.rows:
        assert all(text in cover for text in (row.team, row.workloads, row.label, row.provider, row.certainty)), row
    assert first.headline in cover


def test_each_decision_says_what_would_change_it_soonest_and_what_is_cheapest(page: str, sample: CampaignData) -> None:
    section = Parsed(page).one("section#decisions").text
    for decided in conclude(sample).decided:
        assert nearest_change(decided) in section
        assert all(table.answer in section for table in decision_tables(decided).cheapest)


def test_a_changed_first_choice_is_drawn_beside_its_ranking(page: str, sample: CampaignData, tmp_path: Path) -> None:
    found = conclude(sample)
    choices = [decision.choice for decision in found.decisions[:2]]
    at = datetime(2026, 11, 2, tzinfo=timezone.utc)
    drawn = WinnerChange("a", "b", -0.08, 0.03, (LeadPart("price", "w", "cost_per_run", 0.11),))
    unknown = WinnerChange("a", "b", None, 0.03, unknown=("a had no results before",))
    changes = {choice: StoredChange("d1", at, change) for choice, change in zip(choices, (drawn, unknown), strict=True)}
    text = write_concluded(replace(found, winner_changes=changes), tmp_path).read_text()
    (part,) = (part.split("</details>")[0] for part in text.split('id="winner-change-')[1:])
    assert "<svg" in part and len(text) - len(page) < 8_000, "the one of unknown parts has no drawing"
    assert text.count("Why a is first instead of b, since 2026-11-02: ") == 2, "each says why beside its ranking"
    assert "the largest part: " in text and "a had no results before." in text
    assert 'id="winner-change-' not in page


def test_the_number_that_is_asked_first_and_the_shares_stand_first(page: str, sample: CampaignData) -> None:
    training = Parsed(page).one("section#training").text
    rows = campaign_rows(sample, conclude(sample).cards)[0]
    assert rows.primary is not None
    assert training.index(capitalize_first(rows.primary.name)) < training.index("Acceptance criteria") < training.index("Scorecard")
    assert all(share.sentence in training for share in rows.first_shares)
    assert "Launches, lead time" in training and "Manual steps" in training and "Refused" in training


def test_every_line_of_the_bills_is_there_with_its_source(page: str) -> None:
    cost = Parsed(page).one("section#cost").text
    for text in (
        "0.02 USD/instance-hour",
        "start, probes, warm-up and stop",
        "list, since 2026-01-01",
        "no overhead is declared for local-1core",
    ):
        assert text in cost


def test_costs_name_their_basis(page: str, sample: CampaignData) -> None:
    assert all(escape(str(quote(p, sample.written_at.date()).basis)) in body(page) for p in sample.providers.values())


def test_without_a_price_there_is_a_reason_and_no_zero(few_charts: CampaignData, tmp_path: Path) -> None:
    free = few_charts.providers["local-1core"].model_copy(update={"prices": ()})
    unpriced = replace(few_charts, providers={"local-1core": free})
    text = body(write_report(unpriced, tmp_path).read_text())
    assert escape(quote(free, unpriced.written_at.date()).reason) in text
    reasons = [why for d in conclude(unpriced).decisions for r in d.ranking if r.provider == "local-1core" for why in why_not_texts(r)]
    assert any("cost_per_1m_trained_tokens" in why for why in reasons) and all(escape(why) in text for why in reasons)


def test_hostile_text_stays_text(few_charts: CampaignData, tmp_path: Path) -> None:
    bad = '</script><script>alert("x")</script><img src=x>|`'
    finding = replace(few_charts.findings[0], headline=bad, explanation=bad)
    page = write_report(replace(few_charts, reason=bad, findings=(finding,)), tmp_path)
    assert "<script>alert" not in page.read_text()
    assert "<img src=x>" not in body(page.read_text())
    assert "<script>" not in (tmp_path / "2026-11" / "report.md").read_text()


@pytest.mark.fault("a report's evidence is damaged", ends="the report says so", keeps="the rest of the report")
def test_damaged_evidence_is_said_and_not_drawn(tmp_path: Path) -> None:
    broken = campaign(tmp_path / "results", repeats=2, names=("local-1core",))
    assert broken.store is not None
    victim = broken.documents[0]
    broken.store.put(f"{broken.store.folder(victim.trial)}/evidence/steps.parquet", b"not parquet")
    page = write_report(broken, tmp_path / "reports").read_text()
    assert re.search(r"Charts exclude.*steps\.parquet", Parsed(page).text)
    assert len(charts(broken)["training-gpt-tiny-cpu-steps"].data) == 1


@pytest.mark.full
def test_evidence_that_expired_is_said_with_its_rule(sample: CampaignData, tmp_path: Path) -> None:
    aged = campaign(tmp_path / "results")
    assert aged.store is not None
    folder = aged.store.folder(aged.documents[0].trial)
    aged.store.remove(f"{folder}/evidence/steps.parquet")
    day, rule = datetime(2026, 12, 1, tzinfo=timezone.utc), "evidence.keep: 30d"
    evidence_files.record_expired(aged.store, folder, ["evidence/steps.parquet"], day, rule)
    text = body(write_report(aged, tmp_path / "reports").read_text())
    assert f"steps.parquet expired on {day:%Y-%m-%d} ({rule})" in text


@pytest.mark.full
def test_without_a_store_the_distributions_are_left_out_and_that_is_said(sample: CampaignData, tmp_path: Path) -> None:
    page = write_report(replace(sample, store=None), tmp_path).read_text()
    assert not [name for name in drawn(page) if "cdf" in name or name.endswith("steps")]
    assert "no distribution charts" in body(page)


def test_nothing_measured_is_a_report_too(sample: CampaignData, tmp_path: Path) -> None:
    page = write_report(replace(sample, documents=(), findings=(), drift=()), tmp_path)
    text = body(page.read_text())
    assert "12 missing" in text
    assert drawn(page.read_text()) == []
    empty = body(write_report(replace(sample, documents=(), planned=(), findings=(), drift=()), tmp_path / "none").read_text())
    assert "no trials" in empty
    assert "No training trials." in empty


def test_one_provider_and_one_repeat_lead_nobody(tmp_path: Path) -> None:
    alone = campaign(tmp_path / "results", repeats=1, names=("local-1core",))
    found = conclude(alone)
    assert {d.winner for d in found.decisions} == {None}
    text = body(write_report(alone, tmp_path / "reports").read_text())
    assert all(decision.note and escape(note_text(decision.note)) in text for decision in found.decisions)
    assert "<em>best</em>" not in text


def test_a_rejected_trial_is_shown_and_never_scored(few_charts: CampaignData, sample: CampaignData, tmp_path: Path) -> None:
    victim = sample.documents[0].trial
    data = replace(sample, quality={(victim.trial_id, victim.attempt): CampaignQuality("reject", ("impossible: p99 below p50",))})
    card = next(c for c in conclude(data).cards if (c.provider, c.kind) == ("local-1core", "training"))
    assert card.counts["invalid"] == 1
    row = card.row("step_time")
    assert row is not None
    assert victim.trial_id not in row.trials
    assert victim == few_charts.documents[0].trial
    text = body(write_report(replace(few_charts, quality=data.quality), tmp_path).read_text())
    assert '<span class="chip rejected">rejected</span>' in text


@pytest.mark.full
def test_writing_twice_replaces_the_report_and_leaves_no_draft(sample: CampaignData, tmp_path: Path) -> None:
    first = write_report(sample, tmp_path).read_text()
    again = write_report(sample, tmp_path)
    assert again.read_text() == first
    assert sorted(f.name for f in again.parent.iterdir()) == ["report.html", "report.md"]


def test_drawings_share_classes_and_keep_what_their_ids_name(page: str) -> None:
    parsed = Parsed(page)
    drawings = parsed.all("svg.drawn")
    assert drawings and not any(drawing.all("[style]") for drawing in drawings)
    used = {name for drawing in drawings for name in drawing.values("[class]", "class") if re.fullmatch(r"\['d\d+'\]", name)}
    assert {name.strip("[']") for name in used} == set(re.findall(r"\.drawn \.(d\d+)\{[^}]+\}", page))
    for drawing in drawings:
        assert set(re.findall(r"#(\w+)[\"\)]", str(drawing.tag))) <= set(drawing.values("[id]", "id"))
    ids = parsed.values("[id]", "id")
    assert len(ids) == len(set(ids))


def test_a_title_that_cells_share_stands_once_and_the_others_at_their_cells(page: str) -> None:
    for group in Parsed(page).all("table.card.cells")[0].all("tbody"):
        assert group.tag["title"] not in group.values("[title]", "title")


def test_the_first_table_of_a_kind_explains_its_metrics_and_the_next_ones_link_to_it(sample: CampaignData, page: str) -> None:
    for kind in ("training", "inference"):
        first, *others = [t for t in card_tables(conclude(sample).cards) if t.kind == kind]
        assert f'explained in <a href="#{first.anchor}"' in page or not others
        row = next(r for _, rows in first.groups for r in rows if not r.minor)
        assert page.count(f"<small>{escape(row.meaning)}</small></th>") == 1


def test_markdown_is_the_cover_and_what_it_rests_on(sample: CampaignData, markdown: str) -> None:
    first = campaign_verdict(conclude(sample))
    assert markdown.startswith(f"# {first.headline}\n")
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert all(any(row.team in line and row.label in line and row.provider in line for line in rows) for row in first.rows)
    assert markdown.split("## Causes")[1].split("\n## ")[0].count("\n- **page** ") == len(sample.findings) > 0
    assert len(markdown) < 10_000


@pytest.mark.full
def test_the_store_may_be_anywhere(sample: CampaignData, tmp_path: Path) -> None:
    assert isinstance(sample.store, ResultStore)
    page = write_report(replace(sample, store=ResultStore("memory://nothing-here")), tmp_path)
    assert "/steps.parquet is missing" in body(page.read_text())


def test_images_are_charted_by_samples_since_they_have_no_tokens(sample: CampaignData) -> None:
    def without_tokens(document: ResultDocument) -> ResultDocument:
        return document.model_copy(update={"metrics": tuple(row for row in document.metrics if "tokens" not in row.metric)})

    documents = tuple(without_tokens(d) if d.trial.workload.kind == "training" else d for d in sample.documents)
    names = set(charts(replace(sample, documents=documents)))
    assert "training-gpt-tiny-cpu-repeats-samples_per_second" in names
    assert "training-gpt-tiny-cpu-repeats-tokens_per_second" not in names


@pytest.mark.full
def test_the_environment_names_what_the_cluster_said_of_its_pods(sample: CampaignData, tmp_path: Path) -> None:
    pods = (PodRecord(name="p0", rank=0, facts={"kubernetes.version": "v1.33.1"}),)
    launch = LaunchRecord(launcher="kubernetes", events=(), pods=pods)
    documents = (sample.documents[0].with_launch(launch), *sample.documents[1:])
    assert "v1.33.1" in body(write_report(replace(sample, documents=documents), tmp_path).read_text())


def test_a_simulated_provider_is_never_ranked_among_measured_ones(sample: CampaignData) -> None:
    def providers(*simulated: str) -> set[str]:
        launcher = SimulatedLauncher(kind="simulated")
        changed = {n: p.model_copy(update={"launcher": launcher}) if n in simulated else p for n, p in sample.providers.items()}
        found = conclude(replace(sample, providers=changed)).decisions
        return {r.provider for decision in found for r in decision.ranking}

    assert providers() == {"local-1core", "local-2core"}
    assert providers("local-1core") == {"local-2core"}
    assert providers("local-1core", "local-2core") == {"local-1core", "local-2core"}


def test_imported_runs_stand_beside_and_in_no_score(sample: CampaignData, page: str, tmp_path: Path) -> None:
    raw = (IMPORTED / FILES["aiperf"]).read_bytes()
    (chat,) = {d.trial.workload.name: d.trial.workload for d in sample.documents if _chat(d.trial)}.values()
    assert isinstance(chat, InferenceWorkload)
    runs = published_results(read_benchmark_file(raw, "run.json", "aiperf"), raw, "run.json", sample.providers["local-2core"], chat)
    target = write_report(replace(sample, imported=tuple(runs)), tmp_path)
    text, plain = body(target.read_text()), (target.parent / "report.md").read_text()
    assert 'id="imported"' in text and 'id="imported"' not in body(page)
    for code in ("other_load", "closed_loop", "coordinated_omission"):
        assert f"<code>{code}</code>" in text and f"`{code}`" in plain
    shown = {(m.metric, m.statistic) for m in runs[0].metrics if m.statistic in ("value", "p50", "p95", "p99")}
    assert len(Parsed(text).one("section#imported").rows) == 1 + len(shown)
    # Without the section the report is the same: nothing was scored or ranked by it.
    assert drawn(target.read_text()) == drawn(page)
