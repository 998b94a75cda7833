"""Plans in `plumbline cost break-even`, and the command `plumbline cost plan` that says the same."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from plumbline.cli.cost_forecast import cost
from plumbline.declarations.installation import REPOSITORY

EXAMPLES = REPOSITORY / "include" / "config" / "plans"


def run(*words: str):
    return CliRunner().invoke(cost, ["break-even", *words])


def test_the_examples_are_shown_line_by_line(home):
    shown = run("--plan", str(EXAMPLES / "example-chat-50m-requests.yaml")).stdout
    for words in (
        "50,000,000 request",
        "0.0005 USD/request",
        "25,000.00 USD",
        "6,800.00 USD",
        "15,000.00 USD",
        "21,800.00 USD",
        "−3,200.00 USD",
    ):
        assert words in shown
    assert "49,160.00 USD" in run("--plan", str(EXAMPLES / "example-training-500h.yaml")).stdout


def test_a_plan_may_be_typed(home):
    result = run("--line", "gpu: 500 instance-hours at 98.32 USD/instance-hour", "--json")
    (option,) = json.loads(result.stdout)["options"]
    assert result.exit_code == 0 and option["total"] == {"amount": 49160.0, "currency": "USD"} and option["complete"]


def test_what_does_not_fit_is_refused_with_both_named(home, tmp_path):
    for words, said in (
        (("--line", "egress: 30 GB-months at 0.09 USD/GB"), "0.09 USD/GB does not price 30 GB-month"),
        (("--line", "gpu: 1 h at 1 USD/h", "--line", "egress: 1 GB at 1 EUR/GB"), "cannot add 1.00 EUR (egress) to 1.00 USD (gpu)"),
        (("--line", "gpu: 5 at 3 USD/h"), '"5" is not a number with its unit'),
        (("--line", "gpu"), '"gpu" is not a line'),
        (("--plan", "a.yaml", "--line", "gpu: 1 h at 1 USD/h"), "expected either a plan's file or at least one --line"),
        (("lab", "chat", "--plan", "a.yaml"), "expected PROVIDER WORKLOAD, --plan or --line"),
        (("--plan", "a.yaml", "--growth", "5%/month"), "--growth and --purchase are of PROVIDER WORKLOAD"),
        (("--line", "gpu: 1 h at 1 USD/h", "--purchase", "spot"), "--growth and --purchase are of PROVIDER WORKLOAD"),
        (("--line", "gpu: 1 h at 1 USD/h", "--on", "soon"), '--on "soon" is not a day'),
        ((), "expected PROVIDER and WORKLOAD, or --plan"),
        (("--plan", str(tmp_path / "nothing.yaml")), "is not a file"),
    ):
        result = run(*words)
        assert result.exit_code == 2 and said in result.stderr


def test_a_provider_that_nobody_declares_is_named(home, tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("name: p\noptions:\n  - name: a\n    lines:\n      - {item: gpu, quantity: 1 instance-hour, provider: nobody}\n")
    result = run("--plan", str(path))
    assert result.exit_code == 2 and '"nobody"' in result.stderr


def test_the_command_of_a_plan_prints_the_same(home):
    plan, line = str(EXAMPLES / "example-chat-50m-requests.yaml"), "gpu: 500 instance-hours at 98.32 USD/instance-hour"
    for before, now in (((plan,), ("--plan", plan)), (("--line", line, "--json"), ("--line", line, "--json"))):
        old, new = CliRunner().invoke(cost, ["plan", *before]), run(*now)
        assert old.exit_code == new.exit_code == 0 and old.stdout == new.stdout
    assert CliRunner().invoke(cost, ["plan"]).exit_code == 2
    assert "--plan" in run("--help").stdout and " plan " not in CliRunner().invoke(cost, ["--help"]).stdout.replace("plans", "")
