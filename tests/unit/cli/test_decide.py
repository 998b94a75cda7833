"""`plumbline decide`, and what a price that somebody accepts does to the decisions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.data.result_documents import failed, trial
from tests.fakes.labs import CHEAP, FAST, measure, serve, spread, team, world, write

from plumbline.archive import open_archive
from plumbline.workflows import decide

COST_GATE = "cost_per_1m_trained_tokens <= 0.10USD in steady"


@pytest.fixture
def labs(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation with two labs: the fast one is a tenth faster at twice the price."""
    declared = world()
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(write(declared, tmp_path / "config")))
    with open_archive() as archive:
        measure(archive, declared, {FAST: spread(0.090), CHEAP: spread(0.1)})
        serve(archive, declared, {FAST: spread(0.04), CHEAP: spread(0.05)})


@pytest.mark.usefixtures("labs")
def test_one_workload_of_one_team(plumbline):
    result = plumbline("decide", "--team", "platform", "--workload", "gpt-test", "--trials", "-v")
    assert result.exit_code == 0, result.stderr
    for expected in (
        "Team platform · training · gpt-test",
        "What another weight would change:",
        "What another price would change:",
        f"%: {FAST}",
        "Comparison class: standardised.",
        f"The cheapest setup that meets the requirement of gpt-test (nothing is required), by cost per 1M trained tokens: {CHEAP} at ",
        f"2025-11.{CHEAP}.training.gpt-test.0200.r1",
    ):
        assert expected in result.stdout, expected
    assert "SIMULATED" not in result.stdout and "chat-test" not in result.stdout
    short = plumbline("decide", "--team", "platform", "--workload", "gpt-test").stdout
    assert " % sure" in short and "What another" not in short and "Gate " not in short
    assert len(short.splitlines()) < len(result.stdout.splitlines()) - 8


@pytest.mark.usefixtures("labs")
def test_gates_say_what_they_were_judged_on_and_who_fails(plumbline, tmp_path):
    shown = plumbline("decide", "--kind", "inference", "-v").stdout
    assert re.search(rf"error_rate <= 1%.*{FAST} 0\.00 %.*{CHEAP} 0\.00 %", shown), shown
    strict = team(
        inference={"workloads": ["chat-test"], "weights": {"time_to_first_token": 1.0}, "gates": ["p95 request_latency <= 70ms in steady"]}
    )
    write(world(teams=(strict,)), tmp_path / "config")
    shown = plumbline("decide", "--kind", "inference", "-v").stdout
    assert f"{FAST} 60.0 ms, {CHEAP} 75.0 ms (fails)" in shown, shown
    assert re.search(rf'{CHEAP} .*"p95 request_latency <= 70ms in steady".*chat-test', shown), shown
    assert f"Only {FAST} is eligible" in shown


@pytest.mark.usefixtures("labs")
def test_every_choice_as_data_with_the_trials_behind_each_number(said):
    told, code = said("decide")
    assert code == 0 and [(d["team"], d["kind"]) for d in told["decisions"]] == [("platform", "training"), ("platform", "inference")]
    first = told["decisions"][0]["ranking"][0]
    assert first["provider"] == CHEAP and len(first["trials"]) == 3 and told["kept"] == []
    assert told["decisions"][1]["ranking"][0]["gates"][0]["passed"]
    unknown = {"code": "cost_without", "text": "Cost is without egress, storage, engineering (all: not declared)"}
    assert told["decisions"][0]["comparison"] == {"kind": "standardised", "differences": [], "limitations": [unknown]}


@pytest.mark.usefixtures("labs")
def test_other_weights_are_tried_and_never_stored(said, plumbline):
    told, _ = said("decide", "--workload", "gpt-test", "--weights", "tokens_per_second=0.95")
    assert told["decisions"][0]["ranking"][0]["provider"] == FAST
    assert told["decisions"][0]["preference"]["weights"] == pytest.approx({"tokens_per_second": 0.95, "cost_per_1m_trained_tokens": 0.05})
    for words, expected in (
        (("--weights", "tokens_per_second=0.9"), "expected a team with a workload"),
        (("--workload", "gpt-test", "--weights", "tokens_per_second=fast"), "is no weight; expected a metric and a number"),
        (("--workload", "gpt-test", "--weights", "goodput=0.5"), '"goodput" is not weighed here'),
        (("--workload", "gpt-test", "--weights", "tokens_per_second=0.9", "--keep"), "--keep stores the declared decisions"),
    ):
        result = plumbline("decide", *words)
        assert result.exit_code == 2 and expected in result.stderr, words
    with open_archive() as archive:
        assert archive.decisions() == []


@pytest.mark.usefixtures("labs")
def test_what_nobody_decides_about_or_ran_is_said_with_what_there_is(plumbline):
    for words, expected in (
        (("--team", "finance"), 'no team is called "finance"; expected one of platform'),
        (("--workload", "chat-8b"), "no team decides about chat-8b; decided about: chat-test (platform, inference)"),
        (
            ("--team", "platform", "--workload", "gpt-test", "--kind", "inference"),
            "team platform does not decide about gpt-test in inference",
        ),
    ):
        result = plumbline("decide", *words)
        assert result.exit_code == 2 and expected in result.stderr, result.stderr


def test_without_results_nothing_is_decided(home, tmp_path, monkeypatch, plumbline):
    with open_archive() as archive:
        archive.record(failed(trial(campaign="first")), uri="file:///first")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(write(world(), tmp_path / "config")))
    result = plumbline("decide", "--workload", "gpt-test")
    assert result.exit_code == 2 and "gpt-test" in result.stderr


@pytest.mark.usefixtures("labs")
def test_a_price_that_is_accepted_re_ranks_all_decisions_at_once(plumbline, said):
    """Must show: no rerun, and a finding says that the first choice changed; also where no decision was stored before."""
    result = plumbline("prices", "accept", FAST, "--price", "0.5", "--why", "a new contract")
    assert result.exit_code == 0, result.stderr
    assert re.search(rf"platform.*training gpt-test.*{FAST}.*{CHEAP}", result.stdout)
    (finding,) = said("findings")[0]["findings"]
    assert finding["kind"] == "price" and finding["headline"].startswith(f"{FAST} cut its price 50 %")
    shown = plumbline("findings", "show", finding["finding_id"]).stdout
    assert "plumbline decide --team platform --kind training --workload gpt-test" in shown
    assert plumbline("decide", "--keep").stdout.count("unchanged: ") == 2
    result = plumbline("findings", "accept", finding["finding_id"], "--why", "we move")
    assert result.exit_code == 0, result.stderr
    assert said("findings")[0]["findings"] == []


@pytest.mark.usefixtures("labs")
def test_while_somebody_else_ranks_no_price_is_accepted_and_it_says_so(plumbline, monkeypatch):
    monkeypatch.setattr(decide, "PATIENCE_S", 0.1)
    with open_archive() as archive:
        with archive.alone(decide.LOCK, 1) as had:
            assert had
            result = plumbline("prices", "accept", FAST, "--price", "0.5", "--why", "a new contract")
        assert result.exit_code == 2 and "decision lock" in result.stderr and "Traceback" not in result.stderr
        assert archive.prices(FAST) == []
    assert plumbline("prices", "accept", FAST, "--price", "0.5", "--why", "a new contract").exit_code == 0


@pytest.mark.usefixtures("labs")
def test_the_steps_of_a_changed_first_choice_add_up(plumbline):
    plumbline("decide", "--keep")
    first = plumbline("decide", "--kind", "training").stdout
    other = CHEAP if f"{FAST} is first" in first else FAST
    assert "instead of" not in plumbline("decide", "--kind", "training", "-v").stdout
    plumbline("prices", "accept", other, "--price", "0.01", "--why", "a new contract")
    shown = plumbline("decide", "--kind", "training", "-v").stdout
    why, _, part = shown.split(f"{other} is first instead of")[1].partition("lead, about percent")
    assert f"{other} cut its price" in " ".join(why.split()), "the largest part"
    values = [float(v.replace("−", "-")) for v in re.findall(r"[+−][0-9]+\.[0-9]", part)]
    end = next(i for i, v in enumerate(values) if i and sum(values[:i]) == pytest.approx(v, abs=0.2))
    assert values[0] < 0 < values[end]


def test_the_repeats_that_raise_the_certainty_most_per_usd(said, plumbline, home, tmp_path, monkeypatch):
    declared = world()
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(write(declared, tmp_path / "config")))
    with open_archive() as archive:
        serve(archive, declared, {FAST: [0.045, 0.05, 0.055], CHEAP: [0.0455, 0.0505, 0.0555]})
        measure(archive, declared, {FAST: spread(0.01), CHEAP: spread(0.1)})
    told, _ = said("decide")
    open_choice = next(d for d in told["decisions"] if d["kind"] == "inference")
    assert next(d for d in told["decisions"] if d["kind"] == "training")["experiments"] == [], "one is ten times as fast"
    named = {e["provider"]: e for e in open_choice["experiments"]}
    assert open_choice["experiments"][0]["provider"] == CHEAP, "the same gain at half the price"
    assert {e["n"] for e in named.values()} == {3} and all(e["gain"] >= 0.005 and e["trials"] == e["repeats"] for e in named.values())
    per_trial = {name: e["usd"] / e["trials"] for name, e in named.items()}
    assert per_trial[FAST] == pytest.approx(2 * per_trial[CHEAP])
    shown = plumbline("decide", "--kind", "inference", "-v").stdout.split("Next best experiment:")[1]
    assert f"3 → {named[CHEAP]['trials']}" in shown and "points" in shown
    assert "Next best experiment" not in plumbline("decide", "--kind", "inference").stdout


@pytest.mark.usefixtures("labs")
def test_somebody_is_first_where_nobody_was(plumbline, tmp_path):
    """A gate on the cost of a run that nobody kept, until a price fell."""
    strict = team(training={"workloads": ["gpt-test"], "weights": {"tokens_per_second": 1.0}, "gates": [COST_GATE]})
    write(world(teams=(strict,)), tmp_path / "config")
    result = plumbline("prices", "accept", FAST, "--price", "0.01", "--why", "a new contract")
    assert result.exit_code == 0 and f"first is {FAST}, was none" in result.stdout, result.stdout


@pytest.mark.usefixtures("labs")
def test_decisions_are_kept_with_the_reason(said):
    told, code = said("decide", "--keep", "--why", "the quarterly look")
    assert code == 0 and [one["new"] for one in told["kept"]] == [True, True]
    with open_archive() as archive:
        assert {d.detail["why"] for d in archive.decisions()} == {"the quarterly look"}
    assert not any(one["new"] for one in said("decide", "--keep")[0]["kept"])


def test_a_price_of_a_simulated_provider_changes_no_cost_and_says_so(home, plumbline):
    """Its simulation says what it costs, so that a rehearsal's price changes are its own."""
    open_archive().close()
    told = {name: plumbline("prices", "accept", name, "--price", "0.5", "--why", "a try") for name in ("simulated-h100", "local-2core")}
    assert all(result.exit_code == 0 for result in told.values()), told["simulated-h100"].stderr
    assert "its costs stay what its simulation declares" in told["simulated-h100"].stdout and "simulation" not in told["local-2core"].stdout
