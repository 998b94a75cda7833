"""The last valid declarations, kept in the archive's database: a broken file must not stop what runs by the others.

They are known by their bytes, and no file of a volume is ever one. What stops or limits counts at once, from each file that is valid by itself.
"""

from __future__ import annotations

import io
import logging
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import Protocol, cast

from plumbline.declarations.installation import Upkeep, installation_paths
from plumbline.declarations.limits import stricter
from plumbline.declarations.loader import (
    FOLDERS,
    BrokenFiles,
    Declarations,
    load,
    read_optional,
    valid_by_themselves,
)
from plumbline.declarations.problems import DeclarationError, Problem
from plumbline.declarations.providers.provider import Provider
from plumbline.declarations.unpacking import unpack

_log = logging.getLogger(__name__)

KEPT_BY = "plumbline.archive.declarations_keeper:KEPT"
"""`module:object` of the KeptDeclarations; imported when declarations are to be kept, or are broken."""
MOST_BYTES = 64 * 2**20
"""Limit of all files together; larger declarations are not kept."""


class NotKept(Exception):
    """The archive cannot be asked, or takes nothing."""


@dataclass(frozen=True)
class KeptCopy:
    """Valid files of one folder: `packed`: a compressed tar, `sha256` of that tar. `broken_since`: when the folder was first seen broken after it."""

    sha256: str
    packed: bytes
    broken_since: datetime | None = None

    @property
    def content(self) -> bytes | None:
        """The tar; None if these are not the bytes that were kept."""
        try:
            opened = zlib.decompressobj()
            content = opened.decompress(self.packed, 2 * MOST_BYTES)
        except zlib.error:
            return None
        return content if opened.eof and sha256(content).hexdigest() == self.sha256 else None


class KeptDeclarations(Protocol):
    """Where last valid declarations are kept, one copy a folder. Each method raises NotKept."""

    def newest(self, folder: str) -> KeptCopy | None:
        """The copy of a folder; None without one."""

    def keep(self, folder: str, copy: KeptCopy) -> None:
        """Replace the folder's copy."""

    def note_broken(self, folder: str) -> datetime:
        """The time since which a folder that has a copy is broken: now, if none was noted."""


def load_in_force(*, keep: bool = False) -> Declarations:
    """The installation's declarations; while one of their files is broken, the last valid ones with `broken`, and the log names the file.

    `keep`: valid ones are kept for that, and broken ones noted. DeclarationError if a file is broken and no valid files of the folder were kept.
    """
    config = installation_paths().config
    before = snapshot(config) if keep else None
    try:
        declared = load()
    except DeclarationError as error:
        if (last := _last_valid(config, error, note=keep)) is None:
            raise
        _log.error("the last valid declarations are in force until these are repaired:\n%s", error)
        return last
    if before is not None:
        try:
            _keep(config, before)
        except (NotKept, OSError) as error:
            _log.warning("the declarations could not be kept for a time when a file of them is broken: %s", error)
    return declared


def load_upkeep() -> Upkeep:
    """`upkeep.yaml` alone, so that errors in other declarations block no collection of results; while it is broken, the last valid one."""
    config = installation_paths().config
    upkeep, problems = read_optional(config / "upkeep.yaml", Upkeep)
    return load_in_force().upkeep if problems or not config.is_dir() else upkeep


Snapshot = Mapping[str, tuple[bytes, bool]]
"""Path below the folder → content, and whether it is a program."""


def snapshot(config: Path) -> Snapshot | None:
    """The folder's files as they are now; None while one cannot be read, and of more than MOST_BYTES."""
    files, size = dict[str, tuple[bytes, bool]](), 0
    try:
        for path in sorted(config.rglob("*")):
            name = path.relative_to(config)
            # Kubernetes keeps a ConfigMap's files a second time, in folders whose names begin so.
            if not path.is_file() or any(part.startswith("..") for part in name.parts):
                continue
            if (size := size + path.stat().st_size) > MOST_BYTES:
                _log.warning(
                    "the declarations are not kept: they have more than %s MiB; expected traces and scripts elsewhere", MOST_BYTES >> 20
                )
                return None
            files[str(name)] = path.read_bytes(), bool(path.stat().st_mode & 0o100)
    except OSError:  # one is being replaced
        return None
    return files


def digest_of(files: Snapshot) -> str:
    """SHA-256 of names, contents and modes."""
    return sha256(_tar(files)).hexdigest()


def _keep(config: Path, files: Snapshot) -> None:
    kept, known = cast(KeptDeclarations, _kept()), digest_of(files)
    last = kept.newest(str(config))
    if last is not None and (last.sha256, last.broken_since) == (known, None):
        return
    if (last is None or last.sha256 != known) and not _valid(files):
        return  # what was loaded was not what was read here: it changed meanwhile, and the next reading keeps it
    kept.keep(str(config), KeptCopy(known, zlib.compress(_tar(files))))


def _valid(files: Snapshot) -> bool:
    """Whether these bytes are declarations by themselves."""
    try:
        return _unpacked(_tar(files)) is not None
    except DeclarationError:
        return False


def _last_valid(config: Path, error: DeclarationError, note: bool) -> Declarations | None:
    """None without a copy, or with one that this version does not take."""
    try:
        kept = cast(KeptDeclarations, _kept())
        if (copy := kept.newest(str(config))) is None:
            return None
        since = kept.note_broken(str(config)) if note and copy.broken_since is None else copy.broken_since
        if (content := copy.content) is None:
            raise tarfile.ReadError(f"its bytes do not have the SHA-256 {copy.sha256}")
        last = _unpacked(content)
    except (NotKept, OSError, tarfile.TarError, DeclarationError) as unusable:
        _log.error("the last valid declarations cannot be read: %s", unusable)
        return None
    until = None if since is None else since + timedelta(seconds=last.upkeep.start_while_broken)
    return replace(_with_limits(last, config, error.problems), broken=BrokenFiles(tuple(error.problems), since, until))


def _with_limits(last: Declarations, config: Path, problems: Sequence[Problem]) -> Declarations:
    """The last valid declarations with what stops or limits since, of each file that is valid by itself. A folder that is gone says nothing."""
    providers, withdrawn = dict(last.providers), set[str]()
    generated = {path.stem for path in installation_paths().generated_providers.glob("*.yaml")}
    for folder, model in FOLDERS:
        if folder.split("/")[0] not in ("providers", "workloads") or not (config / folder).is_dir():
            continue
        valid, there = valid_by_themselves(config, folder, model, problems)
        if model is Provider:
            for name, provider in providers.items():
                if (now := valid.get(name)) is not None:
                    providers[name] = stricter(provider, cast(Provider, now))
                elif name not in there | generated:
                    providers[name] = provider.model_copy(update={"enabled": False})
        else:
            withdrawn |= {name for name, each in last.workloads.items() if f"workloads/{each.kind}" == folder and name not in there}
    return replace(last, providers=providers, withdrawn=frozenset(withdrawn))


def _kept() -> object:
    try:
        return resolve_name(KEPT_BY)
    except ImportError as error:  # an image of the harness, which has no archive
        raise NotKept(str(error)) from error


def _tar(files: Snapshot) -> bytes:
    """The same bytes for the same files: no times and no owners."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, (content, program) in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755 if program else 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _unpacked(content: bytes) -> Declarations:
    with TemporaryDirectory(prefix="plumbline-declarations-") as copy, tarfile.open(fileobj=io.BytesIO(content)) as tar:
        unpack(tar, Path(copy))
        return load(Path(copy), generated=True)
