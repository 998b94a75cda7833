"""The harness as it is put on a machine: this installation's own library, once a version, verified by its hash before each trial."""

from __future__ import annotations

import gzip
import hashlib
import io
import shlex
import tarfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import plumbline
from plumbline.launch.batch.shell import Shell

_LEFT_OUT = frozenset({"__pycache__", "dashboard", "alerts", "presentation", "cli", "airflow", "embedded"})
"""What no trial imports."""
_SUMS = "SHA256SUMS"
_SEND_S = 300.0


@dataclass(frozen=True)
class HarnessCopy:
    """`name`: the SHA-256 of `sums`, which lists each file with its own; `archive`: all of it, tar.gz."""

    name: str
    archive: bytes

    def folder(self, root: str) -> str:
        """Where it lies below the launcher's folder."""
        return f"{root.rstrip('/')}/harness/{self.name[:16]}"

    def check_script(self, root: str) -> str:
        """Shell that succeeds only if the copy is whole and as it was sent."""
        return (
            f'(cd {shlex.quote(self.folder(root))} 2>/dev/null && test "$(sha256sum < {_SUMS} | cut -c1-64)" = {self.name} '
            f"&& sha256sum -c --status {_SUMS})"
        )


@cache
def harness_copy() -> HarnessCopy:
    """This installation's library, the same bytes for the same files."""
    package = Path(plumbline.__path__[0])
    files = {
        f"plumbline/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and not _LEFT_OUT & set(path.relative_to(package).parts)
    }
    # By it the harness says its version.
    files[f"plumbline-{version('plumbline')}.dist-info/METADATA"] = (
        f"Metadata-Version: 2.1\nName: plumbline\nVersion: {version('plumbline')}\n".encode()
    )
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in [*sorted(files.items()), (_SUMS, sums)]:
            row = tarfile.TarInfo(name)
            row.size, row.mode = len(data), 0o644
            tar.addfile(row, io.BytesIO(data))
    return HarnessCopy(hashlib.sha256(sums).hexdigest(), gzip.compress(packed.getvalue(), mtime=0))


async def deliver(shell: Shell, root: str) -> HarnessCopy:
    """Put the copy below `root`, unless it is there. ApiRefused if the folder cannot be written; RequestFailed."""
    copy = harness_copy()
    folder = copy.folder(root)
    if (await shell.ask(copy.check_script(root))).status == 0:
        return copy
    parent = shlex.quote(f"{root.rstrip('/')}/harness")
    whole = hashlib.sha256(copy.archive).hexdigest()
    # Unpacked beside it and moved: two installations may send it at once.
    await shell.do(
        f"umask 077; mkdir -p {parent} && new=$(mktemp -d {parent}/.new-XXXXXX) && cat > $new/archive "
        f'&& test "$(sha256sum < $new/archive | cut -c1-64)" = {whole} && tar -xzf $new/archive -C $new && rm $new/archive '
        f"&& rm -rf {shlex.quote(folder)} && mv -T $new {shlex.quote(folder)} && {copy.check_script(root)} "
        f"|| {{ rm -rf $new; echo 'the harness could not be unpacked whole in {parent}' >&2; exit 1; }}",
        copy.archive,
        limit_s=_SEND_S,
    )
    return copy
