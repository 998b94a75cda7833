"""Pages whose commands run as they are printed, in this process: answers, samples, walkthroughs, and the way to two clusters."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests import checkpoints
from tests.documented import ROOT, page, sections
from tests.fakes.trials import CONFIG
from typer.testing import CliRunner

from plumbline.cli.app import app

Run = Callable[..., str]
"""run(line, *exit codes): what one line of a page prints."""


def installation(folder: Path, patch: pytest.MonkeyPatch) -> Run:
    """The shipped declarations and the page's files in a folder, which becomes the working one; runs its lines."""
    for name in [name for name in os.environ if name.startswith("PLUMBLINE_")]:
        patch.delenv(name)
    shutil.copytree(CONFIG, folder / "include" / "config")
    (folder / "docs").symlink_to(ROOT / "docs")
    patch.setenv("PLUMBLINE_CONFIG", str(folder / "include" / "config"))
    patch.setenv("PLUMBLINE_HOME", str(folder / "var"))
    patch.chdir(folder)

    def run(line: str, *codes: int) -> str:
        words = shlex.split(line.partition(" < ")[0], comments=True)
        if words[0] == "export":
            patch.setenv(*words[1].split("=", 1))
            return ""
        with pytest.MonkeyPatch.context() as once:
            while re.match("[A-Z_]+=", words[0]):
                once.setenv(*words.pop(0).split("=", 1))
            assert words[0] == "plumbline"
            stdin = Path(line.partition(" < ")[2]).read_text(encoding="utf-8") if " < " in line else None
            result = CliRunner().invoke(app, words[1:], input=stdin)
        assert result.exit_code in (codes or (0,)), result.output
        return result.output

    return run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return installation(tmp_path, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("name", ["cost-scenarios", "read-a-scorecard", "rehearse-with-simulation"])
def test_the_first_commands_of_a_page_run_as_printed(name: str, run: Run) -> None:
    block = re.search(r"```(?:sh|bash)\n(.*?)```", page(name), re.S)
    assert block is not None and "plumbline " in block[1]
    assert [run(line) for line in block[1].splitlines()][-1]


# docs/own-or-rent.md


def test_own_or_rent_runs_as_printed(run: Run) -> None:
    owned, serverless, contract, source = re.findall(r"```yaml\n(.*?)```", page("own-or-rent"), re.S)
    table, invoice = re.findall(r"```text\n(.*?)```", page("own-or-rent"), re.S)
    places = Path("include", "config", "providers")
    with (places / "simulated-h100.yaml").open("a", encoding="utf-8") as file:
        file.write(owned + source)
    Path("include/config/contracts/simulated-2026.yaml").write_text(contract, encoding="utf-8")
    (places / "simulated-serverless.yaml").write_text(serverless, encoding="utf-8")
    Path("invoice.csv").write_text(invoice, encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", page("own-or-rent"), re.S)
    printed = {line: run(line, 0, 4) for block in blocks for line in block.splitlines()}
    shown = next(text for line, text in printed.items() if "break-even" in line)
    for row in (line for line in table.splitlines() if line != "…"):
        assert re.sub(r"\s+", " ", row.strip()) in re.sub(r"\s+", " ", shown)
    assert "1.10 instances needed, 2 bought, 0.897 slack" in re.sub(r"\s+", " ", shown)
    (tracked,) = json.loads(run("plumbline cost commitments --on 2026-11-21 --json"))["commitments"]
    assert (tracked["reserved_h"], tracked["ahead_h"], tracked["usd_per_hour"]) == (365 * 24, 24 * 24, 32.8)
    assert tracked["used_h"] + tracked["unused_h"] == 341 * 24 and tracked["used_h"] > 612.5
    compared = run("plumbline cost reconcile invoice.csv --provider simulated-h100 --json", 4)
    kinds = {each["kind"] for each in json.loads(compared)["differences"]}
    assert kinds == {"price", "duplicate", "hours_without_trial", "region", "tax"}
    assert printed["plumbline findings list --all"].count("invoice.csv") == 5


# docs/faq.md

QUESTIONS = {question: re.findall(r"^    (.+)$", text, re.M) for question, text in sections("faq").items()}
"""The commands of each answer."""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Two simulated campaigns, and the files that the answers name."""
    folder = tmp_path_factory.mktemp("faq")
    shutil.copy(ROOT / "tests" / "data" / "imported_results" / "aiperf-0.13.0.json", folder / "profile_export_aiperf.json")
    checkpoints.mixture(folder / "models" / "assistant")
    with pytest.MonkeyPatch.context() as patch:
        run = installation(folder, patch)
        months = "--provider simulated-2core --campaigns 2026-01..2026-02 --repeats 2 --home var"
        run(f"plumbline rehearse {months} --workload chat-tiny-cpu --workload gpt-tiny-cpu")
        yield run


def measures(line: str) -> bool:
    """Whether a command measures this machine."""
    return line.split()[1] in ("trial", "selfcheck")


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=pytest.mark.full if measures(line) else ()) for lines in QUESTIONS.values() for line in lines]
)
def test_each_answer_s_command_runs(ask: Run, line: str) -> None:
    ask(line, *(() if measures(line) else (0, 4)))


def test_each_question_has_an_answer_and_at_most_one_command() -> None:
    assert [q for q, text in sections("faq").items() if not re.search(r"^\S", text.partition("\n")[2], re.M)] == []
    assert max(map(len, QUESTIONS.values())) == 1 and sum(map(len, QUESTIONS.values())) > len(QUESTIONS) / 2


# docs/sample-files.md


@pytest.fixture
def samples(run: Run) -> Run:
    shutil.copytree(ROOT / "docs" / "samples" / "config", Path("include", "config"), dirs_exist_ok=True)
    return run


@pytest.mark.parametrize("command", re.findall(r"\| `(plumbline [^`]+)` \|", page("sample-files")))
def test_each_command_runs_on_its_sample(samples: Run, command: str) -> None:
    assert samples(command).strip()


def test_the_declarations_are_valid(samples: Run) -> None:
    assert "example-8x" in samples("plumbline check --all")


def test_prompts_are_of_the_declared_format(samples: Run) -> None:
    config = Path("include", "config")
    (config / "prompts").mkdir(exist_ok=True)
    shutil.copy(Path("docs", "samples", "prompts.jsonl"), config / "prompts")
    prompts = "{source: file, path: prompts.jsonl, format: text}"
    asked = f"requests:\n  prompts: {prompts}\n  output_tokens: {{constant: 4}}\n  text: true\n  seed: 1\n"
    text = (config / "workloads" / "inference" / "chat-tiny-cpu.yaml").read_text(encoding="utf-8")
    own = re.sub(r"^requests:\n(?:[ #].*\n)+", asked, text.replace("name: chat-tiny-cpu", "name: questions"), flags=re.M)
    (config / "workloads" / "inference" / "questions.yaml").write_text(own, encoding="utf-8")
    assert "2 prompts" in samples("plumbline workload check-prompts questions")


def test_every_sample_is_on_the_page() -> None:
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs" / "samples").rglob("*") if path.is_file()}
    assert there == set(re.findall(r"\]\((samples/[^)]+)\)", page("sample-files")))


# docs/two-clusters.md: what needs no cluster prints what the page shows.

STEPS = list(sections("two-clusters").values())


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


def follow(section: str, run: Run, *codes: int) -> int:
    """Write the section's declarations into the files that their first lines name, and run its commands; how many ran."""
    for first, text in re.findall(r"^```yaml\n# ([^\n]+)\n(.*?)^```", section, re.M | re.S):
        for file in map(Path, first.removeprefix("append: ").split(", ")):
            file.write_text((file.read_text(encoding="utf-8") if first.startswith("append: ") else "") + text, encoding="utf-8")
    ran, printed = 0, []
    for line in re.findall(r"^    (.+)$", re.sub(r"^```.*?^```", "", section, flags=re.M | re.S), re.M):
        if re.match(r"kubectl |plumbline (cluster|airflow|trigger) ", line):
            printed = []  # needs a cluster or an Airflow
        elif re.match(r"(PLUMBLINE_HOME=\S+ )?plumbline ", line):
            ran += 1
            output = run(line.replace("s3://models/assistant", str(Path("models/assistant").resolve())), *codes)
            printed = [" ".join(each.split()) for each in output.splitlines()]
        elif printed:
            wanted = " ".join(line.split())
            assert any(each == wanted or (wanted.endswith("…") and each.startswith(wanted[:-1])) for each in printed), (line, printed)
    return ran


# docs/your-own-training.md


MEASURED = (pytest.mark.full, pytest.mark.exclusive, pytest.mark.integration)


@pytest.mark.parametrize("last", [3, pytest.param(5, marks=MEASURED)], ids=["declared", "decided"])
def test_a_script_is_declared_measured_rehearsed_and_decided(last: int, run: Run) -> None:
    assert [follow(section, run) for section in list(sections("your-own-training").values())[:last]] == [1, 0, 1, 2, 2][:last]


@pytest.mark.parametrize(
    ("last", "commands"),
    [(5, [0, 0, 1, 1, 2]), pytest.param(8, [0, 0, 1, 1, 2, 4, 0, 4], marks=pytest.mark.full)],
    ids=["declared", "rehearsed"],
)
def test_two_clusters_and_the_model_are_declared_checked_rehearsed_and_read(
    last: int, commands: list[int], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = Path("include", "config", "defaults.yaml")
    images.write_text(images.read_text(encoding="utf-8").replace("0" * 64, "1" * 64), encoding="utf-8")
    checkpoint(Path("models", "assistant"))
    ran = []
    for section in STEPS[:last]:
        if len(ran) == 7:
            monkeypatch.setenv("PLUMBLINE_HOME", "var/rehearsal")  # read as the first run is
        ran.append(follow(section, run))
        if len(ran) == 2:  # as the clusters' doctors allow
            for file in (Path("include/config/providers") / f"{name}.yaml" for name in ("north", "south")):
                file.write_text(file.read_text(encoding="utf-8").replace("enabled: false", "enabled: true"), encoding="utf-8")
    assert ran == commands


# docs/acceptance.md


def test_a_delivery_is_accepted_and_its_bad_nodes_become_findings(run: Run) -> None:
    steps = list(sections("acceptance").values())
    assert [follow(section, run, 0, 4) for section in steps] == [0, 3, 1, 0, 2]
    assert all(f"delivery-node-{node} is slow" in run("plumbline findings list --all") for node in (7, 21, 30))


# docs/promises.md


def test_what_was_logged_breaks_a_promise_and_is_claimed(run: Run) -> None:
    text = page("promises")
    last = datetime.now(timezone.utc).date().replace(day=1) - timedelta(days=1)
    terms = re.search(r"```yaml\n(sla:.*?)```", text, re.S)
    assert terms is not None
    file = Path("include", "config", "providers", "simulated-2core.yaml")
    file.write_text(file.read_text(encoding="utf-8") + terms[1].replace("2026-10", f"{last:%Y-%m}"), encoding="utf-8")
    printed = ""
    for line in re.findall(r"^    (plumbline .+)$", text, re.M):
        for sample, names in (
            ("0123456789ab", re.findall(r"^([0-9a-f]{12}): ", printed, re.M)),
            ("7c1fa2b9d0e4", re.findall(r"[0-9a-f]{12}", printed)),
        ):
            line = line.replace(sample, names[-1] if names else sample)
        printed = run(line.replace("2026-10", f"{last:%Y-%m}"))
        if line == "plumbline promises simulated-2core":
            assert "broken" in printed and "10 % of the month's bill, 2.92 USD" in " ".join(printed.replace("│", " ").split())
    (letter,) = Path().glob("claim-*/claim.txt")
    assert f"Credit for availability in {last:%Y-%m}: 10 % of the month's bill, 2.92 USD." in letter.read_text(encoding="utf-8")
    with zipfile.ZipFile(next(letter.parent.glob("evidence-*.zip"))) as pack:
        (entry,) = json.loads(pack.read("promises.json"))["operations_log"]
    assert (entry["what"], entry["reference"]) == ("no node answers", "4711")


# docs/availability.md


def test_steps_of_the_load_run_as_printed(run: Run) -> None:
    text = sections("request-patterns")["Scaling: phase `scale_out`"]
    for declared in re.findall(r"```yaml\n(.*?)```", text, re.S):
        file = Path(declared.splitlines()[0].removeprefix("# "))
        file.write_text(declared, encoding="utf-8")
    (commands,) = re.findall(r"```sh\n(.*?)```", text, re.S)
    shown = re.sub(r"\s+", " ", [run(line) for line in commands.splitlines()][-1])
    # One replica more, idle for two minutes at 7.20 USD an hour.
    for line in ("Criteria all 2 pass", "idle replica cost ↓ scale out 0.24 USD", "idle replica time ↓ scale out 2.00 min"):
        assert line in shown


def test_the_page_of_availability_runs_as_printed(run: Run) -> None:
    text = page("availability")
    declared, commands, printed = (re.search(rf"```{kind}\n(.*?)```", text, re.S) for kind in ("yaml", "sh", "text"))
    assert declared is not None and commands is not None and printed is not None
    Path("include/config/providers/simulated-watched.yaml").write_text(declared[1], encoding="utf-8")
    outputs = [run(line) for line in commands[1].splitlines()]
    assert outputs[-1] == printed[1]
