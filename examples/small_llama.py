"""A small Llama, trained here in seconds on questions and answers, in bf16 and int8: the model of own_model.py."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from plumbline.harness.inference.load.prompts import corpus_words

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
