from __future__ import annotations

import pytest

from plumbline.analysis.drift.environment import changes_by_group, diff_environments
from plumbline.declarations.thresholds import EnvironmentRules

OLD = {"cpu.usable": 2, "os.kernel": "6.1.0", "gpu.0.product": "H100", "driver.version": "550.90.07", "os.name": "Debian"}


def test_nothing_changed_nothing_reported() -> None:
    assert diff_environments([OLD, OLD], [dict(OLD)]) == ()
    assert diff_environments([{"memory.total_bytes": 1}], [{"memory.total_bytes": 1.0}]) == ()


@pytest.mark.parametrize(
    ("key", "old", "new", "group", "text"),
    [
        ("cpu.usable", 2, 1, "limits and clocks", "usable cores 2 → 1 (2 of 2 trials)"),
        ("driver.version", "550.90.07", "570.86.15", "driver and firmware", "driver 550.90.07 → 570.86.15 (2 of 2 trials)"),
        ("gpu.0.product", "H100", "H200", "hardware", "GPU 0 H100 → H200 (2 of 2 trials)"),
        ("os.kernel", "6.1.0", "6.8.0", "kernel and OS", "kernel 6.1.0 → 6.8.0 (2 of 2 trials)"),
        ("nccl.version", "2.21", "2.26", "runtime libraries", "nccl 2.21 → 2.26 (2 of 2 trials)"),
        ("nccl.net_plugin", "libnccl-net-ofi", None, "runtime libraries", "NCCL network plugin libnccl-net-ofi → absent (2 of 2 trials)"),
        ("ofi_nccl.version", "1.14.0", "1.16.3", "runtime libraries", "aws-ofi-nccl 1.14.0 → 1.16.3 (2 of 2 trials)"),
        ("libfabric.version", "1.22.0", "2.1.0", "runtime libraries", "libfabric 1.22.0 → 2.1.0 (2 of 2 trials)"),
        ("efa.installer", "1.37.0", "1.43.2", "runtime libraries", "EFA installer 1.37.0 → 1.43.2 (2 of 2 trials)"),
        ("efa.driver", "2.13.0g", "2.17.2g", "driver and firmware", "EFA driver 2.13.0g → 2.17.2g (2 of 2 trials)"),
        ("vllm.version", "0.10.2", "0.11.0", "runtime libraries", "vLLM 0.10.2 → 0.11.0 (2 of 2 trials)"),
        ("tensorrt_llm.version", "1.0.0", "1.1.0", "runtime libraries", "TensorRT-LLM 1.0.0 → 1.1.0 (2 of 2 trials)"),
        ("flash_attn.version", "2.7.4", "2.8.3", "runtime libraries", "flash-attn 2.7.4 → 2.8.3 (2 of 2 trials)"),
        ("transformer_engine.version", "2.7.0", "2.8.0", "runtime libraries", "Transformer Engine 2.7.0 → 2.8.0 (2 of 2 trials)"),
        ("triton.version", "2.51.0", "2.60.0", "runtime libraries", "tritonserver 2.51.0 → 2.60.0 (2 of 2 trials)"),
        ("triton_compiler.version", "3.4.0", "3.5.0", "runtime libraries", "Triton compiler 3.4.0 → 3.5.0 (2 of 2 trials)"),
        ("torchao.version", "0.12.0", "0.14.0", "runtime libraries", "torchao 0.12.0 → 0.14.0 (2 of 2 trials)"),
        ("cudnn.version", "9.10.2", "9.14.0", "runtime libraries", "cudnn 9.10.2 → 9.14.0 (2 of 2 trials)"),
        ("cublas.version", "12.9.1", "13.0.0", "runtime libraries", "cublas 12.9.1 → 13.0.0 (2 of 2 trials)"),
        ("training.world_size", 8, 16, "limits and clocks", "training world size 8 → 16 (2 of 2 trials)"),
        ("training.backend", "nccl", "gloo", "runtime libraries", "collective backend nccl → gloo (2 of 2 trials)"),
        ("container.image_digest", "sha256:a", "sha256:b", "image", "container image digest sha256:a → sha256:b (2 of 2 trials)"),
        (
            "endpoint.server",
            "triton 2.51.0",
            "triton 2.60.0",
            "runtime libraries",
            "endpoint server triton 2.51.0 → triton 2.60.0 (2 of 2 trials)",
        ),
        ("client.cpu.usable", 8, 4, "limits and clocks", "client cpu usable 8 → 4 (2 of 2 trials)"),
        ("limits.cpu_quota", 2.0, None, "limits and clocks", "limits cpu quota 2.0 → absent (2 of 2 trials)"),
    ],
)
def test_what_can_explain_a_change_matters(key: str, old: object, new: object, group: str, text: str) -> None:
    (change,) = diff_environments([{**OLD, key: old}], [{**OLD, key: new}] * 2)  # type: ignore[dict-item]
    assert (change.group, change.matters, change.text) == (group, True, text)


def test_what_cannot_is_listed_without_mattering() -> None:
    (change,) = diff_environments([OLD], [{**OLD, "os.name": "Ubuntu"}])
    assert change.matters is False


def test_some_trials_on_another_node_are_counted() -> None:
    (change,) = diff_environments([OLD] * 3, [OLD, OLD, {**OLD, "cpu.usable": 1}])
    assert (change.trials, change.of_trials, change.new) == (1, 3, (2, 1))


def test_a_value_that_the_baseline_knew_is_no_news() -> None:
    (change,) = diff_environments([OLD, {**OLD, "cpu.usable": 1}], [OLD, OLD])
    assert change.matters is False and change.trials == 0


def test_those_that_matter_come_first_and_no_trials_give_no_diff() -> None:
    changes = diff_environments([OLD], [{**OLD, "os.name": "Ubuntu", "cpu.usable": 1, "os.kernel": "6.8"}])
    assert [c.key for c in changes] == ["cpu.usable", "os.kernel", "os.name"]
    assert diff_environments([], [OLD]) == () == diff_environments([OLD], [])


@pytest.mark.parametrize(
    "key", ["gpu.0.product", "gpu.count", "driver.version", "cuda.version", "nccl.version", "os.kernel", "container.image_digest"]
)
def test_what_is_a_finding_by_itself_matters_without_a_declaration(key: str) -> None:
    (change,) = diff_environments([{**OLD, key: "a"}], [{**OLD, key: "b"}])
    assert change.matters


def test_the_declarations_have_the_last_word_on_what_matters() -> None:
    said = EnvironmentRules(matters=("os.name", "host.*"), ignored=("driver.*",))
    after = {**OLD, "os.name": "Ubuntu", "host.node": "n2", "driver.version": "570", "os.kernel": "6.8"}
    changes = diff_environments([OLD], [after], said)
    assert {c.key: c.matters for c in changes} == {"os.name": True, "host.node": True, "driver.version": False, "os.kernel": True}
    known = diff_environments([OLD, {**OLD, "os.name": "Ubuntu"}], [OLD], said)
    assert [c.matters for c in known] == [False], "a value that the baseline knew is no news, whatever is declared"


def test_changes_are_shown_by_group_in_one_order() -> None:
    changes = diff_environments(
        [OLD], [{**OLD, "os.name": "Ubuntu", "cpu.usable": 1, "os.kernel": "6.8", "gpu.0.product": "H200", "kubernetes.version": "1.33"}]
    )
    assert [(group, [c.key for c in own]) for group, own in changes_by_group(changes)] == [
        ("hardware", ["gpu.0.product"]),
        ("kernel and OS", ["os.kernel", "os.name"]),
        ("kubernetes", ["kubernetes.version"]),
        ("limits and clocks", ["cpu.usable"]),
    ]
    assert changes_by_group(()) == ()


def node(**facts: object) -> dict[str, object]:
    """A node of four GPUs that all have these facts, by the fact's name."""
    return {f"gpu.{i}.{name}": value for i in range(4) for name, value in facts.items()}


def test_what_changed_alike_on_every_gpu_is_one_change() -> None:
    changes = diff_environments([node(product="H100", vbios_version="96.00")] * 2, [node(product="H200", vbios_version="96.00")] * 2)  # type: ignore[list-item]
    (change,) = changes
    assert (change.key, change.group, change.matters) == ("gpu.*.product", "hardware", True)
    assert (change.title, change.old, change.new) == ("GPU (all 4)", ("H100",), ("H200",))
    assert (change.trials, change.of_trials, change.unit) == (2, 2, "trial")
    (plain,) = diff_environments([node(vbios_version="96.00")], [node(vbios_version="97.00")])  # type: ignore[list-item]
    assert plain.title.removesuffix(" (all 4)") == "gpu vbios version"


def test_a_gpu_that_differs_from_its_sisters_is_named_alone() -> None:
    capped = {**node(sm_clock_max_mhz=1980), "gpu.2.sm_clock_max_mhz": 1410}
    (change,) = diff_environments([node(sm_clock_max_mhz=1980)], [capped])  # type: ignore[list-item]
    assert (change.key, change.new) == ("gpu.2.sm_clock_max_mhz", (1410,))
    apart = {**node(product="H200"), "gpu.3.product": "H20"}
    assert [c.key for c in diff_environments([node(product="H100")], [apart])] == [f"gpu.{i}.product" for i in range(4)]  # type: ignore[list-item]


def test_true_is_not_one() -> None:
    assert len(diff_environments([{"gpu.0.mig": 1}], [{"gpu.0.mig": True}])) == 1


def test_the_probe_reports_no_fact_that_the_rules_have_not_thought_of() -> None:
    from plumbline.analysis.drift.environment import fact_rule
    from plumbline.harness.environment import collect_facts

    assert [key for key in collect_facts() if fact_rule(key).group == "other"] == []


def test_a_pods_facts_and_an_imported_rows_facts_have_their_place_too() -> None:
    from plumbline.analysis.drift.environment import fact_rule
    from plumbline.results.launch_record import _POD_FACTS

    places = {fact: fact_rule(fact).group for fact in _POD_FACTS.values()}
    assert set(places.values()) == {"kubernetes", "image", "location"}
    imported = ("gpu.product", "gpu.count", "training.nodes", "host.product", "framework.release", "location.availability")
    assert "other" not in {fact_rule(fact).group for fact in imported}
