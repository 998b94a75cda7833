"""docs/two-clusters.md: its declarations are valid, and what needs no cluster runs as printed and prints what the page shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.trials import CONFIG
from typer.testing import CliRunner

from plumbline.cli.app import app

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "two-clusters.md").read_text(encoding="utf-8")
SECTIONS = {section.splitlines()[0]: section for section in re.split(r"^## ", PAGE, flags=re.M)[1:]}
BUCKET = "s3://models/assistant"
CLUSTER = ("cluster", "airflow", "trigger")
"""Commands that need a cluster or an Airflow."""


def checkpoint(folder: Path) -> Path:
    """Configuration and safetensors headers of a Llama of 8 billion weights; the weights take no room on the disk."""
    width, inner, vocabulary, keys, layers = 4096, 14336, 128256, 1024, 32
    shapes = {"model.embed_tokens.weight": [vocabulary, width], "lm_head.weight": [vocabulary, width], "model.norm.weight": [width]}
    one = {f"self_attn.{name}_proj": [rows, width] for name, rows in {"q": width, "k": keys, "v": keys, "o": width}.items()}
    one |= {"mlp.gate_proj": [inner, width], "mlp.up_proj": [inner, width], "mlp.down_proj": [width, inner]}
    one |= {"input_layernorm": [width], "post_attention_layernorm": [width]}
    shapes |= {f"model.layers.{layer}.{name}.weight": shape for layer in range(layers) for name, shape in one.items()}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    config = {"hidden_size": width, "intermediate_size": inner, "vocab_size": vocabulary, "num_hidden_layers": layers}
    config |= {"num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192}
    folder.mkdir(parents=True)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"} | config))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    return folder


def declare(section: str) -> None:
    """Write the section's declarations into the files that their first lines name."""
    for first, text in re.findall(r"^```yaml\n# ([^\n]+)\n(.*?)^```", section, re.M | re.S):
        for name in first.removeprefix("append: ").split(", "):
            file = Path(name)
            file.write_text((file.read_text(encoding="utf-8") if first.startswith("append: ") else "") + text, encoding="utf-8")


def commands(section: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines that the page shows of its output."""
    found: list[tuple[str, list[str]]] = []
    for line in re.findall(r"^    (.+)$", re.sub(r"^```.*?^```", "", section, flags=re.M | re.S), re.M):
        if re.match(r"(PLUMBLINE_HOME=\S+ )?plumbline |kubectl ", line):
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    yield from found


def follow(section: str, patch: pytest.MonkeyPatch) -> int:
    """Declare and run what the section says; how many commands ran."""
    declare(section)
    ran = 0
    for command, shown in commands(section):
        words = shlex.split(command.replace(BUCKET, str(Path("models/assistant").resolve())))
        with patch.context() as inner:
            if words[0].startswith("PLUMBLINE_HOME="):
                inner.setenv("PLUMBLINE_HOME", words.pop(0).partition("=")[2])
            if words[0] != "plumbline" or words[1] in CLUSTER:
                continue
            result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, result.output
        printed = [" ".join(line.split()) for line in result.output.splitlines()]
        for line in shown:
            wanted = " ".join(line.split())
            found = any(each == wanted or (wanted.endswith("…") and each.startswith(wanted[:-1])) for each in printed)
            assert found, f"{line}\n{result.output}"
        ran += 1
    return ran


def walk(patch: pytest.MonkeyPatch, last: int) -> list[int]:
    """Follow steps 1 to `last`; the clusters are enabled after step 2, as their doctors allow."""
    ran = []
    for section in list(SECTIONS.values())[:last]:
        ran.append(follow(section, patch))
        if len(ran) == 2:
            for file in (Path("include/config/providers") / f"{name}.yaml" for name in ("north", "south")):
                file.write_text(file.read_text(encoding="utf-8").replace("enabled: false", "enabled: true"), encoding="utf-8")
    return ran


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped declarations, with the digests of an image, and the checkpoint."""
    shutil.copytree(CONFIG, tmp_path / "include" / "config")
    images = tmp_path / "include" / "config" / "defaults.yaml"
    images.write_text(images.read_text(encoding="utf-8").replace("0" * 64, "1" * 64), encoding="utf-8")
    checkpoint(tmp_path / "models" / "assistant")
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "include" / "config"))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "var"))
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    monkeypatch.delenv("PLUMBLINE_RESULTS_URL", raising=False)
    monkeypatch.chdir(tmp_path)


def test_both_clusters_and_the_model_are_declared_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert walk(monkeypatch, 5) == [0, 0, 1, 1, 2]


@pytest.mark.full
def test_the_rehearsal_runs_as_printed_and_is_read_as_the_first_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert walk(monkeypatch, 7) == [0, 0, 1, 1, 2, 4, 0]
    monkeypatch.setenv("PLUMBLINE_HOME", "var/rehearsal")
    assert follow(list(SECTIONS.values())[7], monkeypatch) == 4
