"""Where checkpoints and data sets come from: the Hugging Face hub or its mirror, any file system of fsspec, a folder. Downloads resume."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic_core import from_json

from plumbline.declarations import digest, installation
from plumbline.declarations.addresses import open_filesystem
from plumbline.declarations.urls import sends_in_clear
from plumbline.declarations.workloads.checkpoints import Checkpoint, FolderCheckpoint, UrlCheckpoint
from plumbline.harness.hub_session import TokenInClear, guard_hub_session
from plumbline.harness.inference.checkpoint.contents import INDEX, BrokenCheckpoint, needed_files
from plumbline.harness.inference.checkpoint.web_files import MAX_WHOLE, PIECE, gives_ranges, is_web, read_part, stream, write_part

_RANGE = 32 << 20
_THREADS = 8
_VERSIONS = ("ETag", "etag", "LastModified", "last_modified", "updated", "mtime", "md5Hash")
"""How S3, Azure, Google and file systems call a file's version; the first that exists."""
_GUESSED = (
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json"),
    *("chat_template.jinja", "vocab.json", "merges.txt", "added_tokens.json", "model.safetensors", INDEX),
)
_NO_CREDENTIALS = ("NoCredentialsError", "NoCredentialProviders", "DefaultCredentialsError", "ClientAuthenticationError")
"""Errors of clients that have none, or the wrong ones."""
_QUERY = re.compile(r"\?\S+")
OnBytes = Callable[[int], None]
Kind = Literal["model", "dataset"]


class FetchFailed(OSError):
    """The source does not answer; another attempt may succeed."""


class AccessRefused(PermissionError):
    """The source answers, and refuses or does not know what is declared."""


class LocalFiles:
    """A checkpoint's files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sizes(self) -> Mapping[str, int]:
        return {name: (self.folder / name).stat().st_size for name in needed_files(p.name for p in self.folder.iterdir() if p.is_file())}

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        with (self.folder / name).open("rb") as file:
            file.seek(start)
            return file.read(MAX_WHOLE if end is None else end - start)


class HubSource:
    """A commit, branch or tag of a model (or data set) of the Hugging Face hub. Every method, as of UrlSource, raises FetchFailed or AccessRefused. `name`: for
    messages and facts, without credentials."""

    def __init__(self, model: str, revision: str | None, endpoint: str | None, token: str | None, kind: Kind = "model") -> None:
        self._id, self._revision, self._endpoint, self._kind = model, revision, endpoint, kind
        # False: huggingface_hub adds none of its own either. The hub's token is not for an open mirror over plain http.
        self._token = token or (False if endpoint and sends_in_clear(endpoint) else None)
        guard_hub_session()
        self.name = f"hub {model}" + (f"@{revision[:12]}" if revision else "") + (f" at {endpoint}" if endpoint else "")

    @property
    def version(self) -> str:
        """Equal as long as the files are; of a URL it takes a request."""
        return self._revision or "main"

    def commit(self) -> str:
        """The commit of the branch or tag; of the default branch without one."""
        from huggingface_hub import HfApi

        with self._explained():
            commit = HfApi(endpoint=self._endpoint, token=self._token).model_info(self._id, revision=self._revision).sha
        if commit is None:
            raise FetchFailed(f"{self.name} does not say which commit it is")
        return str(commit)

    @cached_property
    def _files(self) -> dict[str, Any]:
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFile

        with self._explained():
            hub = HfApi(endpoint=self._endpoint, token=self._token)
            tree = list(hub.list_repo_tree(self._id, recursive=self._kind == "dataset", revision=self._revision, repo_type=self._kind))
        files = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
        return {name: files[name] for name in (needed_files(files) if self._kind == "model" else files)}

    def sizes(self) -> Mapping[str, int]:
        return {name: int(file.size) for name, file in self._files.items()}

    def hashes(self) -> Mapping[str, str]:
        """SHA-256 by name, as far as the source knows them."""
        return {name: str(file.lfs.sha256) for name, file in self._files.items() if file.lfs is not None}

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        last = "" if end is None else end - 1
        headers = build_hf_headers(token=self._token) | {"Range": f"bytes={start}-{last}"}
        with self._explained():
            url = hf_hub_url(self._id, name, repo_type=self._kind, revision=self._revision, endpoint=self._endpoint)
            with get_session().stream("GET", url, headers=headers | {"Accept-Encoding": "identity"}, follow_redirects=True) as answer:
                hf_raise_for_status(answer if answer.status_code < 400 else _short(answer))
                first = 0 if answer.status_code == 206 else start
                wanted, body = first + (MAX_WHOLE if end is None else end - start), bytearray()
                for piece in answer.iter_raw(PIECE):
                    body += piece
                    if len(body) > wanted:
                        break
        if end is None and len(body) > wanted:
            raise FetchFailed(f"{self.name}/{name} has more than {MAX_WHOLE:,} bytes; expected a file that fits into memory")
        return bytes(body[first:wanted])

    def download(self, folder: Path, on_bytes: OnBytes) -> int:
        """Bring all files into the folder, where an earlier try may have left some; the bytes that were transferred."""
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
        names, private = list(self._files), folder / ".cache"
        before = _downloaded(folder, names)
        with self._explained():
            snapshot_download(
                self._id,
                repo_type=self._kind,
                revision=self._revision,
                local_dir=folder,
                cache_dir=private,
                allow_patterns=[glob.escape(name) for name in names],
                endpoint=self._endpoint,
                token=self._token,
                max_workers=_THREADS,
            )
        _sync([folder / name for name in names])
        moved = _downloaded(folder, names) - before
        on_bytes(moved)
        return moved

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from huggingface_hub import errors

        try:
            yield
        except TokenInClear as error:
            raise AccessRefused(f"{self.name}: {error}") from error
        except errors.GatedRepoError as error:
            raise AccessRefused(
                f"{self.name} is gated, and {self._token_words()}; expected a token whose owner accepted the {self._kind}'s terms"
            ) from error
        except errors.RepositoryNotFoundError as error:
            raise AccessRefused(
                f"{self.name} does not exist or is private, and {self._token_words()}; expected owner/name of a {self._kind}"
            ) from error
        except errors.LocalEntryNotFoundError as error:
            raise FetchFailed(f"{self.name} does not answer: {brief(error)}") from error
        except (errors.RevisionNotFoundError, errors.EntryNotFoundError) as error:
            raise AccessRefused(f"{self.name} has no such revision or file; expected the commit of a {self._kind}") from error
        except errors.HfHubHTTPError as error:
            status = error.response.status_code if error.response is not None else None
            if status in (401, 403):
                raise AccessRefused(f"{self.name} refuses access ({status}), and {self._token_words()}; expected a valid token") from error
            raise FetchFailed(f"{self.name} does not answer: HTTP {status}") from error
        except (OSError, TimeoutError) as error:
            if installation.full_disk_message(error) is not None:
                raise
            raise FetchFailed(f"{self.name} does not answer: {brief(error)}") from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2"):
                raise
            raise FetchFailed(f"{self.name} does not answer: {brief(error)}") from error

    def _token_words(self) -> str:
        return (
            "the token of models_secret or models_connection has no access"
            if self._token
            else "no token was given (models_secret or models_connection)"
        )


def brief(error: BaseException) -> str:
    """The error's first line without the query of a URL, which can hold a signature."""
    return f"{type(error).__name__}: {_QUERY.sub('?…', (str(error).splitlines() or [''])[0])}"


def _short(answer: Any) -> Any:
    """A refusal with the beginning of its body, from which the hub's client takes its message."""
    said = bytearray()
    for piece in answer.iter_raw(PIECE):
        said += piece
        if len(said) > PIECE:
            break
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in ("content-length", "content-encoding")}
    return type(answer)(answer.status_code, headers=headers, content=bytes(said[:PIECE]), request=answer.request)


def _downloaded(folder: Path, names: list[str]) -> int:
    partial = (folder / ".cache" / "huggingface" / "download").glob("*.incomplete")
    whole = (folder / name for name in names)
    return sum(path.stat().st_size for path in (*whole, *partial) if path.exists())


def _sync(paths: list[Path]) -> None:
    """Until the storage has them: a download ends there, not in main memory."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())


class UrlSource:
    """A folder of a file system that fsspec knows. `options` of its client: credentials; the environment's if omitted."""

    expected = "the folder of a checkpoint, with config.json and .safetensors files"

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self.name = _QUERY.sub("", url)
        with self._explained():
            self._fs, self._root = open_filesystem(url, options)

    @cached_property
    def _files(self) -> dict[str, dict[str, Any]]:
        with self._explained():
            self._fs.invalidate_cache()
            rows = self._rows()
            if not rows:
                raise AccessRefused(f"{self.name} has no files; expected {self.expected}")
            found = {name: row if row.get("size") is not None else self._fs.info(self._path(name)) for name, row in rows.items()}
            if unsized := next((name for name, row in found.items() if row.get("size") is None), None):
                raise AccessRefused(f"{self.name}: its server names no size of {unsized}; expected one that sends a Content-Length")
            return found

    def _rows(self) -> dict[str, dict[str, Any]]:
        try:
            listed = {
                str(row["name"]).rstrip("/").rpartition("/")[2]: row
                for row in self._fs.ls(self._root, detail=True)
                if row.get("type") == "file"
            }
        except (FileNotFoundError, NotImplementedError):
            listed = {}
        if "config.json" not in listed and not any(name.endswith(".gguf") for name in listed):
            listed |= self._guessed()  # a web server that lists no folders
        return {name: listed[name] for name in needed_files(listed)}

    def _guessed(self) -> dict[str, dict[str, Any]]:
        files = {name: self._fs.info(self._path(name)) for name in _GUESSED if self._fs.exists(self._path(name))}
        if INDEX in files:
            for name in set(from_json(self._part(INDEX)).get("weight_map", {}).values()):
                if self._fs.exists(self._path(name)):
                    files[name] = self._fs.info(self._path(name))
        return files

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @property
    def version(self) -> str:
        return digest(
            [
                [name, int(row["size"]), str(next((row[k] for k in _VERSIONS if row.get(k)), ""))]
                for name, row in sorted(self._files.items())
            ]
        )

    def sizes(self) -> Mapping[str, int]:
        return {name: int(row["size"]) for name, row in self._files.items()}

    def hashes(self) -> Mapping[str, str]:
        return {}

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        with self._explained():
            return self._part(name, start, end)

    def _part(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        if is_web(self._fs):
            return read_part(self._fs, self._path(name), start, end)
        stop = start + MAX_WHOLE + 1 if end is None else end
        data = bytes(self._fs.cat_file(self._path(name), start=start, end=stop))
        if end is None and len(data) > MAX_WHOLE:
            raise BrokenCheckpoint(f"{name} has more than {MAX_WHOLE:,} bytes; expected a file that fits into memory")
        return data

    def download(self, folder: Path, on_bytes: OnBytes) -> int:
        with self._explained(), ThreadPoolExecutor(_THREADS) as pool, ThreadPoolExecutor(_THREADS) as files:
            sizes = self.sizes()
            return sum(files.map(lambda name: self._file(folder, name, sizes[name], pool, on_bytes), sizes))

    def _file(self, folder: Path, name: str, size: int, pool: ThreadPoolExecutor, on_bytes: OnBytes) -> int:
        """One file in ranges, several at a time. `<name>.ranges` lists those that are on the disk."""
        target, part, done = folder / name, folder / f"{name}.part", folder / f"{name}.ranges"
        if target.exists() and target.stat().st_size == size:
            return 0
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_web(self._fs) and not gives_ranges(self._fs, self._path(name)):
            with part.open("wb") as whole:
                moved = stream(self._fs, self._path(name), size, whole, on_bytes)
            part.rename(target)
            done.unlink(missing_ok=True)
            return moved
        have = {int(line) for line in done.read_text().split()} if done.exists() and part.exists() else set()
        missing = [start for start in range(0, size, _RANGE) if start not in have]
        with part.open("r+b" if part.exists() else "w+b") as out, done.open("a") as log:
            out.truncate(size)

            def bring(start: int) -> int:
                end = min(start + _RANGE, size)
                if is_web(self._fs):
                    came = write_part(self._fs, self._path(name), start, end, out)
                else:
                    data = self._part(name, start, end)
                    came = len(data)
                    os.pwrite(out.fileno(), data[: end - start], start)
                if came != end - start:
                    raise FetchFailed(f"{self.name}/{name} ended after {start + came} of {size} bytes")
                os.fdatasync(out.fileno())
                log.write(f"{start}\n")
                log.flush()
                on_bytes(came)
                return came

            moved = sum(pool.map(bring, missing))
        part.rename(target)
        done.unlink()
        return moved

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (FetchFailed, AccessRefused, BrokenCheckpoint):
            raise
        except PermissionError as error:
            raise AccessRefused(f"{self.name} refuses access ({brief(error)}); expected credentials that may read it") from error
        except FileNotFoundError as error:
            raise AccessRefused(f"{self.name} does not exist ({brief(error)}); expected {self.expected}") from error
        except (ImportError, ValueError) as error:
            raise AccessRefused(
                f"{self.name} cannot be read ({brief(error)}); expected a URL of a file system that is installed"
            ) from error
        except Exception as error:
            if installation.full_disk_message(error) is not None:
                raise
            if type(error).__name__ in _NO_CREDENTIALS:
                raise AccessRefused(f"{self.name} refuses access ({brief(error)}); expected credentials that may read it") from error
            raise FetchFailed(f"{self.name} does not answer: {brief(error)}") from error


class UrlData(UrlSource):
    """A file, or all files below a folder, of such a file system; of a web server a file."""

    expected = "a file, or a folder with files"

    def _rows(self) -> dict[str, dict[str, Any]]:
        if (row := self._fs.info(self._root))["type"] == "file":
            self._root, _, name = self._root.rpartition("/")
            return {name: row}
        root, rows = f"{self._root.rstrip('/')}/", self._fs.find(self._root, detail=True).items()
        below = {path.removeprefix(root): row for path, row in rows if row["type"] == "file" and not path.endswith("/")}
        if outside := next((name for name in below if {"..", ""} & set(name.split("/"))), None):
            raise BrokenCheckpoint(f"{outside} leads out of the folder; expected files below it")
        return below


Source = HubSource | UrlSource


def source_of(
    model: Checkpoint, mirror: str | None, token: str | None, options: Mapping[str, Any] | None = None, kind: Kind = "model"
) -> Source:
    """`mirror`: `models_url`. http(s): a server with the hub's API; another URL: a folder <mirror>/<owner>/<name>/<revision> of a file system."""
    of_url = UrlSource if kind == "model" else UrlData
    if isinstance(model, FolderCheckpoint):
        return of_url(Path(model.path).as_uri())
    if isinstance(model, UrlCheckpoint):
        return of_url(model.url, options)
    if mirror is None or mirror.startswith(("http://", "https://")):
        return HubSource(model.id, model.revision, mirror, token, kind)
    return of_url(f"{mirror.rstrip('/')}/{model.id}/{model.revision}", options)
