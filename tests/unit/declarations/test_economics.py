"""Economics as people declare them: which entry counts, and each mistake named with file, line, field and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.declarations.test_broken import only_problem

from plumbline.declarations import load
from plumbline.declarations.economics import Economics

WHOLE = """\
assumptions:
  - provider: "h*"
    workload: chat
    utilisation: {low: 30%, expected: 55%, high: 80%}
    price: {low: 0.8x, expected: 1x, high: 1.1x}
    price_per_hour:
      - {purchase: spot, low: 14 USD/h, expected: 20 USD/h, high: 34 USD/h}
    failure_rate: {low: 0%, expected: 1%, high: 2%}
    egress: {low: 1GB, expected: 2GB, high: 3GB}
    volume: {requests: 50000000}
    always_on: 1
    engineering: 15000 USD/month
    source: a test
  - utilisation: {low: 10%, expected: 20%, high: 30%}
    run: {time: 500h}
    source: the rest
spot:
  - {provider: here, interruptions: 0.05/h, since: 2026-11-01, source: a test}
hosted:
  - {name: elsewhere, workloads: [chat], input: 0.20 USD/1M tokens, output: 0.40 USD/1M tokens, since: 2026-11-01, source: a test}
  - {name: by-requests, workloads: [chat], request: 0.50 USD/1k requests, since: 2026-11-01, source: a test}
"""


@pytest.fixture
def declared(config: Path) -> Path:
    (config / "economics.yaml").write_text(WHOLE)
    return config


def test_the_whole_file(declared: Path) -> None:
    found = load(declared).economics
    first = found.assumptions[0]
    assert first.utilisation is not None and first.utilisation.expected == 0.55
    assert (first.engineering, first.egress and first.egress.high) == (15_000.0, 3e9)
    assert found.hosted[0].input == pytest.approx(0.2e-6, rel=1e-15)
    assert found.hosted[1].request == 0.0005
    rate = found.interruptions("here")
    assert rate is not None and rate.interruptions == pytest.approx(0.05 / 3600, rel=1e-12)
    assert Economics.model_validate_json(found.model_dump_json()) == found


def test_of_each_figure_the_first_entry_that_fits_and_says_it(declared: Path) -> None:
    found = load(declared).economics
    utilisation = found.assumed("utilisation", "here", "chat")
    assert utilisation is not None and (utilisation.value.low, utilisation.source) == (0.3, "a test")
    run = found.assumed("run", "here", "chat")
    assert run is not None and (run.value.time, run.source) == (500 * 3600, "the rest")
    other = found.assumed("utilisation", "here", "gpt")
    assert other is not None and other.value.low == 0.1
    assert found.assumed("storage", "here", "chat") is None
    spot = found.price_per_hour("here", "chat", "spot")
    assert spot is not None and spot.value.expected == 20.0
    assert found.price_per_hour("here", "chat", "on_demand") is None
    assert found.price_per_hour("here", "gpt", "spot") is None
    assert [each.name for each in found.hosted_for("chat")] == ["elsewhere", "by-requests"]
    assert found.hosted_for("gpt") == () and found.interruptions("there") is None


def test_without_the_file_nothing_is_known(config: Path) -> None:
    found = load(config).economics
    assert found == Economics() and found.assumed("utilisation", "here", "chat") is None


@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        ("{low: 30%, expected: 55%, high: 80%}", "{low: 60%, expected: 55%, high: 80%}", "4  assumptions[0].utilisation", "does not rise"),
        ("high: 80%}", "high: 180%}", "4  assumptions[0].utilisation.high", "a percentage up to 100%"),
        ("high: 2%}", "high: 100%}", "8  assumptions[0].failure_rate.high", "nothing would ever be delivered"),
        ("low: 0.8x", "low: 0.8", "5  assumptions[0].price.low", "expected a multiple such as 1.2x"),
        ("high: 34 USD/h", "high: 34 EUR/h", "7  assumptions[0].price_per_hour[0].high", 'the unit "EUR/h"'),
        ("high: 3GB}", "high: 3GB/month}", "9  assumptions[0].egress.high", "expected a size such as 8GiB"),
        ("{requests: 50000000}", "{}", "10  assumptions[0].volume", "names nothing; expected exactly one of requests"),
        ("{requests: 50000000}", "{requests: 1, output_tokens: 2}", "10  assumptions[0].volume", "requests and output_tokens"),
        ("15000 USD/month", "15000 USD", "12  assumptions[0].engineering", "such as 15000 USD/month"),
        ("    run: {time: 500h}", "    run: {hours: 500}", "15  assumptions[1].run.hours", "unknown key"),
        ("workload: chat\n", "workload: chta\n", "3  assumptions[0].workload", 'no workload is called "chta"; expected one of chat'),
        ("{provider: here, i", "{provider: hree, i", "18  spot[0].provider", 'no provider is called "hree"; expected one of here'),
        ("interruptions: 0.05/h", "interruptions: 0.05", "18  spot[0].interruptions", "expected a rate such as 8/s"),
        ("workloads: [chat], request", "workloads: [caht], request", "21  hosted[1].workloads[0]", "expected one of chat"),
        ("name: by-requests", "name: elsewhere", "21  hosted[1].name", "elsewhere"),
        ("output: 0.40 USD/1M tokens, ", "", "20  hosted[0]", "expected either both input and output"),
        ("request: 0.50 USD/1k requests, ", "", "21  hosted[1]", "or request alone"),
        ("0.20 USD/1M tokens", "0.20 USD/1M", "20  hosted[0].input", "such as 0.20 USD/1M tokens"),
    ],
)
def test_each_mistake_is_named(declared: Path, old: str, new: str, where: str, said: str) -> None:
    assert WHOLE.count(old) == 1
    (declared / "economics.yaml").write_text(WHOLE.replace(old, new))
    problem = only_problem(declared)
    assert f"economics.yaml:{where}:" in problem and said in problem


def test_an_entry_that_says_nothing_and_a_purchase_that_stands_twice(declared: Path) -> None:
    (declared / "economics.yaml").write_text("assumptions:\n  - {provider: here, source: a test}\n")
    assert "economics.yaml:2  assumptions[0]: " in only_problem(declared) and "utilisation, price" in only_problem(declared)
    twice = "{purchase: spot, low: 1 USD/h, expected: 1 USD/h, high: 1 USD/h}"
    (declared / "economics.yaml").write_text(f"assumptions:\n  - {{price_per_hour: [{twice}, {twice}], source: a test}}\n")
    assert "assumptions[0].price_per_hour: " in only_problem(declared) and "spot" in only_problem(declared)


def test_engineering_for_nothing_is_a_figure(declared: Path) -> None:
    (declared / "economics.yaml").write_text("assumptions:\n  - {engineering: 0 USD/month, source: a test}\n")
    said = load(declared).economics.assumed("engineering", "here", "chat")
    assert said is not None and said.value == 0.0


def test_a_pattern_for_providers_to_come_is_no_mistake(declared: Path) -> None:
    (declared / "economics.yaml").write_text(WHOLE.replace('"h*"', '"gone-*"'))
    assert load(declared).economics.assumptions[0].provider == "gone-*"
