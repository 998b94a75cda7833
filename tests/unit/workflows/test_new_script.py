"""Scripts of several kinds, run for some steps and understood."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from plumbline.declarations import DeclarationError
from plumbline.declarations.workloads.script import CsvReport, JsonLinesReport, KnownReport, RegexReport, ReporterReport, TensorBoardReport
from plumbline.workflows import new_script
from plumbline.workflows.new_script import Understood, report_named, settings_of, steps_of, understand, work_of_step, write_script

LOOP = "import json, os, pathlib, sys, time\nfor n in range(1, 41):\n    time.sleep(0.005)\n    loss = 4 - n / 20\n    {}\n"
NANOGPT = "if n % 2: continue\n    print(f'iter {n}: loss {loss:.4f}, time {5.0:.2f}ms, mfu 1.00%')"
HUGGING_FACE = "print({'loss': f'{loss:.4g}', 'grad_norm': '1.2', 'epoch': '0.1'})"
OBJECTS = "print('INFO', json.dumps({'global_step': n, 'train/loss': loss, 'val_loss': 1}), file=sys.stderr)"
OBJECTS_IN_FILE = "open('log.jsonl', 'a').write(json.dumps({'iter': n, 'loss': loss}) + '\\n')"
ROWS = "os.makedirs('runs/version_0', exist_ok=True)\n    new = not os.path.exists(f := 'runs/version_0/scores.csv')\n    open(f, 'a').write('step,train_loss\\n' * new + f'{n},{loss}\\n')"
LIGHTNING = ROWS.replace("scores", "metrics")
WORDS = "print(f'Epoch 1 | Step {n}/40 | lr 1e-3 | Train loss: {loss:.3f}')"
OF_TOTAL = "print(f'[{n}/40 (2%)]\\tLoss: {loss:.6f}')"
NO_STEP = "print(f'loss={loss:.6f} lr=0.1')"
REPORTER = "from plumbline_report import step\n    with step(n) as s: s.loss = loss"


def run(folder: Path, body: str, **options: Any) -> Understood:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(LOOP.format(body))
    return understand([sys.executable, "train.py"], folder, options.get("report"), 30)


@pytest.mark.parametrize(
    ("body", "report", "first", "every"),
    [
        (NANOGPT, KnownReport(format="nanogpt", first=2, every=2), 2, 2),
        (HUGGING_FACE, KnownReport(format="huggingface"), None, 1),
        (OBJECTS, JsonLinesReport(format="jsonl", step="global_step", loss="train/loss", first=1), 1, 1),
        (OBJECTS_IN_FILE, JsonLinesReport(format="jsonl", step="iter", loss="loss", first=1, file="log.jsonl"), 1, 1),
        (ROWS, CsvReport(format="csv", step="step", loss="train_loss", first=1, file="runs/version_*/scores.csv"), 1, 1),
        (LIGHTNING, KnownReport(format="lightning", first=1), 1, 1),
        (
            WORDS,
            RegexReport(format="regex", pattern=r"\bStep +(?P<step>[0-9,]+).*?\bTrain +loss: +(?P<loss>[-+.0-9eEnNaif]+)", first=1),
            1,
            1,
        ),
        (OF_TOTAL, RegexReport(format="regex", pattern=r"\[(?P<step>[0-9,]+).*?\bLoss: +(?P<loss>[-+.0-9eEnNaif]+)", first=1), 1, 1),
        (NO_STEP, RegexReport(format="regex", pattern=r"\bloss=(?P<loss>[-+.0-9eEnNaif]+)"), None, 1),
        (REPORTER, ReporterReport(format="reporter", first=1), 1, 1),
    ],
)
def test_each_kind_of_report_is_recognised(tmp_path: Path, body: str, report: Any, first: int | None, every: int) -> None:
    found = run(tmp_path, body)
    assert found.report == report
    assert (found.reports[0].step, found.every) == (first, every)
    assert len(found.reports) >= new_script.WANTED and (found.reports[0].loss or 0) > (found.reports[-1].loss or 9)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_steps_without_numbers_are_as_many_as_a_setting_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP.format(HUGGING_FACE))
    found = understand([sys.executable, "train.py", "--logging_steps", "5"], tmp_path, None, 30)
    assert (found.every, found.report, found.counted) == (5, KnownReport(format="huggingface", every=5), "by --logging_steps")


def test_steps_without_numbers_are_as_many_as_the_bar_beside_them_says(tmp_path: Path) -> None:
    bar = "print(f'{n}%|x| {n * 4}/200 [00:0{n % 10}<00:09, 8.0it/s]', end=chr(13))\n    " + HUGGING_FACE
    found = run(tmp_path, bar)
    assert (found.every, found.counted) == (4, "by the progress bar beside them")
    assert run(tmp_path, NO_STEP).counted.startswith("a guess")


def test_event_files_are_recognised(tmp_path: Path) -> None:
    writer = "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter('runs/today')\n"
    tmp_path.joinpath("train.py").write_text(writer + LOOP.format("writer.add_scalar('loss/train', loss, n)\n    writer.flush()"))
    found = understand([sys.executable, "train.py"], tmp_path, None, 60)
    assert found.report == TensorBoardReport(format="tensorboard", folder="runs", loss="loss/train", first=1)


def test_a_run_that_goes_on_is_ended_after_ten_reports(tmp_path: Path) -> None:
    endless = (
        LOOP.format("print(f'step {n} loss {loss}', flush=True)")
        + "import subprocess\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(300)'])"
    )
    (tmp_path / "train.py").write_text(endless)
    before = psutil.Process().children(recursive=True)  # of other tests
    assert len(understand([sys.executable, "train.py"], tmp_path, None, 60).reports) >= 10
    left = [process for process in psutil.Process().children(recursive=True) if process not in before]
    assert [process for process in left if process.is_running() and process.status() != "zombie"] == []


def test_what_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(lines: list[str], *rest: Any) -> Any:
        seen.append(len(lines))
        return recognise(lines, *rest)

    recognise = new_script.recognise
    monkeypatch.setattr(new_script, "recognise", counted)
    (tmp_path / "train.py").write_text(
        "import time\nprint('loading', flush=True)\ntime.sleep(3)\n" + LOOP.format("print(f'step {n} loss {loss}')")
    )
    found = understand([sys.executable, "train.py"], tmp_path, None, 60)
    assert len(found.reports) >= new_script.WANTED
    assert seen.count(1) == 1, "three seconds in which nothing was written are one reading"


SLEEPING = """
import json, os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
open(sys.argv[1] + ".new", "w").write(json.dumps([os.getpid(), dict(os.environ)]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(300)
"""
TRYING = "import sys; from pathlib import Path; from plumbline.workflows.new_script import understand; understand(sys.argv[3:], Path(sys.argv[2]), None, 120)"


@pytest.mark.fault(
    "`plumbline workload new` is ended or killed while it tries a script", ends="nothing is declared", keeps="no process of it"
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_script_ends_with_what_tries_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "train.py").write_text(SLEEPING)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("OF_THE_CALLER", "hunter2")
    command = [sys.executable, "train.py", str(tmp_path / "seen")]
    with subprocess.Popen([sys.executable, "-c", TRYING, "-", str(tmp_path / "files"), *command]) as trying:
        until = time.monotonic() + 60
        while not (tmp_path / "seen").exists() and time.monotonic() < until:
            time.sleep(0.1)
        pid, environment = json.loads((tmp_path / "seen").read_text())
        below = [psutil.Process(pid), *psutil.Process(trying.pid).children(recursive=True)]
        trying.send_signal(number)
        trying.wait()
    assert len(below) >= 5, "reaper, harness, worker, command, and what that started"
    _, left = psutil.wait_procs(below, timeout=30)
    assert [process for process in left if process.status() != "zombie"] == []
    assert "hunter2" not in json.dumps(environment), "it gets a trial's environment"
    assert environment["HOME"].startswith(tempfile.gettempdir()) and environment["HOME"].endswith("/home")


@pytest.mark.fault("a tried script writes one line without an end", ends="refused at its limit", keeps="the caller's time and memory")
@pytest.mark.parametrize("text", ["loss ", '{"loss":', "step 1 / "])
def test_a_long_line_goes_not_beyond_the_limit(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(f"import sys, time\nsys.stdout.write({text!r} * 3_000_000)\nsys.stdout.flush()\ntime.sleep(300)\n")
    with pytest.raises(ValueError, match=r"ran for 2 s .--limit. and reported no step") as caught:
        understand([sys.executable, "train.py"], tmp_path, None, 2)
    assert len(str(caught.value)) < 10_000


def test_a_program_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    with pytest.raises(ValueError, match=r"^no-such-program is no program here; expected one of the image"):
        understand(["no-such-program"], tmp_path, None, 30)


def test_a_checkpoint_s_folder(tmp_path: Path) -> None:
    save = "print(f'step {n} loss {loss}')\n    os.makedirs('out/deep', exist_ok=True)\n    pathlib.Path('out/deep/a.pt').write_text('x')"
    assert run(tmp_path / "saves", save).checkpoints == "out"
    assert run(tmp_path / "not", WORDS).checkpoints is None


def test_each_rank_is_started_and_the_first_one_read(tmp_path: Path) -> None:
    meets = "pathlib.Path(os.environ['RANK']).touch()\n    while len(list(pathlib.Path().glob('[01]'))) < int(os.environ['WORLD_SIZE']): time.sleep(0.01)\n    "
    (tmp_path / "train.py").write_text(LOOP.format(meets + "print('rank', os.environ['LOCAL_RANK'], f'step {n} loss {loss}')"))
    pattern = r"rank 0 step (?P<step>\d+)"
    assert understand([sys.executable, "train.py"], tmp_path, report_named(pattern), 30, ranks=2).reports
    with pytest.raises(ValueError, match="exit status 1 and reported no step"):
        understand([sys.executable, "train.py"], tmp_path, report_named(pattern.replace("0", "1")), 30, ranks=1)
    with pytest.raises(ValueError, match=r"ran for 2 s .--limit. and reported no step"):
        understand([sys.executable, "train.py"], tmp_path, report_named(pattern), 2, ranks=3)


def test_a_script_that_reports_nothing_shows_its_last_lines(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("for n in range(30): print('line', n)\nraise SystemExit(3)")
    with pytest.raises(ValueError, match="exit status 3 and reported no step") as caught:
        understand([sys.executable, "train.py"], tmp_path, None, 30)
    assert str(caught.value).splitlines()[1:] == [f"line {n}" for n in range(10, 30)]


def test_a_given_format_is_the_only_one(tmp_path: Path) -> None:
    assert run(tmp_path, WORDS, report=report_named(r"Step (?P<step>\d+)")).reports[0].loss is None
    with pytest.raises(ValueError, match="expected nanogpt's"):
        run(tmp_path, WORDS, report=report_named("nanogpt"))
    with pytest.raises(ValueError, match="neither a group step nor loss"):
        report_named("nanogtp")


FILES = {
    "train.py": "batch_size = 12 # micro-batch\nblock_size = 1024\ngradient_accumulation_steps = 5 * 8 # simulates larger ones\nbias = False\n",
    "parsed.py": 'p.add_argument("--micro-batch-size", type=int, default=4)\np.add_argument("--seq-len", help="x", default=128)\n',
    "small.py": "block_size = 64\nbatch_size = 8\n",
    "run.yaml": "training:\n  global_batch_size: 32\n  seq_len: 256\n  gradient_accumulation_steps: 4\n",
    "images.py": "BATCH_SIZE = 64\nepochs = 3\n",
    "none.py": "steps = 3\n",
}


@pytest.mark.parametrize(
    ("command", "processes", "work"),
    [
        ("python train.py", 1, ("tokens", 12 * 1024 * 40, "batch_size × block_size × gradient_accumulation_steps")),
        (
            "python train.py small.py --gradient_accumulation_steps=1",
            1,
            ("tokens", 512, "batch_size × block_size × --gradient_accumulation_steps"),
        ),
        ("python parsed.py --seq-len 64", 2, ("tokens", 512, "micro-batch-size × --seq-len × processes")),
        ("torchrun run.py --config=run.yaml", 2, ("tokens", 32 * 256, "global_batch_size × seq_len")),
        ("python -m trainer train.batch_size=4 data.seq_len=8", 1, ("tokens", 32, "train.batch_size × data.seq_len")),
        ("python images.py", 1, ("samples", 64, "BATCH_SIZE")),
        ("python none.py", 1, None),
    ],
)
def test_the_work_of_a_step_by_the_settings(tmp_path: Path, command: str, processes: int, work: Any) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert work_of_step(settings_of(command.split(), tmp_path), processes) == work


@pytest.mark.parametrize(
    ("command", "steps"),
    [("a.py --max-steps 40", (40, None)), ("a.py max_iters=7 --eval_iters=5", (7, None)), ("a.py --save-steps 3", (None, 3))],
)
def test_where_a_script_ends_and_saves_by_its_settings(tmp_path: Path, command: str, steps: tuple[int | None, int | None]) -> None:
    assert steps_of(settings_of(command.split(), tmp_path)) == steps


def declared(**task: Any) -> dict[str, Any]:
    files = {"source": "folder", "path": "mine"}
    report = {"format": "nanogpt"}
    fields = {"kind": "script", "command": ["python", "train.py"], "files": files, "report": report, **task}
    return {
        "kind": "training",
        "name": "mine",
        "version": 1,
        "description": "x",
        "needs": {"accelerator": "cpu"},
        "task": fields,
        "steps": {"discard": 2, "measure": 20},
        "repeats": {"per_slot": 1, "slots": ["02:00"]},
    }


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    (tmp_path / "own" / "__pycache__").mkdir(parents=True)
    (tmp_path / "own" / "train.py").write_text("x = 1\n")
    return tmp_path / "config"


def test_a_folder_is_written_beside_its_declaration(config: Path, tmp_path: Path) -> None:
    path = write_script(declared(), tmp_path / "own", overwrite=False)
    assert path == config / "workloads/training/mine.yaml"
    assert [file.name for file in (config / "scripts/mine").iterdir()] == ["train.py"]
    with pytest.raises(ValueError, match="exists; expected another --name, or --replace"):
        write_script(declared(), tmp_path / "own", overwrite=False)
    (tmp_path / "own" / "more.py").write_text("")
    write_script(declared(), tmp_path / "own", overwrite=True)
    assert (config / "scripts/mine/more.py").is_file()


def test_nothing_is_left_of_a_refused_one(config: Path, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="RANK"):
        write_script(declared(environment={"RANK": "0"}), tmp_path / "own", overwrite=False)
    assert not config.exists()


def test_files_of_git_are_not_copied(config: Path, tmp_path: Path) -> None:
    write_script(
        declared(files={"source": "git", "url": "https://example.com/x.git", "commit": "a" * 40}), tmp_path / "own", overwrite=False
    )
    assert not (config / "scripts").exists()
