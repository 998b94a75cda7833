from __future__ import annotations

from typing import Any

from tests.golden import Golden

from plumbline.analysis.drift.attribution import Attribution, attribute
from plumbline.analysis.drift.compare import compare
from plumbline.words.drift import attribution_text

FIVE = [1.000, 1.004, 0.997, 1.002, 0.999]
FACTS = {"cpu.usable": 2, "os.kernel": "6.1.0", "torch.version": "2.13.0"}
PROBE = {"matmul": ("matmul_tflops", "max", "environment"), "disk": ("disk_write_bandwidth", "median", "environment")}


def attributed(
    sample: Any, rules: Any, limits: Any, new_facts: dict[str, Any], matmul: float, disk: float, metric: str = "step_time"
) -> Any:
    def metrics(step: float, matmul: float, disk: float) -> dict[Any, list[float]]:
        return {
            metric: [step * v for v in FIVE],
            PROBE["matmul"]: [1e11 * matmul * v for v in FIVE],
            PROBE["disk"]: [1e9 * disk * v for v in FIVE],
        }

    baseline = sample("b", metrics(1, 1, 1), environments=(FACTS,) * 5)
    candidate = sample("c", metrics(1.9, matmul, disk), environments=(new_facts,) * 5)
    found = compare([baseline], candidate, rules=rules, limits=limits)
    lead = next(r for r in found.rows if r.metric == metric)
    return attribute(lead, found.rows, found.environment_changes)


def said(found: Attribution) -> list[str]:
    """What the probes of matmul and of the disk say."""
    return [next(probe.says for probe in found.probes if probe.metric == PROBE[name][0]) for name in ("matmul", "disk")]


def test_the_change_and_the_probe_that_agrees_are_named(sample: Any, rules: Any, limits: Any) -> None:
    found = attributed(sample, rules, limits, {**FACTS, "cpu.usable": 1}, matmul=0.52, disk=1.01)
    assert [e.subject for e in found.explanations] == ["cpu.usable"] and said(found) == ["agrees", "unchanged"]


def test_the_more_plausible_change_comes_first(sample: Any, rules: Any, limits: Any) -> None:
    new = {**FACTS, "cpu.usable": 1, "os.kernel": "6.8", "torch.version": "2.14"}
    assert [e.subject for e in attributed(sample, rules, limits, new, 0.52, 1).explanations] == ["cpu.usable", "torch.version", "os.kernel"]


def test_hardware_that_was_measured_and_is_as_it_was_steps_back_behind_software(sample: Any, rules: Any, limits: Any) -> None:
    new = {**FACTS, "cpu.usable": 1, "torch.version": "2.14"}
    assert attributed(sample, rules, limits, new, matmul=1.0, disk=1.0).explanations[0].subject == "torch.version"


def test_storage_explains_checkpoints(sample: Any, rules: Any) -> None:
    from plumbline.declarations.workloads.workload import DriftLimits

    new = {**FACTS, "torch.version": "2.14", "disk.model": "slow"}
    every = lambda _: DriftLimits.model_construct(warn=0.1, page=0.2)  # noqa: E731
    assert attributed(sample, rules, every, new, 1.0, 0.4, metric="checkpoint_save_time").explanations[0].subject == "disk.model"


def test_a_slower_machine_without_a_recorded_change(sample: Any, rules: Any, limits: Any) -> None:
    found = attributed(sample, rules, limits, FACTS, matmul=0.9, disk=1.0)
    assert found.explanations == () and said(found) == ["agrees", "unchanged"]


def test_nothing_explains_it_is_said(sample: Any, rules: Any, limits: Any) -> None:
    found = attributed(sample, rules, limits, FACTS, matmul=1.0, disk=1.0)
    assert found.explanations == () and said(found) == ["unchanged", "unchanged"]


def test_a_probe_that_moved_the_other_way_contradicts(sample: Any, rules: Any, limits: Any) -> None:
    assert said(attributed(sample, rules, limits, FACTS, matmul=1.3, disk=1.0)) == ["contradicts", "unchanged"]


def test_an_attribution_is_one_sentence(sample: Any, rules: Any, limits: Any, golden: Golden) -> None:
    cases = (({**FACTS, "cpu.usable": 1}, 0.52, 1.01), (FACTS, 0.9, 1.0), (FACTS, 1.0, 1.0), (FACTS, 1.3, 1.0))
    texts = [attribution_text(attributed(sample, rules, limits, facts, matmul=matmul, disk=disk)) for facts, matmul, disk in cases]
    golden("analysis.attribution", "\n".join(texts))
