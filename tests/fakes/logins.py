"""Real servers that people log in to, on this machine: an sshd on loopback, and a Slurm of two nodes; ended by their own pids."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

SSHD, SLURMCTLD = shutil.which("sshd", path="/usr/sbin:/usr/bin"), shutil.which("slurmctld", path="/usr/sbin:/usr/bin")
needs_sshd = pytest.mark.skipif(SSHD is None or os.geteuid() != 0, reason="needs sshd and root")
needs_slurm = pytest.mark.skipif(SLURMCTLD is None or os.geteuid() != 0, reason="needs slurmctld, slurmd, munge and root")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _pid_of(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return None


def _until(holds, seconds: float = 30.0) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def _end(pid: int | None) -> None:
    if pid is None:
        return
    with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        process = psutil.Process(pid)
        process.send_signal(signal.SIGTERM)
        process.wait(10)


@dataclass
class Sshd:
    """An sshd with one host key and one user's key."""

    folder: Path
    port: int
    variables: dict[str, str]

    def start(self) -> None:
        assert SSHD is not None
        Path("/run/sshd").mkdir(exist_ok=True)
        own = "\n".join(f"SetEnv {' '.join(f'{k}={v}' for k, v in self.variables.items())}" for _ in range(bool(self.variables)))
        (self.folder / "conf").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nAuthorizedKeysFile {self.folder}/client.pub\n"
            f"PidFile {self.folder}/pid\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\n{own}\n"
        )
        subprocess.run([SSHD, "-f", self.folder / "conf", "-E", self.folder / "log"], check=True)
        _until(lambda: _pid_of(self.folder / "pid"))

    def stop(self) -> None:
        """End it, and the logins that are open."""
        pid = _pid_of(self.folder / "pid")
        below = psutil.Process(pid).children(recursive=True) if pid and psutil.pid_exists(pid) else []
        _end(pid)
        for process in below:
            with suppress(psutil.NoSuchProcess):
                if process.name() == "sshd":
                    process.kill()

    def connection(self, **extra: str) -> str:
        """An Airflow connection to it."""
        keys = {"private_key": (self.folder / "client").read_text(), "host_key": (self.folder / "host.pub").read_text()}
        row = {"conn_type": "ssh", "host": "127.0.0.1", "login": "root", "port": self.port, "extra": json.dumps({**keys, **extra})}
        return json.dumps(row)


@contextmanager
def sshd(folder: Path, **variables: str) -> Iterator[Sshd]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    server = Sshd(folder, free_port(), variables)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class NoSlurm(Exception):
    """Slurm is installed and its daemons do not run on this machine, as in a container whose host name has no address."""


@dataclass
class SlurmCluster:
    """slurmctld and two slurmd. `conf`: SLURM_CONF."""

    folder: Path
    nodes: int = 2

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    def run(self, *command: str) -> str:
        env = {**os.environ, "SLURM_CONF": str(self.conf)}
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60).stdout

    def start_controller(self) -> None:
        assert SLURMCTLD is not None
        subprocess.run([SLURMCTLD, "-f", self.conf], check=True)

    def stop_controller(self) -> None:
        _end(_pid_of(self.folder / "slurmctld.pid"))

    def start_node(self, name: str) -> None:
        (self.folder / "spool" / name).mkdir(parents=True, exist_ok=True)
        subprocess.run([shutil.which("slurmd", path="/usr/sbin:/usr/bin") or "slurmd", "-f", self.conf, "-N", name], check=True)

    def stop_node(self, name: str) -> None:
        _end(_pid_of(self.folder / f"slurmd.{name}.pid"))


@contextmanager
def slurm(folder: Path) -> Iterator[SlurmCluster]:
    """Two nodes, n1 and n2, with two GPUs each that compute nothing."""
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    munge, host, cluster = folder / "munge", socket.gethostname().split(".")[0], SlurmCluster(folder)
    munge.chmod(0o700)
    (munge / "key").write_bytes(os.urandom(1024))
    (munge / "key").chmod(0o400)
    names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    subprocess.run(
        [shutil.which("munged", path="/usr/sbin:/usr/bin") or "munged", "--force", *(f"--{k}={munge / v}" for k, v in names.items())],
        check=True,
    )
    ports = [free_port() for _ in range(3)]
    gpus = [folder / f"gpu{index}" for index in range(2)]
    for gpu in gpus:
        os.mknod(gpu, 0o20666, os.makedev(1, 3))  # Slurm sets CUDA_VISIBLE_DEVICES for devices
    memory = psutil.virtual_memory().total // 2**20 - 1024
    (folder / "gres.conf").write_text("".join(f"Name=gpu Type=h100 File={gpu}\n" for gpu in gpus))
    nodes = "".join(
        f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[number]} CPUs={os.cpu_count()} RealMemory={memory} "
        f"Gres=gpu:h100:2 State=UNKNOWN\n"
        for number in (1, 2)
    )
    cluster.conf.write_text(
        f"ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={ports[0]}\nSlurmUser=root\nSlurmdUser=root\n"
        f"AuthType=auth/munge\nAuthInfo=socket={munge}/socket\nCredType=cred/munge\nStateSaveLocation={folder}/state\n"
        f"SlurmdSpoolDir={folder}/spool/%n\nSlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.%n.pid\n"
        f"SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.%n.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nAccountingStorageType=accounting_storage/none\nMpiDefault=none\n"
        f"ReturnToService=2\nKillWait=3\nSlurmdTimeout=10\nInactiveLimit=0\nGresTypes=gpu\n{nodes}PartitionName=gpu Nodes=n[1-2] Default=YES MaxTime=01:00:00 State=UP\n"
    )
    try:
        try:
            cluster.start_controller()
            for name in ("n1", "n2"):
                cluster.start_node(name)
            _until(lambda: cluster.run("sinfo", "-h", "-N", "-o", "%T").split() == ["idle", "idle"], 60)
        except (subprocess.CalledProcessError, AssertionError) as error:
            log = folder / "slurmctld.log"
            raise NoSlurm(f"Slurm does not start here: {error}; {log.read_text()[-300:] if log.exists() else ''}") from error
        yield cluster
    finally:
        for name in ("n1", "n2"):
            cluster.stop_node(name)
        cluster.stop_controller()
        _end(_pid_of(munge / "pid"))
