"""The last valid declarations, kept below the home: a broken file must not stop what runs by the others."""

from __future__ import annotations

import logging
import tarfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from plumbline.declarations.installation import Upkeep, installation_paths
from plumbline.declarations.loader import DeclarationError, Declarations, load, read_optional
from plumbline.declarations.unpacking import unpack
from plumbline.whole_file import whole_file

_log = logging.getLogger(__name__)


def load_in_force(*, keep: bool = False) -> Declarations:
    """The installation's declarations; while one of their files is broken, the last valid ones, and the log names the file.

    `keep`: valid ones are kept for that. DeclarationError if a file is broken and no valid files of the folder were kept.
    """
    config, folder = installation_paths().config, installation_paths().home / "declarations"
    try:  # Before they are read: what changes meanwhile is kept by the next reading.
        files = [(path, path.stat()) for path in sorted(config.rglob("*")) if path.is_file()] if keep else []
    except FileNotFoundError:  # one is being replaced
        files = []
    try:
        declared = load()
    except DeclarationError as error:
        if (last := _read_kept(max(folder.glob(f"{_digest(config)}-*.tar"), key=lambda file: file.stat().st_mtime, default=None))) is None:
            raise
        _log.error("the last valid declarations are in force until these are repaired:\n%s", error)
        return last
    kept = folder / f"{_digest(config)}-{_digest([(str(path), stat.st_mtime_ns, stat.st_size) for path, stat in files])}.tar"
    try:
        if files and not kept.exists():
            _keep(kept, config, [path for path, _ in files])
    except OSError as error:
        _log.warning("the declarations could not be kept for a time when a file of them is broken: %s", error)
    return declared


def load_upkeep() -> Upkeep:
    """`upkeep.yaml` alone, so that errors in other declarations block no collection of results; while it is broken, the last valid one."""
    config = installation_paths().config
    upkeep, problems = read_optional(config / "upkeep.yaml", Upkeep)
    return load_in_force().upkeep if problems or not config.is_dir() else upkeep


def _keep(kept: Path, config: Path, files: list[Path]) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(kept) as draft:
        draft.touch(mode=0o600)  # contracts have prices
        with tarfile.open(draft, "w", dereference=True) as tar:
            for path in files:
                tar.add(path, path.relative_to(config))
    for old in {*kept.parent.glob(f"{_digest(config)}-*.tar")} - {kept}:
        old.unlink(missing_ok=True)


def _read_kept(kept: Path | None) -> Declarations | None:
    """None without files, or with those that this version does not take."""
    if kept is None:
        return None
    try:
        with TemporaryDirectory(prefix="plumbline-declarations-") as copy, tarfile.open(kept) as tar:
            unpack(tar, Path(copy))
            return load(Path(copy), generated=True)
    except (OSError, tarfile.TarError, DeclarationError) as error:
        _log.error("%s: the last valid declarations cannot be read: %s", kept, error)
        return None


def _digest(of: object) -> str:
    return sha256(str(of).encode()).hexdigest()[:16]
