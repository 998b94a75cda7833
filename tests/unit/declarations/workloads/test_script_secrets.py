"""Credentials in a script's folder: by name, by content, and what only looks like one."""

from __future__ import annotations

import pytest

from plumbline.declarations.workloads.script_secrets import refuse_secrets
from plumbline.formats.reading.text_file import UnusableFile

BEGIN = "-----BEGIN"
"""Apart, so that this file holds no key."""


@pytest.mark.parametrize(
    "path",
    [
        *(".env", ".ENV", "conf/.env.production", "prod.env", ".netrc", ".pypirc", ".git-credentials", "kubeconfig", "a/kubeconfig.yaml"),
        *(".aws/config", "home/.ssh/known_hosts", ".kube/config", ".docker/config.json", "id_rsa", "keys/id_ed25519_old", "tls.key"),
        *("a.pem", "store.p12", "store.pfx", "credentials.json", "gcp-service-account.json", ".huggingface/token", "wandb/settings"),
        *(".cache/huggingface/token", ".config/gcloud/access_tokens.db", ".config/wandb/settings"),
    ],
)
def test_names_of_credentials(path: str) -> None:
    with pytest.raises(UnusableFile, match="train holds credentials") as error:
        refuse_secrets("train", [("train.py", b"x"), (path, b"")])
    assert f"show: {path}; expected" in str(error.value) and "task.private: true" in str(error.value)


@pytest.mark.parametrize(
    "path",
    [
        *(".env.example", "env.py", "environment.yaml", "id_rsa.pub", "tokenizer.json", "config.json", "model/config.json", "keys.py"),
        *("credentials.py", "token", "settings", "wandb/summary.json", "monkey", "docker/Dockerfile", "special_tokens_map.json"),
    ],
)
def test_names_of_other_files(path: str) -> None:
    refuse_secrets("train", [(path, b"import os\n")])


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
@pytest.mark.parametrize(
    "text", ["{0} {1}PRIVATE KEY-----\nMIIEow==\n", 'x = "{0} {1}PRIVATE KEY-----\\nMIIEow==\\n"', "a\n{0} {1}PRIVATE KEY-----\r\nMII"]
)
def test_private_keys_by_content(kind: str, text: str) -> None:
    with pytest.raises(UnusableFile, match=r"show: notes\.txt \(a private key\); expected"):
        refuse_secrets("train", [("notes.txt", text.format(BEGIN, kind).encode())])


@pytest.mark.parametrize(
    "text", ["{0} PUBLIC KEY-----\nMII", "{0} CERTIFICATE-----\nMII", 'if line == "{0} PRIVATE KEY-----":\n', "a private key"]
)
def test_other_contents(text: str) -> None:
    refuse_secrets("train", [("notes.txt", text.format(BEGIN).encode())])


def test_many_are_counted() -> None:
    with pytest.raises(UnusableFile, match=r"show: 0\.key, 1\.key, 2\.key, 3\.key, 4\.key and 3 more; expected"):
        refuse_secrets("train", [(f"{n}.key", b"") for n in range(8)])
