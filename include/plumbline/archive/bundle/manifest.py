"""The manifest of a bundle, and the results of an export and an import."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from plumbline.results import InvalidResult, bounded_json
from plumbline.results.document import Sha256
from plumbline.whole_file import sha256_file

MANIFEST_FILE = "manifest.json"
LEDGER = "ledger"
ATTEMPTS_FILE = "attempts.jsonl"
EXPIRED_FILE = "expired.jsonl"
_MAX_MANIFEST_BYTES = 32 * 2**20
"""The largest manifest: two hundred thousand files."""
CampaignId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
FileName = Annotated[str, Field(pattern=r"^(ledger|campaigns/[a-z0-9][a-z0-9.-]{0,62})/([a-z_]{1,40}\.jsonl|documents/\d{6,9}\.json)$")]


class BadBundle(InvalidResult):
    """A folder that cannot be exported to or imported from; the message names the file and why."""


@dataclass(frozen=True)
class ExportedCampaign:
    """One campaign in a bundle. `content_hash` covers what was measured, and is the same in every archive that holds it."""

    campaign_id: str
    trials: int
    content_hash: str


@dataclass(frozen=True)
class ImportedCampaign:
    """One campaign of an import. `refused`: why it was not imported; `notes`: rows of the archive that the import left unchanged."""

    campaign_id: str
    new: int = 0
    known: int = 0
    refused: str | None = None
    notes: tuple[str, ...] = ()


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CampaignEntry(_Part):
    """One campaign. `files`: path below the bundle's folder → SHA-256."""

    trials: int
    files: dict[FileName, Sha256]


class BundleManifest(_Part):
    """The whole bundle. `schema_revision`: of the archive that wrote it."""

    format: Literal[2]
    schema_revision: str
    exported_at: AwareDatetime
    campaigns: dict[CampaignId, CampaignEntry]
    ledger: dict[FileName, Sha256]


def load_manifest(folder: Path) -> BundleManifest:
    """The manifest of a bundle; BadBundle if there is none or it does not hold."""
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise BadBundle(f"{path} is missing; expected a folder that `plumbline archive export` finished writing")
    try:
        bounded_json.check_size(path.stat().st_size, str(path), _MAX_MANIFEST_BYTES)
        raw = path.read_bytes()
        bounded_json.parse_object(raw, str(path), _MAX_MANIFEST_BYTES, bounded_json.MAX_VALUES)
        return bounded_json.validate_model(BundleManifest, raw, str(path))
    except InvalidResult as error:
        raise BadBundle(f"{error}; was it written by another version of plumbline? Export it again with this one") from error


def check_files(folder: Path, files: dict[str, str]) -> None:
    """BadBundle for the first file that is missing, leads out of the folder, or differs from its SHA-256."""
    root = folder.resolve()
    for name, sha256 in files.items():
        path = (folder / name).resolve()
        if not path.is_relative_to(root):
            raise BadBundle(f"{folder / MANIFEST_FILE} names {name}, which lies outside of the bundle")
        if not path.is_file():
            raise BadBundle(f"{path} is missing")
        digest = sha256_file(path)
        if digest != sha256:
            raise BadBundle(f"{path} has SHA-256 {digest}; the manifest says {sha256}")


def campaign_folder(campaign_id: str) -> str:
    """The campaign's folder in a bundle."""
    return f"campaigns/{campaign_id}"
