"""Checks of a Slurm cluster or of machines as a launch would use them: login, folder, Python, harness, and a job without running one."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from plumbline.declarations import Declarations, Provider
from plumbline.launch.batch.harness_copy import deliver
from plumbline.launch.batch.place import JobPlace
from plumbline.launch.batch.shell import Shell
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, skipped, unknown
from plumbline.launch.failures import ApiRefused, BadDeclaration, RequestFailed

_MOST_OFFSET_S = 2.0
_NEEDED = ("cryptography", "fsspec", "numpy", "psutil", "pyarrow", "pydantic", "yaml")
_BY_KIND = {"training": ("torch",), "inference": ("tritonclient", "tokenizers")}
_ASKED = """
import importlib.util, sys
print("found", sys.version.split()[0], *(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
"""


def check_place(declared: Declarations, provider: Provider, place: JobPlace[Any]) -> list[DoctorCheck]:
    """All checks; what needs a login is left out where there is none."""
    try:
        return asyncio.run(_check(declared, provider, place))
    except BadDeclaration as problem:
        return [failed("login", str(problem), "correct the connection, or the provider's launcher")]
    except (ApiRefused, RequestFailed) as problem:
        return [failed("login", str(problem), "let Airflow's workers and triggerer reach it, and its user log in with that key")]


async def _check(declared: Declarations, provider: Provider, place: JobPlace[Any]) -> list[DoctorCheck]:
    launcher = place.launcher
    async with place.logins() as shells:
        checks = [ok("login", ", ".join(shell.place for shell in shells))]
        for shell in shells:
            checks += [await _clock(shell), await _folder(shell, launcher.folder)]
        if any(check.status == "failed" for check in checks):
            return checks
        if getattr(launcher, "image", None):
            checks.append(skipped("Python", f"of the image {launcher.image}, which no job has started yet"))
        else:
            kinds = {declared.workloads[name].kind for name in provider.workloads or declared.workloads if name in declared.workloads}
            checks += [await _python(shell, launcher.python, kinds) for shell in shells]
        checks += [await _tried("harness", lambda shell=shell: _harness(shell, launcher.folder)) for shell in shells]  # type: ignore[misc]
        return [*checks, *await place.place_checks(shells, provider)]


async def _tried(check: str, question: Callable[[], Coroutine[Any, Any, DoctorCheck]]) -> DoctorCheck:
    try:
        return await question()
    except ApiRefused as problem:
        return failed(check, str(problem), "let the user of the login write there")


async def _clock(shell: Shell) -> DoctorCheck:
    asked = time.time()
    answer = await shell.ask("date +%s.%N")
    half = (time.time() - asked) / 2
    try:
        offset = float(answer.text) - asked - half
    except ValueError:
        return unknown("clock", f"{shell.place} says {answer.text[:40] or answer.error}", "a `date` that knows %N, as that of coreutils")
    if abs(offset) > _MOST_OFFSET_S + half:
        return failed(
            "clock", f"{shell.place} is {offset:+.1f} s from this machine", "synchronise both by NTP: times in the queue are read from it"
        )
    return ok("clock", f"{shell.place} and this machine's agree within {abs(offset) + half:.1f} s")


async def _folder(shell: Shell, folder: str) -> DoctorCheck:
    there = shlex.quote(folder)
    answer = await shell.ask(f"umask 077; mkdir -p {there} && test -w {there} && df -Pk {there} | tail -n 1 | awk '{{print $4}}'")
    if answer.status != 0:
        return failed("folder", f"{shell.place}: {answer.error or folder}", f"let its user write to launcher.folder, {folder}")
    free = int(answer.text.strip() or 0) * 1024 if answer.text.strip().isdigit() else None
    return ok("folder", f"{folder} at {shell.place}" + ("" if free is None else f", {free / 2**30:.0f} GiB free"))


async def _python(shell: Shell, python: str, kinds: Collection[str]) -> DoctorCheck:
    names = [*_NEEDED, *(name for kind in sorted(kinds) for name in _BY_KIND.get(kind, ()))]
    answer = await shell.ask(f"{shlex.quote(python)} -c {shlex.quote(_ASKED)} {' '.join(names)}")
    said, *words = answer.text.split() or [""]
    if answer.status != 0 or said != "found":
        return failed("Python", f"{shell.place}: {answer.error or python}", "correct launcher.python; see docs/slurm-and-ssh.md")
    version, *missing = words
    if missing:
        return failed("Python", f"{python} lacks {', '.join(missing)}", f"{python} -m pip install {' '.join(missing)}")
    return ok("Python", f"{version} with {', '.join(names)}")


async def _harness(shell: Shell, folder: str) -> DoctorCheck:
    copy = await deliver(shell, folder)
    return ok("harness", f"{copy.folder(folder)}, whole by its SHA-256")
