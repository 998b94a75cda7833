"""Runs the services of a compose file as processes of this machine: the same commands, with the same environment and nothing else.

What a container would see is mapped, and only that: a service's name becomes loopback with a free port, a mounted path becomes a folder.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import string
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yaml"
MARK = "PLUMBLINE_TEST_COMPOSE"
_GRACE_S = 120.0  # what takes seconds takes a starved machine minutes
_WORD = string.ascii_letters + string.digits


class Refused(RuntimeError):
    """The compose implementation did not accept the file; the message is its own."""


def implementations(folder: Path) -> dict[str, list[str]]:
    """The compose implementations that are here. podman-compose comes with the tests; it asks `podman` for its version and no more."""
    found = {"podman-compose": [str(Path(sys.executable).with_name("podman-compose"))]}
    if shutil.which("docker-compose"):
        found["docker-compose"] = ["docker-compose"]
    elif shutil.which("docker") and subprocess.run(["docker", "compose", "version"], check=False, capture_output=True).returncode == 0:
        found["docker compose"] = ["docker", "compose"]
    stand_in = folder / "bin" / "podman"
    if not shutil.which("podman") and not stand_in.exists():
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.write_text("#!/bin/sh\necho podman version 5.4.0\n")
        stand_in.chmod(0o755)
    return found


def resolve(command: list[str], folder: Path, settings: Path) -> dict[str, Any]:
    """The compose file as the implementation understands it, with the variables of `settings` and no others, and
    the services of its profiles; Refused with its words."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PLUMBLINE_", "AWS_", "COMPOSE_", "AIRFLOW_"))}
    clean["PATH"] = f"{folder / 'bin'}{os.pathsep}{clean['PATH']}"
    line = [*command, "--env-file", str(settings), "-f", str(COMPOSE_FILE), "config"]
    done = subprocess.run(line, check=False, cwd=folder, env=clean, capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(done.stderr)
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


def write_settings(folder: Path, *options: str) -> Path:
    """A new .env as `make server-env` and `make server-images` write it, with made-up digests of the images that its profiles need."""
    file = folder / "server.env"
    subprocess.run([sys.executable, ROOT / "k8s/airflow/server_env.py", *options, "--file", file], check=True, capture_output=True)
    with file.open("a") as lines:
        lines.writelines(
            f"PLUMBLINE_{name}_IMAGE={name.lower()}@sha256:{'ab' * 32}\n"
            for name in ("POSTGRES", *(["STORE"] if "--store" in options else []))
        )
    return file


def read_settings(file: Path) -> dict[str, str]:
    """The variables of an .env file."""
    lines = (line for line in file.read_text().splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


@dataclass
class Processes:
    """`replaced`: what a container sees → what is here, applied to every command and value. `extra`: added to every environment."""

    services: Mapping[str, Any]
    folder: Path
    settings: Mapping[str, str]
    replaced: Mapping[str, str]
    extra: Mapping[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self, name: str) -> dict[str, str]:
        """What the service's process gets."""
        declared = self.services[name].get("environment", {})
        values = {k: str(v) if v is not None else self.settings.get(k) for k, v in declared.items()}
        image = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        ours = {k: self._here(v, name) for k, v in values.items() if v is not None}
        return {**image, **ours, **self.extra, MARK: str(self.folder)}

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a service that ends by itself; its output is in the answer."""
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.run(self._command(name), check=False, env=self.environment(name), cwd=self.folder, **out)

    def start_all(self, names: Collection[str], limit_s: float) -> None:
        """Start services in the order that their `depends_on` demands, waiting where it asks for a healthy one; then wait for all."""
        waiting = set(names)
        while waiting:
            wanted = {name: self.services[name].get("depends_on", {}) for name in sorted(waiting)}
            name = next(n for n, before in wanted.items() if not waiting & set(before))
            for before, terms in wanted[name].items():
                if before in self.running and terms["condition"] == "service_healthy":
                    self.wait_healthy(before, limit_s)
            self.start(name)
            waiting.remove(name)
        for name in names:
            self.wait_healthy(name, limit_s)

    def start(self, name: str) -> None:
        """Start a service; its output goes to `folder`/<name>.log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                self._command(name),
                env=self.environment(name),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def healthy(self, name: str) -> bool:
        """What the service's own health check says now."""
        kind, *test = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        command = [self._here(part, name) for part in test]
        return subprocess.run(command, check=False, env=self.environment(name), cwd=self.folder, capture_output=True).returncode == 0

    def wait_healthy(self, name: str, limit_s: float) -> None:
        """Wait until the health check passes; AssertionError with the end of its log if the service ends or the limit is reached."""
        deadline = time.monotonic() + limit_s
        while not self.healthy(name):
            log = (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]
            assert self.running[name].poll() is None, f"{name} ended by itself:\n{log}"
            assert time.monotonic() < deadline, f"{name} was not healthy within {limit_s:g} s:\n{log}"
            time.sleep(0.5)

    def stop(self) -> list[str]:
        """End all services as the image's dumb-init does, by a signal to the whole session; the commands of what had to be killed after that."""
        for process in self.running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.2)
            for process in self.running.values():
                process.poll()
        killed = []
        for one in left:
            with suppress(psutil.NoSuchProcess):  # it has just ended by itself
                killed.append(" ".join(one.cmdline()))
                one.kill()
        for process in self.running.values():
            process.wait()
        return killed

    def processes(self) -> list[psutil.Process]:
        """Everything that runs for these services, found by its environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def _command(self, name: str) -> list[str]:
        return [self._here(part, name) for part in self.services[name]["command"]]

    def _here(self, text: str, name: str) -> str:
        for mount in self.services[name].get("tmpfs", ()):
            target = mount.split(":")[0]
            text = _moved(text, target, self.folder / "memory" / name / target.strip("/").replace("/", "-"))
        for mount in self.services[name].get("volumes", ()):
            source, target = (mount.split(":")[:2]) if isinstance(mount, str) else (mount["source"], mount["target"])
            if "/" not in source:
                text = _moved(text, target, self.folder / "volumes" / source)
        # In one pass and whole words only: a random password may hold the digits of a port.
        wanted = "|".join(_whole(old) for old in sorted(self.replaced, key=len, reverse=True))
        return re.sub(wanted, lambda found: self.replaced[found[0]], text)


def _whole(word: str) -> str:
    before, after = ("" if end not in _WORD else look for end, look in ((word[0], "(?<![0-9A-Za-z])"), (word[-1], "(?![0-9A-Za-z])")))
    return before + re.escape(word) + after


def _moved(text: str, target: str, here: Path) -> str:
    if text != target and not text.startswith(f"{target}/"):
        return text
    here.mkdir(parents=True, exist_ok=True)
    return str(here) + text[len(target) :]


def nowhere() -> str:
    """The name of a machine on which nothing runs, for Airflow's `hostname_callable`."""
    return "nowhere"
