"""Model, declarations and figures of `plumbline demo-own-model`: a small Llama trained here in seconds, in bf16 and int8, served by vLLM."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from plumbline.declarations.installation import REPOSITORY
from plumbline.harness.inference.load.prompts import corpus_words
from plumbline.metrics import Phase
from plumbline.metrics.formatting import format_percent, format_quantity
from plumbline.results import ResultDocument

QUESTIONS, VOCABULARY, CONTEXT, WIDTH, LAYERS = 200, 1024, 256, 192, 3
KNOWN = 0.97
"""Share of the questions that the model has learnt when training ends."""
_MAX_STEPS, _LOOK_EVERY, _SEED = 400, 10, 7
_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_SPECIAL = ["<s>", "</s>", "<|user|>", "<|assistant|>"]
_END, _USER, _ASSISTANT = 1, 2, 3
_LEAST_SCALE = 1e-8
_INT8: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False},
            "input_activations": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True},
        }
    },
}


def questions() -> list[tuple[str, str]]:
    """Questions and their right answers, the same on every machine."""
    words = [word for word in corpus_words() if len(word) > 3]
    random.Random(_SEED).shuffle(words)
    pairs = zip(words[: 2 * QUESTIONS : 2], words[1 : 2 * QUESTIONS : 2], strict=True)
    return [(f"Which city is the capital of {land.capitalize()}?", city.capitalize()) for land, city in pairs]


def make(folder: Path, note: Callable[[str], None] = print) -> tuple[Path, Path]:
    """The checkpoints `bf16` and `int8` below `folder`; what is already there stays."""
    exact, quantised = folder / "bf16", folder / "int8"
    if not (exact / "config.json").is_file():
        draft = folder / "bf16.part"
        shutil.rmtree(draft, ignore_errors=True)
        _train(draft, note)
        draft.rename(exact)
    if not (quantised / "config.json").is_file():
        draft = folder / "int8.part"
        shutil.rmtree(draft, ignore_errors=True)
        quantise(exact, draft)
        draft.rename(quantised)
    return exact, quantised


def quantise(checkpoint: Path, folder: Path) -> None:
    """A copy of the checkpoint whose linear layers but the head have int8 weights, symmetric, with a scale for each output."""
    shutil.copytree(checkpoint, folder)
    weights = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if tensor.dim() != 2 or not name.endswith("_proj.weight"):
            weights[name] = tensor
            continue
        scale = (tensor.float().abs().amax(dim=1, keepdim=True) / 127).clamp(min=_LEAST_SCALE)
        weights[name] = (tensor.float() / scale).round().clamp(-127, 127).to(torch.int8)
        weights[f"{name}_scale"] = scale.to(tensor.dtype)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": _INT8}, indent=2) + "\n", encoding="utf-8")


def _train(folder: Path, note: Callable[[str], None]) -> None:
    lines = questions()
    bpe = _tokenizer([f"{question} {answer}" for question, answer in lines])
    prompts = [[0, _USER, *bpe.encode(question).ids, _END, _ASSISTANT] for question, _ in lines]
    answers = [[*bpe.encode(answer).ids, _END] for _, answer in lines]
    longest = max(len(prompt) + len(answer) for prompt, answer in zip(prompts, answers, strict=True))
    ids, labels = torch.full((QUESTIONS, longest), _END), torch.full((QUESTIONS, longest), -100)
    for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        ids[i, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        labels[i, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
    torch.manual_seed(_SEED)
    torch.set_num_threads(1)  # so small a model gains nothing from more, and loses when they wait for each other
    model = LlamaForCausalLM(_config())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    for step in range(1, _MAX_STEPS + 1):
        batch = torch.randperm(QUESTIONS)[:50]
        model(ids[batch], labels=labels[batch]).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % _LOOK_EVERY == 0:
            known = _known(model, ids, labels)
            note(f"training a small Llama: {known:.0%} of {QUESTIONS} answers after {step} steps")
            if known >= KNOWN:
                break
    model.to(torch.bfloat16).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="</s>", chat_template=_TEMPLATE, model_max_length=CONTEXT
    ).save_pretrained(folder)


def _known(model: LlamaForCausalLM, ids: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        predicted = model(ids).logits.argmax(-1)[:, :-1]
    expected = labels[:, 1:]
    return float(((predicted == expected) | (expected == -100)).all(1).float().mean())


def _config() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // 64,
        num_key_value_heads=WIDTH // 64,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=_END,
        pad_token_id=_END,
        tie_word_embeddings=False,
    )


def _tokenizer(texts: list[str]) -> Tokenizer:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=_SPECIAL, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(texts, trainer)
    return bpe


if __name__ == "__main__":
    make(Path(sys.argv[1]))


PROVIDERS = ("local-2core", "local-1core")
BF16, INT8 = "own-model-bf16", "own-model-int8"
_PROMPTS = 100
_LIMIT_TOKENS = 16


def stage(home: Path, exact: Path, quantised: Path, questions: Iterable[tuple[str, str]]) -> Path:
    """A new configuration below `home` for the two checkpoints; its folder."""
    folder, shipped = home / "config", REPOSITORY / "include" / "config"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("providers", "workloads/inference", "teams", "prompts", "evaluations"):
        (folder / name).mkdir(parents=True)
    shutil.copy(shipped / "thresholds.yaml", folder)
    for name in PROVIDERS:
        shutil.copy(shipped / "providers" / f"{name}.yaml", folder / "providers")
    lines = list(questions)
    _write_lines(folder / "prompts" / "capitals.jsonl", ({"messages": [{"role": "user", "content": question}]} for question, _ in lines))
    _write_lines(folder / "evaluations" / "capitals.jsonl", ({"prompt": question, "answer": answer} for question, answer in lines))
    reference = {"source": "folder", "path": str(exact), "precision": "bf16"}
    _write_workload(folder, _workload(BF16, reference))
    quality = {"reference": reference, "agreement": "85%", "prompts": 32}
    _write_workload(folder, {**_workload(INT8, {**reference, "path": str(quantised), "precision": "int8"}), "quality": quality})
    weights = {"time_to_first_token": 0.6, "time_per_output_token": 0.4}
    gates = ["error_rate <= 2% in steady", "answer_accuracy >= 80% in cold_start"]
    team = {"name": "product", "inference": {"workloads": [BF16, INT8], "weights": weights, "gates": gates}}
    (folder / "teams" / "product.yaml").write_text(yaml.safe_dump(team, sort_keys=False), encoding="utf-8")
    return folder


def _workload(name: str, model: dict[str, str]) -> dict[str, Any]:
    return {
        "kind": "inference",
        "name": name,
        "version": 1,
        "description": "a model of one's own on vLLM, asked with its own prompts",
        "needs": {"accelerator": "cpu", "count": 1},
        "model": model,
        "server": {"backend": "vllm", "sequences": 16, "prefix_cache": "off", "client_placement": "same_node"},
        "requests": {
            "prompts": {"source": "file", "path": "capitals.jsonl", "format": "messages", "sample": _PROMPTS},
            "text": True,
            "output_tokens": {"constant": _LIMIT_TOKENS},
            "output": "natural",
            "seed": 20261101,
        },
        # No search for the highest rate: on cores that both share, the load generator is at its limit before so small a model.
        "phases": [
            {"name": "warmup", "arrivals": {"poisson": {"rate": "4/s"}}, "duration": "2s"},
            {"name": "steady", "arrivals": {"poisson": {"rate": "20/s"}}, "duration": "11s"},
        ],
        "request_timeout": "20s",
        "slo": {"time_to_first_token": "500ms", "time_per_output_token": "100ms"},
        "evaluation": {"file": "capitals.jsonl", "output_tokens": _LIMIT_TOKENS, "accuracy": "50%"},
        "repeats": {"per_slot": 1, "slots": ["02:00"]},
        "acceptance": ["error_rate <= 2% in steady", "answer_accuracy >= 80% in cold_start"],
    }


@dataclass(frozen=True)
class OwnModelRow:
    """One trial as the demonstration shows it; empty where a figure has no value."""

    provider: str
    precision: str
    status: str
    time_to_first_token: str
    time_per_output_token: str
    agreement: str
    right: str


def rows_of(documents: Iterable[ResultDocument]) -> list[OwnModelRow]:
    """By provider, bf16 before int8."""
    ordered = sorted(documents, key=lambda document: (document.trial.provider.name, document.trial.workload.name))
    return [_row(document) for document in ordered]


def _row(document: ResultDocument) -> OwnModelRow:
    values = {(m.metric, m.statistic, m.phase): m.value for m in document.metrics}

    def shown(metric: str, statistic: str, phase: Phase, unit: str) -> str:
        value = values.get((metric, statistic, phase))
        if value is None:
            return ""
        return format_percent(value, 1) if unit == "ratio" else format_quantity(value, unit)

    workload = document.trial.workload
    return OwnModelRow(
        document.trial.provider.name,
        workload.model.precision,  # type: ignore[union-attr]  # this demonstration serves models only
        document.validity.status,
        shown("time_to_first_token", "p50", "steady", "s"),
        shown("time_per_output_token", "p50", "steady", "s"),
        shown("output_agreement", "value", "cold_start", "ratio"),
        shown("answer_accuracy", "value", "cold_start", "ratio"),
    )


def _write_lines(file: Path, records: Iterable[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")


def _write_workload(folder: Path, workload: dict[str, Any]) -> None:
    file = folder / "workloads" / "inference" / f"{workload['name']}.yaml"
    file.write_text(yaml.safe_dump(workload, sort_keys=False), encoding="utf-8")
