"""Run Plumbline's DAGs on each supported release line of Airflow, as a team has it: `make test-airflow`.

Each line gets an environment of its own below .airflow-envs with its own resolved packages, the DAG files of `plumbline airflow init`, and a real
Airflow: API server, scheduler with the LocalExecutor, DAG processor, triggerer. Then a simulated campaign goes from the benchmark through the review
to the report, and unless --short a local one, and an action on a finding from its page.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from plumbline.airflow.versions import NEWEST, OLDEST
from plumbline.cli.airflow_layouts import LAYOUTS
from plumbline.embedded.client import AirflowClient, AirflowError
from plumbline.harness.process_tree import end_processes, tagged_processes

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".airflow-envs"
LINES = tuple(f"{OLDEST[0]}.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1))
LAYOUT_OF = dict(zip(LINES, ("official", "helm", "astronomer"), strict=True))
"""Each layout is started once."""
PINS = {"3.2": ("cadwyn<8", "fastapi<0.137", "pydantic<2.13")}
"""What a line needs beside its own metadata. 3.2: with cadwyn 9 no component starts (TITerminalStatePayload needs a discriminator field)."""
PREFIX, USER = "gpu_", "ann"
SIMULATED, LOCAL, WORKLOAD = "simulated-2core", "local-1core", "gpt-tiny-cpu"
START_S, RUN_S = 300.0, 600.0
_MARK = "PLUMBLINE_VERSION_TEST"
_TORCH = ("torch", "torchgen", "functorch")


def environment(line: str) -> Path:
    """The Python of an environment with the newest Airflow of the line; made once, and kept."""
    folder = ENVIRONMENTS / line
    wanted, resolved, done = ENVIRONMENTS / f"{line}.in", ENVIRONMENTS / f"{line}.txt", folder / ".ready"
    python = folder / "bin" / "python"
    text = (ROOT / "requirements" / "main.in").read_text(encoding="utf-8")
    text, changed = re.subn(r"^apache-airflow==\S+", f"apache-airflow=={_newest(line)}", text, flags=re.M)
    assert changed == 1, "requirements/main.in names no Airflow"
    text += "".join(f"{pin}\n" for pin in PINS.get(line, ()))
    if done.exists() and wanted.read_text(encoding="utf-8") == text:
        return python
    ENVIRONMENTS.mkdir(exist_ok=True)
    wanted.write_text(text, encoding="utf-8")
    uv = str(ROOT / ".venv" / "bin" / "uv")
    _do(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
    _do(uv, "pip", "compile", "--quiet", "--python", str(python), str(wanted), "-o", str(resolved))
    _do(uv, "pip", "sync", "--quiet", "--python", str(python), str(resolved))
    _do(uv, "pip", "install", "--quiet", "--no-deps", "--python", str(python), "-e", str(ROOT))
    # PyTorch is a gigabyte: the one of .venv serves each environment, and nothing else of .venv does.
    packages = next((folder / "lib").glob("python*/site-packages"))
    own = next((ROOT / ".venv" / "lib").glob("python*/site-packages"))
    for name in _TORCH:
        (packages / name).symlink_to(own / name)
    done.touch()
    return python


def _newest(line: str) -> str:
    """The newest release of the line, as PyPI lists it: an older one may resolve with newer packages that it cannot run with."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", "apache-airflow"], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    found = [tuple(map(int, each.split("."))) for each in re.findall(rf"\b{re.escape(line)}\.\d+\b", listed)]
    if not found:
        raise SystemExit(f"the package index lists no Airflow {line}; expected one of {', '.join(LINES)}")
    return ".".join(map(str, max(found)))


def _do(*words: str, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(words, env=None if env is None else dict(env), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words[:4])} … ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


@dataclass
class World:
    """A started Airflow with its project. `said` prints a step with the seconds since the start."""

    python: Path
    folder: Path
    env: dict[str, str]
    address: str
    client: AirflowClient
    said: Callable[[str], None]

    def id(self, name: str) -> str:
        return PREFIX + name

    def plumbline(self, *words: str) -> str:
        return _do(str(self.python), "-m", "plumbline.cli", *words, env=self.env)


def make_project(python: Path, folder: Path, layout: str) -> dict[str, str]:
    """Write the DAG files and declarations, with one simulated and one local provider; the environment of all its processes."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PLUMBLINE", "PYTHONPATH"))}
    project = folder / "project"
    said = _do(str(python), "-m", "plumbline.cli", "airflow", "init", str(project), "--prefix", PREFIX, "--for", layout, env=env)
    assert "11 DAG files" in said and "PLUMBLINE_CONFIG" in said, said
    config = project / LAYOUTS[layout].config
    simulated = config / "providers" / f"{SIMULATED}.yaml"
    simulated.write_text(simulated.read_text(encoding="utf-8").replace("enabled: false", "enabled: true"), encoding="utf-8")
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps({USER: secrets.token_urlsafe(16)}), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    return env | {
        _MARK: secrets.token_hex(8),
        "PATH": f"{python.parent}{os.pathsep}{env['PATH']}",
        # git-sync mounts the project below Airflow's home; elsewhere it is that home.
        "AIRFLOW_HOME": str(folder / "airflow" if layout == "helm" else project),
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
        "AIRFLOW__CORE__FERNET_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(16),
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "180",
        "PLUMBLINE_CONFIG": str(config),
        "PLUMBLINE_HOME": str(folder / "home"),
        "GX_ANALYTICS_ENABLED": "false",
    }


@contextmanager
def started(python: Path, folder: Path, env: dict[str, str], said: Callable[[str], None]) -> Iterator[World]:
    """All components of that Airflow; ended with everything that they started."""
    _do(str(python), "-m", "airflow", "db", "migrate", env=env)
    said("database migrated")
    processes = []
    for component in ("api-server", "scheduler", "dag-processor", "triggerer"):
        with (folder / f"{component}.log").open("w") as log:
            line = [str(python), "-m", "airflow", component]
            processes.append(subprocess.Popen(line, env=env, stdout=log, stderr=log, start_new_session=True))
    password = json.loads(Path(env["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]).read_text())[USER]
    address = env["AIRFLOW__API__BASE_URL"]
    try:
        with AirflowClient(address, USER, password, patience_s=60.0) as client:
            yield World(python, folder, env, address, client, said)
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        end_processes(lambda: list(tagged_processes(_MARK, env[_MARK])), 20.0, 10.0)


def wait_for(what: str, ready: Callable[[], Any], limit_s: float) -> Any:
    """What `ready` returns once it is true. SystemExit past the limit."""
    until, last = time.monotonic() + limit_s, ""
    while time.monotonic() < until:
        try:
            if found := ready():
                return found
        except (AirflowError, httpx.HTTPError) as error:
            last = f"; last error: {error}"
        time.sleep(1.0)
    raise SystemExit(f"{what}: not within {limit_s:.0f} s{last}")


def read_dags(world: World) -> None:
    """Every DAG of the files is there under its prefix, and no file has an import error."""
    expected = {world.id(name) for name in ("rerun", "upkeep", "upkeep_daily", "finding_action", "drift_review", "scorecard_report")}
    expected |= {world.id(f"benchmark_{name.replace('-', '_')}") for name in (SIMULATED, LOCAL)}

    def there() -> bool:
        if errors := world.client.import_errors():
            raise SystemExit(f"import errors: {json.dumps(errors, indent=1)}")
        return expected <= set(world.client.dags())

    wait_for("Airflow has all DAGs", there, START_S)
    names = set(world.client.dags())
    assert all(name.startswith(PREFIX) for name in names), names
    world.said(f"{len(names)} DAGs, no import error")


def campaign(world: World, provider: str, name: str) -> None:
    """One campaign through the benchmark, the review that its results start, and the report."""
    benchmark, review, report = (world.id(each) for each in (f"benchmark_{provider.replace('-', '_')}", "drift_review", "scorecard_report"))
    before = {run.run_id for run in world.client._runs(review, {})}
    for dag_id in (benchmark, report):
        world.client.set_paused(dag_id, False)
    conf = {"campaign": name, "reason": "versions of Airflow", "workloads": [WORKLOAD], "kinds": ["training"], "repeats": 2}
    succeeded(world, benchmark, world.client.trigger(benchmark, conf).run_id)
    new = wait_for("the review", lambda: [r for r in world.client._runs(review, {}) if r.run_id not in before], RUN_S)
    succeeded(world, review, new[0].run_id)
    succeeded(world, report, world.client.trigger(report, {"campaign": name}).run_id)
    written = list((world.folder / "home" / "reports" / name).glob("*.html"))
    assert written, f"no report of {name}"
    world.said(f"campaign {name} on {provider}: measured, reviewed, reported in {written[0].name}")


def succeeded(world: World, dag_id: str, run_id: str) -> None:
    run = wait_for(f"{dag_id} {run_id} ends", lambda: (r := world.client.run(dag_id, run_id)).ended and r, RUN_S)
    if run.state != "success":
        tasks = [task for task in world.client.tasks(dag_id, run_id) if task.state not in ("success", "skipped")]
        logs = [f"{t.task_id} {t.state}\n{world.client.task_log(dag_id, run_id, t)[-3000:]}" for t in tasks if t.state == "failed"]
        raise SystemExit(f"{dag_id} {run_id}: {run.state}\n" + "\n".join(logs or map(str, tasks)))


def act_from_the_page(world: World) -> None:
    """Rehearsed months with findings; acknowledge one with the button of its page, and see the run of `finding_action` do it."""
    world.plumbline("rehearse", "--provider", SIMULATED, "--campaigns", "2026-01..2026-04")
    finding = json.loads(world.plumbline("findings", "list", "--json"))[0]["finding_id"]
    password = json.loads(Path(world.env["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]).read_text())[USER]
    with httpx.Client(base_url=world.address, trust_env=False, timeout=120.0) as http:
        token = http.post("/auth/token", json={"username": USER, "password": password}).raise_for_status().json()["access_token"]
        http.headers["Authorization"] = f"Bearer {token}"
        page = http.get(f"/plumbline/findings/{finding}").raise_for_status().text
        form = re.search(r'name="form" value="([^"]+)"', page)
        assert form is not None, "the page of the finding has no form"
        sent = http.post("/plumbline/findings/act", data={"form": form[1], "action": "acknowledge", "why": "seen on this version"})
        assert sent.status_code == 303, f"{sent.status_code}: {sent.text[:500]}"
    action = world.id("finding_action")
    runs = wait_for("the run of the action", lambda: world.client._runs(action, {}), RUN_S)
    succeeded(world, action, runs[0].run_id)
    state = json.loads(world.plumbline("findings", "show", finding, "--json"))["state"]
    assert state == "acknowledged", state
    world.said(f"finding {finding} acknowledged from its page")


def try_line(line: str, *, short: bool) -> None:
    began = time.monotonic()

    def said(text: str) -> None:
        sys.stdout.write(f"{line}  {time.monotonic() - began:5.0f} s  {text}\n")
        sys.stdout.flush()

    python = environment(line)
    version = _do(str(python), "-W", "ignore", "-c", "from importlib.metadata import version; print(version('apache-airflow'))").strip()
    said(f"environment of Airflow {version}")
    with tempfile.TemporaryDirectory(prefix="plumbline-airflow-") as name:
        folder = Path(name)
        layout = LAYOUT_OF[line]
        env = make_project(python, folder, layout)
        said(f"plumbline airflow init --for {layout}")
        with started(python, folder, env, said) as world:
            try:
                read_dags(world)
                for pool in ("plumbline_this-machine", f"plumbline_{SIMULATED}"):
                    world.client.put_pool(pool, 1, "of the test: the listener makes none on SQLite")
                campaign(world, SIMULATED, "versions-simulated")
                if not short:
                    campaign(world, LOCAL, "versions-local")
                    act_from_the_page(world)
            except (SystemExit, AssertionError):
                for log in sorted(folder.glob("*.log")):
                    sys.stderr.write(f"--- {log.name}\n{log.read_text(errors='replace')[-2500:]}\n")
                raise
    said("done")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make test-airflow ARGS=…", description=__doc__)
    parser.add_argument("--short", action="store_true", help=f"only Airflow {LINES[0]}: import, and one simulated campaign")
    parser.add_argument("--only", choices=LINES, help="one release line")
    given = parser.parse_args()
    for line in (given.only,) if given.only else LINES[:1] if given.short else LINES:
        try_line(line, short=given.short)


if __name__ == "__main__":
    main()
