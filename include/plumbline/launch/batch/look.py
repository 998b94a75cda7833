"""One question for all trials of a provider: what their logs and files say since the last time."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from plumbline.declarations.providers.batch import BatchLauncher
from plumbline.launch.batch.job import LOG, launch_folder

PIECE_BYTES = 65536
"""Most bytes of a log in one answer."""


@dataclass(frozen=True)
class Seen:
    """What a launch's folder shows. `alive`: its guard holds it (machines alone); `requested`, `began`: Unix seconds there; `end`: `exit CODE`, or why it was
    ended; `log`: what it wrote since `offset`."""

    there: bool
    alive: bool = False
    requested: float | None = None
    began: float | None = None
    end: str | None = None
    log: bytes = b""
    offset: int = 0


def look_script(launcher: BatchLauncher, offsets: Mapping[str, int]) -> tuple[str, str]:
    """The script, and the mark of its answer's lines. `offsets`: bytes of each launch's log that are known."""
    mark = secrets.token_hex(8)
    parts = []
    for name, offset in offsets.items():
        parts.append(
            f"look {shlex.quote(name)} {shlex.quote(launch_folder(launcher, name))} {offset:d}",
        )
    return (
        f'look() {{ cd "$2" 2>/dev/null || {{ printf \'\\n%s %s gone\\n\' {mark} "$1"; return; }}; '
        "size=$(stat -c %s log 2>/dev/null || echo 0); n=$((size - $3)); "
        f"[ $n -gt {PIECE_BYTES} ] && n={PIECE_BYTES}; [ $n -lt 0 ] && n=0; "
        "alive=0; [ -e alive ] && command -v flock >/dev/null && { flock -n alive true || alive=1; }; "
        f"printf '\\n%s %s alive=%s requested=%s began=%s end=%s bytes=%s\\n' {mark} \"$1\" $alive "
        '"$(cat requested 2>/dev/null)" "$(cat began 2>/dev/null)" '
        "\"$(tr ' ' _ < end 2>/dev/null)\" $n; "
        f"[ $n -gt 0 ] && tail -c +$(($3 + 1)) {LOG} | head -c $n; return 0; }}\n" + "\n".join(parts),
        mark,
    )


_LINE = re.compile(
    rb"(?P<name>[a-z0-9.-]+) alive=(?P<alive>[01]) requested=(?P<requested>[0-9.]{0,20}) began=(?P<began>[0-9.]{0,20}) "
    rb"end=(?P<end>[a-z0-9_-]{0,40}) bytes=(?P<bytes>[0-9]{1,7})"
)


def read_looks(answer: bytes, mark: str, offsets: Mapping[str, int]) -> dict[str, Seen]:
    """What the answer says of each launch; ValueError if a launch is missing in it."""
    found: dict[str, Seen] = {}
    start = f"\n{mark} ".encode()
    at = answer.find(start)
    while at >= 0:
        head, _, _ = answer[at + len(start) :].partition(b"\n")
        body = at + len(start) + len(head) + 1
        if head.endswith(b" gone"):
            found[head[:-5].decode()] = Seen(False)
            at = answer.find(start, body - 1)
            continue
        line = _LINE.fullmatch(head)
        if line is None:
            raise ValueError(f"cannot read {head[:100]!r}")
        name, size = line["name"].decode(), int(line["bytes"])
        found[name] = Seen(
            True,
            line["alive"] == b"1",
            float(line["requested"]) if line["requested"] else None,
            float(line["began"]) if line["began"] else None,
            line["end"].decode().replace("_", " ") or None,
            answer[body : body + size],
            offsets.get(name, 0),
        )
        at = answer.find(start, body + size)
    if missing := offsets.keys() - found.keys():
        raise ValueError(f"nothing about {sorted(missing)[0]}")
    return found
