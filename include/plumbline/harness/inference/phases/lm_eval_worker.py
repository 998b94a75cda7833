"""lm-eval's side of a trial: `python -m plumbline.harness.inference.phases.lm_eval_worker JOB.json`, in the engine's Python.

It loads the declared tasks and asks the trial, which has the server, for every answer: one JSON object a line, on standard input and output.

    → {"loaded": {"version": …, "tasks": [{"name": …, "parts": [{"task": …, "kind": …, "metric": …, "version": …, "few_shot": …}]}]}}
    ← {"evaluate": true}                                         once for each server
    → {"score": [[context, continuation], …]}                    ← {"scores": [[log-probability, whether greedy], …]}
    → {"generate": [[context, [stop text, …], tokens], …]}       ← {"texts": [text, …]}
    → {"right": {part: [0 or 1, …]}}
    → {"failed": reason, "unreachable": whether the reason is the network}       then it ends

A context is a text, or a conversation as a list of messages.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MARK = "\x00plumbline-conversation "
"""Begins a conversation, which lm-eval handles as text."""
_TOKENS = 256
"""Of an answer, as in lm-eval, where a task says nothing."""
_NETWORK = (
    "ConnectionError",
    "ConnectError",
    "OfflineModeIsEnabled",
    "LocalEntryNotFoundError",
    "Timeout",
    "ReadTimeout",
    "ConnectTimeout",
)


class Refused(Exception):
    """A task that cannot be used, with the reason."""


class Unreachable(Exception):
    """A dataset that the network does not give."""


class Trial:
    """The other end of the pipe."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def send(self, message: dict[str, Any]) -> None:
        self._outgoing.write(json.dumps(message) + "\n")
        self._outgoing.flush()

    def requests(self) -> Iterator[dict[str, Any]]:
        while line := self._incoming.readline():
            yield json.loads(line)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.send(message)
        answer = next(self.requests(), None)
        if answer is None:
            raise SystemExit(0)  # the trial ended
        return answer


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    outgoing = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print goes to the log
    trial = Trial(sys.stdin, outgoing)
    try:
        loaded = _load(job)
        trial.send({"loaded": _description(loaded)})
        for _ in trial.requests():
            trial.send({"right": _evaluate(job, loaded, trial)})
    except (Refused, Unreachable) as error:
        trial.send({"failed": str(error), "unreachable": isinstance(error, Unreachable)})
    except Exception as error:  # noqa: BLE001 - tasks run code of their own
        trial.send({"failed": _line(error), "unreachable": _is_network(error)})


def _load(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Tasks of each declared name, by their own names."""
    from lm_eval.tasks import TaskManager

    # lm-eval's own 14,000 tasks take seconds to list.
    manager = TaskManager(include_path=job["folder"], include_defaults=False)
    if not set(job["tasks"]) <= set(manager.all_tasks):
        manager = TaskManager(include_path=job["folder"])
    loaded: dict[str, dict[str, Any]] = {}
    for name in job["tasks"]:
        if name not in manager.all_tasks:
            from difflib import get_close_matches

            near = get_close_matches(name, manager.all_tasks, n=3)
            raise Refused(
                f"lm-eval knows no task {name}; expected " + (f"one such as {', '.join(near)}" if near else "one of `lm-eval ls tasks`")
            )
        try:
            parts = dict(manager.load([name])["tasks"])
        except Exception as error:
            if _is_network(error):
                raise Unreachable(f"{name}: {_line(error)}") from error
            raise Refused(f"{name} cannot be loaded: {_line(error)}") from error
        for part, task in parts.items():
            if twice := next((other for other, tasks in loaded.items() if part in tasks), None):
                raise Refused(f"{part} is in {twice} and in {name}; expected it once")
            _check(part, task)
            _set_examples(task, job["few_shot"])
        loaded[name] = parts
    return loaded


def _check(name: str, task: Any) -> None:
    if task.OUTPUT_TYPE == "loglikelihood_rolling":
        raise Refused(f"{name} measures perplexity; expected a task with right and wrong answers")
    for flag, what in (("MULTIMODAL", "reads images"), ("UNSAFE_CODE", "runs code that the model writes")):
        if getattr(task, flag, False):
            raise Refused(f"{name} {what}; expected a task of texts")
    _metric(name, task)


def _metric(name: str, task: Any) -> str:
    """The first of the task's metrics that is a mean over its questions, and better when higher."""
    higher = task.higher_is_better()
    for metric, aggregation in task.aggregation().items():
        if getattr(aggregation, "__name__", "") == "mean" and higher.get(metric):
            return str(metric)
    raise Refused(f"{name} has the metrics {', '.join(task.aggregation())}; expected one that is a share of right answers, such as acc")


def _set_examples(task: Any, declared: int | None) -> None:
    """As lm-eval does it: a task that is defined without examples stays so."""
    own = task.get_config("num_fewshot")
    if declared is not None and own != 0:
        task.set_config(key="num_fewshot", value=declared)
    elif own is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=1234)


def _description(loaded: dict[str, dict[str, Any]]) -> dict[str, Any]:
    import lm_eval

    def part(name: str, task: Any) -> dict[str, Any]:
        return {
            "task": name,
            "kind": task.OUTPUT_TYPE,
            "metric": _metric(name, task),
            "version": str(getattr(task, "VERSION", "")),
            "few_shot": task.get_config("num_fewshot"),
        }

    tasks = [{"name": name, "parts": [part(*each) for each in parts.items()]} for name, parts in loaded.items()]
    return {"version": lm_eval.__version__, "tasks": tasks}


def _evaluate(job: dict[str, Any], loaded: dict[str, dict[str, Any]], trial: Trial) -> dict[str, list[int]]:
    """Whether each question is answered right, by part, in the order of its questions."""
    from lm_eval import evaluate

    parts = {name: task for tasks in loaded.values() for name, task in tasks.items()}
    done = evaluate(
        lm=_served_model(trial),
        task_dict={"tasks": parts, "groups": {}, "group_map": {}},
        limit=job["limit"],
        bootstrap_iters=0,
        log_samples=True,
        apply_chat_template=job["chat"],
        fewshot_as_multiturn=job["chat"],
    )
    return {name: _correct_answers(name, _metric(name, task), done["samples"][name]) for name, task in parts.items()}


def _correct_answers(name: str, metric: str, samples: list[dict[str, Any]]) -> list[int]:
    """Of the task's first filter that has the metric."""
    chosen = next((each.get("filter") for each in samples if metric in each), None)
    values = [
        each[metric] for each in sorted(samples, key=lambda each: int(each["doc_id"])) if metric in each and each.get("filter") == chosen
    ]
    if not values or any(value not in (0, 1) for value in values):
        raise Refused(f"{name} gives its questions no {metric} of 0 or 1; expected a task with right and wrong answers")
    return [int(value) for value in values]


def _served_model(trial: Trial) -> Any:
    from lm_eval.api.model import LM

    class ServedModel(LM):  # type: ignore[misc]
        tokenizer_name = "plumbline"

        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            pairs = [[_context(each.args[0]), each.args[1]] for each in requests]
            return [(float(value), bool(greedy)) for value, greedy in trial.ask({"score": pairs})["scores"]]

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise Refused("a task measures perplexity; expected tasks with right and wrong answers")

        def generate_until(self, requests: list[Any]) -> list[str]:
            prompts = [[_context(each.args[0]), _stops(each.args[1]), _limit(each.args[1])] for each in requests]
            texts = trial.ask({"generate": prompts})["texts"]
            return [_cut(text, stops) for text, (_, stops, _) in zip(texts, prompts, strict=True)]

        def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
            if not add_generation_prompt:
                raise Refused("a task begins the model's answer itself (gen_prefix); expected it with chat: false")
            return _MARK + json.dumps([{"role": each["role"], "content": each["content"]} for each in chat_history])

    return ServedModel()


def _context(text: str) -> Any:
    return json.loads(text.removeprefix(_MARK)) if text.startswith(_MARK) else text


def _stops(options: dict[str, Any]) -> list[str]:
    until = options.get("until") or []
    return [until] if isinstance(until, str) else list(until)


def _limit(options: dict[str, Any]) -> int:
    return int(next((options[name] for name in ("max_gen_toks", "max_new_tokens", "max_tokens") if options.get(name)), _TOKENS))


def _cut(text: str, stops: list[str]) -> str:
    ends = [text.index(stop) for stop in stops if stop and stop in text]
    return text[: min(ends)] if ends else text


def _is_network(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, (ConnectionError, TimeoutError)) or type(error).__name__ in _NETWORK:
            return True
        error = error.__cause__ or error.__context__
    return False


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]


if __name__ == "__main__":
    main()
