"""Small checkpoints in Hugging Face's layout, made with transformers: a Llama and a mixture of experts (Mixtral), each with its own tokenizer
and chat template, 300 to 700 kB. The same arguments make the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

TEXTS = (
    "The server answers one request after another, and the queue grows while it computes.",
    "A long prompt is read at once; each token of the answer is written by itself.",
    "Keys and values of earlier tokens stay in the cache, and are not computed again.",
    "Weights are read from memory for each token, which is why a small batch waits for memory.",
    "The price of an hour says little; the price of a million tokens says more.",
    "Two providers with the same accelerator differ in network, storage and clock.",
    "Numbers: 0 1 2 3 4 5 6 7 8 9 10 11 12 24 48 96 128 256 512 1024.",
    "Question: which city is the capital of France? Answer: Paris.",
)
LLAMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MIXTURE_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}[INST] {{ message['content'] }} [/INST]"
    "{% else %}{{ message['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
)
CONTEXT = 512


def llama(folder: Path, *, dtype: str = "bfloat16", steps: int = 0, seed: int = 7, shards: int = 1, **config: Any) -> Path:
    """A Llama: 512 token ids, 2 layers of width 64, 2 heads of 32, one of keys and values, a context of 512.

    `steps`: of training on TEXTS, 20 ms each; some 150 make greedy tokens that engines with other rounding agree on. `shards` above 1:
    several safetensors files and their index. `config`: further fields of LlamaConfig."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = _shape(512) | config
    return _save(folder, LlamaForCausalLM, LlamaConfig(**shape), LLAMA_TEMPLATE, ["<|user|>", "<|assistant|>"], dtype, steps, seed, shards)


def mixture(folder: Path, *, dtype: str = "bfloat16", steps: int = 0, seed: int = 7, shards: int = 1, **config: Any) -> Path:
    """A Mixtral: as `llama`, but 640 token ids and four experts, two for each token."""
    from transformers import MixtralConfig, MixtralForCausalLM

    shape = _shape(640) | {"num_local_experts": 4, "num_experts_per_tok": 2} | config
    return _save(folder, MixtralForCausalLM, MixtralConfig(**shape), MIXTURE_TEMPLATE, ["[INST]", "[/INST]"], dtype, steps, seed, shards)


def sparse(folder: Path, bytes_: int) -> Path:
    """Configuration, tokenizer and the header of weights of that size, which take no room on the disk."""
    folder.mkdir()
    header = json.dumps({"model.embed_tokens.weight": {"dtype": "BF16", "shape": [bytes_ // 2], "data_offsets": [0, bytes_]}}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + bytes_)
    config = {"architectures": ["LlamaForCausalLM"], "vocab_size": 512, "max_position_embeddings": CONTEXT, "dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def _shape(vocabulary: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
        "tie_word_embeddings": False,
    }


def tokenizer(vocabulary: int, template: str | None, special: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE, trained on TEXTS until it has `vocabulary` ids (at least 262 and the special ones)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    reserved = ["<s>", "</s>", *special]
    bpe.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=reserved, initial_alphabet=alphabet, show_progress=False)
    )
    missing = vocabulary - bpe.get_vocab_size()
    bpe.add_tokens([f"<extra_{i}>" for i in range(missing)])
    made = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        additional_special_tokens=special,
        model_max_length=CONTEXT,
    )
    made.chat_template = template
    return made


def _save(
    folder: Path, model_class: Any, config: Any, template: str, special: list[str], dtype: str, steps: int, seed: int, shards: int
) -> Path:
    import torch

    words = tokenizer(config.vocab_size, template, special)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = model_class(config)
        _train(model, words, steps)
    model = model.to(getattr(torch, dtype))
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    model.save_pretrained(folder, max_shard_size=size if shards == 1 else -(-size // shards) + 65536)
    words.save_pretrained(folder)
    return folder


def _train(model: PreTrainedModel, words: PreTrainedTokenizerFast, steps: int) -> None:
    import torch

    batch = words(list(TEXTS), return_tensors="pt", padding=True)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(steps):
        loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
