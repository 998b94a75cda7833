"""Files of a script's folder that hold credentials, by their names and by the shapes of their contents: no trial may carry them."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from plumbline.declarations.secret_texts import secret_in
from plumbline.formats.reading.text_file import UnusableFile

_FOLDERS = frozenset((".aws", ".azure", ".gcloud", ".gnupg", ".kaggle", ".kube", ".ssh", ".wandb"))
_NAMES = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pypirc", ".npmrc", ".git-credentials", ".dockercfg", ".htpasswd"),
    *(".boto", ".s3cfg", ".pgpass", ".my.cnf", ".vault-token", "kubeconfig", "kubeconfig.*", "*.kubeconfig", "kaggle.json"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx"),
    *("credentials", "credentials.*", "*_credentials.json", "*-credentials.json", "client_secret*.json"),
    *("*service-account*.json", "*service_account*.json", "*serviceaccount*.json", "secrets.*"),
)
_PLACES = (
    "docker/config.json",
    ".docker/config.json",
    "huggingface/token",
    ".huggingface/token",
    "huggingface/stored_tokens",
    "wandb/settings",
)
"""The last two parts of a path: names that say nothing elsewhere."""
_HARMLESS = ("*.example", "*.sample", "*.template", "*.dist", "example.env", "sample.env", "template.env", "*.pub", "*.py", "*.md")
_SHOWN = 5


def refuse_secrets(folder: str, files: Iterable[tuple[str, bytes]]) -> None:
    """UnusableFile if one of a folder's files (its path below the folder, its contents) holds credentials."""
    found = secret_files(files)
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UnusableFile(
            f"{folder} holds credentials, which every trial's documents would show: {', '.join(found[:_SHOWN])}{more}; expected a "
            "folder without them: move them elsewhere and give them to the script by the provider's pod_patch, or declare task.private: true, "
            "which keeps the folder's files out of documents"
        )


def secret_files(files: Iterable[tuple[str, bytes]]) -> list[str]:
    """The paths of the files that hold credentials, and what is found in those that have no such name."""
    return [f"{path}{why}" for path, content in files if (why := _why(path, content)) is not None]


def _why(path: str, content: bytes) -> str | None:
    """What is said behind the path; None if nothing is known against the file."""
    if _named(path.lower()):
        return ""
    found = secret_in(content.decode("latin-1"))
    return None if found is None else f" ({found})"


def _named(path: str) -> bool:
    parts = path.split("/")
    if not _FOLDERS.isdisjoint(parts) or ".config/gcloud/" in f"{path}/" or "/".join(parts[-2:]) in _PLACES:
        return True
    return any(fnmatchcase(parts[-1], name) for name in _NAMES) and not any(fnmatchcase(parts[-1], name) for name in _HARMLESS)
