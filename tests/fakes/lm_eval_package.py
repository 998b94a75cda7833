"""A stand-in for the package lm-eval: its interface as far as a trial uses it, for tasks of `key: value` files. The real one takes ten seconds to
import and list its tasks; `test_engines_lm_eval.py` runs that."""

from __future__ import annotations

from pathlib import Path

_MODULE = """
import json
from dataclasses import dataclass
from pathlib import Path

__version__ = "0.4.13"

def mean(values):
    return sum(values) / len(values)

def other(values):
    return 0.0

@dataclass
class Instance:
    args: tuple

class Task:
    VERSION = 1.0
    def __init__(self, folder, about):
        self.about = about
        self.OUTPUT_TYPE = about["output_type"]
        self.config = {"num_fewshot": about.get("num_fewshot")}
        if about.get("broken"):
            raise ConnectionError("Couldn't reach 'nobody/nothing' on the Hub")
        self.docs = [json.loads(line) for line in (Path(folder) / about["data"]).read_text().splitlines()]
    def aggregation(self):
        return {"perplexity": other, self.about.get("metric", "acc"): mean}
    def higher_is_better(self):
        return {"perplexity": False, "acc": True}
    def get_config(self, key):
        return self.config[key]
    def set_config(self, key, value):
        self.config[key] = value
    def set_fewshot_seed(self, seed):
        pass

class TaskManager:
    def __init__(self, include_path=None, include_defaults=True):
        import yaml
        found = [yaml.safe_load(path.read_text()) for path in Path(include_path or ".").glob("*.yaml")]
        self.folder, self.known = include_path, {each["task"]: each for each in found}
        self.all_tasks = sorted(self.known)
    def load(self, names):
        return {"tasks": {name: Task(self.folder, self.known[name]) for name in names}, "groups": {}, "group_map": {}}

def evaluate(lm, task_dict, limit, bootstrap_iters, log_samples, apply_chat_template, fewshot_as_multiturn):
    samples = {}
    for name, task in task_dict["tasks"].items():
        found = samples[name] = []
        docs = task.docs[:limit]
        shown = [lm.apply_chat_template([{"role": "user", "content": d["text"]}]) if apply_chat_template else d["text"] for d in docs]
        if task.OUTPUT_TYPE == "generate_until":
            answers = lm.generate_until([Instance((text, {"until": ["|"], "max_gen_toks": 4})) for text in shown])
            right = [a.strip() == d["answer"] for a, d in zip(answers, docs)]
        else:
            scores = iter(lm.loglikelihood([Instance((t, " " + c)) for t, d in zip(shown, docs) for c in d["choices"]]))
            best = [max(d["choices"], key=dict(zip(d["choices"], [next(scores)[0] for _ in d["choices"]])).get) for d in docs]
            right = [b == d["answer"] for b, d in zip(best, docs)]
        found += [{"doc_id": i, "filter": "none", task.about.get("metric", "acc"): float(r)} for i, r in enumerate(right)]
    return {"samples": samples}
"""


def install(folder: Path) -> Path:
    """Write the package into `folder`, which belongs on the module search path."""
    for name, text in (
        ("__init__", _MODULE),
        ("tasks", "from lm_eval import TaskManager"),
        ("api/__init__", ""),
        ("api/model", "class LM:\n    pass"),
    ):
        path = folder / "lm_eval" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
