"""A real lm-eval asks a real vLLM, behind Triton and by its own server: as many right answers as lm-eval's own runs give."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import checkpoints
from tests.integration.test_engines_vllm import SERVE, VLLM, declared, place

from plumbline.declarations.workloads.evaluation import TaskEvaluation, load_tasks
from plumbline.harness import engine_python
from plumbline.harness.inference.load.served_tokenizer import CheckpointTokenizer
from plumbline.harness.inference.phases.outputs import PromptTokens, output_client
from plumbline.harness.inference.phases.task_evaluation import TaskScores, task_evaluator
from plumbline.harness.inference.server.assembly import assemble
from plumbline.harness.inference.server.under_test import all_running

INCLUDE = Path(__file__).parents[2] / "include"
HAS_LM_EVAL = (
    bool(VLLM)
    and not subprocess.run([VLLM, "-c", "import importlib.util as u; exit(u.find_spec('lm_eval') is None)"], check=False).returncode
)
pytestmark = [
    pytest.mark.full,
    pytest.mark.integration,
    pytest.mark.skipif(
        not HAS_LM_EVAL, reason="PLUMBLINE_VLLM_PYTHON names no Python with vLLM and lm-eval; CONTRIBUTING says how to get both"
    ),
]
CHOICE = """
task: own_choice
dataset_path: json
dataset_kwargs: {data_files: {test: sentences.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{begin}}"
doc_to_choice: choices
doc_to_target: right
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
metadata: {version: 1}
"""
WRITTEN = """
task: own_written
dataset_path: json
dataset_kwargs: {data_files: {test: sentences.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{begin}}"
doc_to_target: "{{choices[right]}}"
generation_kwargs: {until: ["|"], max_gen_toks: 8}
filter_list: [{name: word, filter: [{function: regex, regex_pattern: '([a-zA-Z]+)'}, {function: take_first}]}]
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
metadata: {version: 1}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Beginnings of the texts that the model knows, with the next word and two others."""
    own = tmp_path_factory.mktemp("evaluations") / "own"
    own.mkdir()
    (own / "choice.yaml").write_text(CHOICE)
    (own / "written.yaml").write_text(WRITTEN)
    lines = []
    for text in checkpoints.TEXTS:
        words = text.split()
        for at in range(3, len(words) - 1, 2):
            others = [words[(at + step) % len(words)] for step in (3, 5)]
            choices = [words[at], *(word if word != words[at] else f"{word}s" for word in others)]
            right = len(lines) % 3
            choices[0], choices[right] = choices[right], choices[0]
            key = (right + 1) % 3 if len(lines) % 4 == 3 else right  # a wrong key, so that a model that knows the texts fails some
            lines.append({"begin": " ".join(words[:at]), "choices": choices, "right": key})
    (own / "sentences.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return own


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine_python.VARIABLE, VLLM)
    monkeypatch.setenv("PYTHONPATH", str(INCLUDE))
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.llama(tmp_path_factory.mktemp("checkpoint") / "llama", dtype="float32", steps=25)


def by_lm_eval(checkpoint: Path, folder: Path) -> dict[str, list[int]]:
    """Its own runner of transformers models, over the same tokens."""
    code = f"""
import json, lm_eval
from lm_eval.tasks import TaskManager
found = lm_eval.simple_evaluate("hf", model_args=dict(pretrained={str(checkpoint)!r}, dtype="float32", add_bos_token=False), device="cpu",
    tasks=["own_choice", "own_written"], task_manager=TaskManager(include_path={str(folder)!r}, include_defaults=False), bootstrap_iters=0)
metrics = dict(own_choice="acc", own_written="exact_match")
print(json.dumps({{task: [int(each[metrics[task]]) for each in found["samples"][task]] for task in metrics}}))
"""
    done = subprocess.run(
        [VLLM, "-c", code], cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("backend", ["vllm", "openai"])
def test_tasks_of_lm_eval_give_the_accuracy_that_lm_eval_gives(tmp_path: Path, checkpoint: Path, folder: Path, backend: str) -> None:
    data: dict[str, Any] = {"evaluation": {"lm_eval": {"tasks": ["own_choice", "own_written"], "folder": "own"}}}
    assert load_tasks(data, folder.parent) == []
    tasks = TaskEvaluation.model_validate_json(json.dumps(data["evaluation"]["lm_eval"]))
    workload = declared(checkpoint, backend, **({"command": SERVE} if backend == "openai" else {}))
    tokens = PromptTokens(CheckpointTokenizer(checkpoint, checkpoints.CONTEXT), checkpoint)
    served = assemble(workload, place(tmp_path), checkpoint)
    with task_evaluator(tasks, tmp_path, {"HF_HOME": str(tmp_path / "hf")}) as evaluator, all_running(served.servers):
        evaluator.context = checkpoints.CONTEXT
        found = evaluator.evaluate(output_client(served.target(), tokens), tokens)
    assert evaluator.truncated == 0
    expected = by_lm_eval(checkpoint, folder)
    assert {each.name: each.all.astype(int).tolist() for each in found} == expected
    shares = [accuracy(each) for each in found]
    assert all(0.3 < share < 1 for share in shares), shares


def accuracy(scores: TaskScores) -> float:
    return float(scores.all.mean())
