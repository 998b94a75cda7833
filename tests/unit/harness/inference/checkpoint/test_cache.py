"""The cache deletes only its own entries, whatever lies beside them, is named in its files, or is linked into their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.declarations.workloads.checkpoints import UrlCheckpoint
from plumbline.harness.inference.checkpoint import cache as module
from plumbline.harness.inference.checkpoint.contents import BrokenCheckpoint, Manifest, ManifestFile
from plumbline.harness.inference.checkpoint.fetched import fetch


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of someone else, which is to stay as it is."""
    folder = tmp_path / "own"
    for name in ("files/notes.txt", ".cache/keys", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.fault("a model cache names or links folders that are not its own", ends="fetched again", keeps="what lies there")
@pytest.mark.parametrize("planted", ["pointer up", "pointer absolute", "entry link", "partial link", "files link", "manifest up"])
def test_what_is_not_an_entry_is_never_deleted(llama: Path, tmp_path: Path, own: Path, planted: str) -> None:
    cache, model = tmp_path / "cache", UrlCheckpoint(source="url", url=llama.as_uri())
    first = fetch(model, cache)
    entry, (pointer,) = first.folder.parent, cache.glob("*.entry")
    key, before = pointer.name.removesuffix(".entry"), content(own)
    if planted.startswith("pointer"):
        pointer.write_text(str(own) if planted == "pointer absolute" else "../own")
    elif planted == "entry link":
        entry.rename(tmp_path / "away")
        entry.symlink_to(own)
    elif planted == "partial link":
        (entry / "manifest.json").unlink()
        (cache / f"{key}.partial").symlink_to(own)
    elif planted == "files link":
        (entry / "files").rename(tmp_path / "away")
        (entry / "files").symlink_to(own)
    else:
        forged = Manifest((*first.manifest.files, ManifestFile("../../own/notes.txt", 4, "0" * 64)))
        (entry / "manifest.json").write_text(forged.to_json())
    again = fetch(model, cache)
    assert content(own) == before and again.manifest == first.manifest and not again.folder.is_symlink()
    assert again.folder.is_relative_to(cache) and content(again.folder).keys() == {file.path for file in first.manifest.files}


def test_only_names_of_entries_can_be_deleted(tmp_path: Path) -> None:
    for name in ("home", "manifests", f"hub--a--b--{'0' * 39}", "url--x.partial"):
        (tmp_path / name).mkdir()
        with pytest.raises(BrokenCheckpoint, match="no entry of the cache"):
            module._remove(tmp_path / name)
        assert (tmp_path / name).is_dir()
    entry = tmp_path / f"hub--a--b--{'0' * 40}.partial"
    entry.mkdir()
    module._remove(entry)
    assert not entry.exists()
