"""A shell where trials are started: of this machine, or of one that an Airflow connection of type ssh logs in to.

asyncssh, not the system's ssh: keys and host keys stay in memory, and the triggerer waits for many machines in one thread.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from plumbline.launch.connections import airflow_connection
from plumbline.launch.failures import ApiRefused, BadDeclaration, RequestFailed

ANSWER_BYTES = 2**20
"""Most bytes of one answer, unless a caller says more."""
REQUEST_S = 60.0
_LOGIN_S = 30.0
_CHUNK = 65536
# A login node's commands need these; none of ours may get there.
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "SLURM_CONF")


@dataclass(frozen=True)
class ShellAnswer:
    """The end of a command: exit status, output, and the last lines of its errors."""

    status: int
    out: bytes
    error: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "replace")


class Shell(ABC):
    """An open login. `place`: where it is, in messages."""

    place: str

    @abstractmethod
    async def ask(self, script: str, given: bytes = b"", *, limit_s: float = REQUEST_S, most: int = ANSWER_BYTES) -> ShellAnswer:
        """Run a script of POSIX shell with `given` on its standard input.

        RequestFailed without an answer within `limit_s`, or with one above `most` bytes."""

    async def do(self, script: str, given: bytes = b"", *, limit_s: float = REQUEST_S, most: int = ANSWER_BYTES) -> bytes:
        """The output of a script that must succeed; ApiRefused with what it said otherwise."""
        answer = await self.ask(script, given, limit_s=limit_s, most=most)
        if answer.status != 0:
            raise ApiRefused(0, f"{self.place}: {answer.error or f'exit status {answer.status}'}")
        return answer.out

    async def put(self, path: str, data: bytes) -> None:
        """Write a file whole or not at all."""
        file = shlex.quote(path)
        await self.do(f"umask 077; cat > {file}.part && mv -f {file}.part {file}", data)

    async def get(self, path: str, most: int) -> bytes | None:
        """A file of at most `most` bytes; None if there is none. RequestFailed for a larger one."""
        answer = await self.ask(f"test -f {shlex.quote(path)} || exit 44; exec cat {shlex.quote(path)}", most=most)
        if answer.status == 44:
            return None
        if answer.status != 0:
            raise ApiRefused(0, f"{self.place}: {path}: {answer.error}")
        return answer.out


class ThisMachine(Shell):
    """Commands of this machine, as on a login node that runs Airflow's workers."""

    place = "this machine"

    async def ask(self, script: str, given: bytes = b"", *, limit_s: float = REQUEST_S, most: int = ANSWER_BYTES) -> ShellAnswer:
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", script, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        try:
            return await _answer(self.place, process, given, limit_s, most)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                await process.wait()


class Login(Shell):
    """Commands over one SSH connection."""

    def __init__(self, place: str, connection: Any) -> None:
        self.place, self._connection = place, connection

    async def ask(self, script: str, given: bytes = b"", *, limit_s: float = REQUEST_S, most: int = ANSWER_BYTES) -> ShellAnswer:
        import asyncssh

        try:
            process = await asyncio.wait_for(self._connection.create_process(f"sh -c {shlex.quote(script)}", encoding=None), limit_s)
        except (asyncssh.Error, OSError, asyncio.TimeoutError) as error:
            raise RequestFailed(f"{self.place}: {_words(error)}") from error
        try:
            return await _answer(self.place, process, given, limit_s, most)
        except (asyncssh.Error, OSError) as error:
            raise RequestFailed(f"{self.place}: {_words(error)}") from error
        finally:
            process.close()


async def _answer(place: str, process: Any, given: bytes, limit_s: float, most: int) -> ShellAnswer:
    async def write() -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it ended without reading
            process.stdin.write(given)
            await process.stdin.drain()
        process.stdin.write_eof()

    async def read(stream: Any, bound: int) -> bytes:
        parts, size = [], 0
        while part := await stream.read(_CHUNK):
            size += len(part)
            if size > bound:
                raise RequestFailed(f"{place}: an answer of more than {bound:,} bytes; expected a shorter one")
            parts.append(part)
        return b"".join(parts)

    try:
        out, error, _ = await asyncio.wait_for(asyncio.gather(read(process.stdout, most), read(process.stderr, most), write()), limit_s)
        await asyncio.wait_for(process.wait(), limit_s)
    except asyncio.TimeoutError:
        raise RequestFailed(f"{place}: no answer within {limit_s:g} s") from None
    if process.returncode is None or (process.returncode < 0 and not out and not error):
        raise RequestFailed(f"{place}: the command was cut off")
    lines = [line.strip() for line in error.decode("utf-8", "replace").splitlines() if line.strip()]
    return ShellAnswer(process.returncode, out, " | ".join(lines[-3:])[-1000:])


@asynccontextmanager
async def login(connection_id: str | None) -> AsyncIterator[Shell]:
    """A shell at the connection's machine, or here without one.

    BadDeclaration for a connection that cannot be used; ApiRefused if the machine refuses it; RequestFailed if it does not answer."""
    if connection_id is None:
        yield ThisMachine()
        return
    import asyncssh

    asyncssh.set_log_level("WARNING")  # else each command is a line of a trial's log
    options = await asyncio.to_thread(login_options, connection_id)
    place = f"{options['username']}@{options['host']}:{options['port']}"
    try:
        connection = await asyncio.wait_for(asyncssh.connect(**options), _LOGIN_S)
    except asyncssh.HostKeyNotVerifiable as error:
        raise BadDeclaration(f"{place} shows another host key than Airflow connection {connection_id} names: {_words(error)}") from error
    except asyncssh.PermissionDenied as error:
        raise ApiRefused(401, f"{place} refuses the key of Airflow connection {connection_id}: {_words(error)}") from error
    except (asyncssh.Error, OSError, asyncio.TimeoutError) as error:
        raise RequestFailed(f"{place}: {_words(error)}") from error
    async with connection:
        yield Login(place, connection)


def login_options(connection_id: str) -> dict[str, Any]:
    """asyncssh's options of an Airflow connection of type ssh. BadDeclaration if it is not defined or says too little; RequestFailed if Airflow
    does not answer."""
    import asyncssh

    try:
        connection = airflow_connection(connection_id, "is not defined; create it with the type ssh, or correct the provider's launcher")
    except ConnectionError as error:
        raise RequestFailed(str(error)) from error
    except ValueError as error:
        raise BadDeclaration(str(error)) from error
    extra: Mapping[str, Any] = connection.extra_dejson
    host, port = connection.host, int(connection.port or 22)
    named = f"Airflow connection {connection_id}"
    if not host or not connection.login:
        raise BadDeclaration(
            f"{named} names no {'login' if host else 'host'}; expected host, login, and the extras private_key and host_key"
        )
    if not extra.get("host_key"):
        raise BadDeclaration(
            f"{named} has no extra host_key, so any machine could answer; expected a line of `ssh-keyscan -p {port} {host}`"
        )
    try:
        keys = [_private_key(extra, connection.password)] if extra.get("private_key") or extra.get("key_file") else []
        known = asyncssh.import_known_hosts(f"[{host}]:{port} {_host_key(str(extra['host_key']))}\n")
    except (asyncssh.Error, ValueError, OSError) as error:
        raise BadDeclaration(
            f"{named}: its keys cannot be read ({_words(error)}); expected private_key and host_key in OpenSSH's form"
        ) from error
    if not keys and not connection.password:
        raise BadDeclaration(f"{named} has neither the extra private_key nor a password; expected one of them")
    return {
        "host": host,
        "port": port,
        "username": connection.login,
        "client_keys": keys,
        "password": None if keys else connection.password,
        "known_hosts": known,
        "agent_path": None,  # no agent: neither its keys nor its forwarding
        "agent_forwarding": False,
        "config": [],
        "keepalive_interval": 15,
        "keepalive_count_max": 4,
    }


def _private_key(extra: Mapping[str, Any], password: str | None) -> Any:
    import asyncssh

    passphrase = extra.get("private_key_passphrase") or password
    if extra.get("private_key"):
        return asyncssh.import_private_key(str(extra["private_key"]), passphrase)
    return asyncssh.read_private_key(str(extra["key_file"]), passphrase)


def _host_key(text: str) -> str:
    """`TYPE BASE64`, of a line of ssh-keyscan's or known_hosts too; a bare key is an RSA one, as in Airflow's own hook."""
    words = text.split()
    kinds = [index for index, word in enumerate(words) if word.startswith(("ssh-", "ecdsa-", "sk-"))]
    if kinds and kinds[0] + 1 < len(words):
        return f"{words[kinds[0]]} {words[kinds[0] + 1]}"
    return f"ssh-rsa {words[-1]}"


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
