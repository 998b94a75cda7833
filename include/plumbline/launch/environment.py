"""The environment variables that a local trial starts with: what it needs, and nothing of the launcher's secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TRIAL_TOKEN = "PLUMBLINE_TRIAL_TOKEN"
"""Unique for each launch and inherited by every descendant: by it a leftover is known, whatever group or session it moved to."""

# Allowed, not forbidden: a secret that nobody thought of (AIRFLOW__*, SLACK_*, database passwords) never reaches a trial.
# OMP_*, MKL_* and their like are left out too: the harness decides how many threads a trial has.
_NAMES = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "VIRTUAL_ENV",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "CUDA_HOME",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        # Of our own by name too: a server's environment also holds PLUMBLINE_FERNET_KEY, passwords of databases, and what comes next.
        # An endpoint's key is the endpoint launcher's to give.
        "PLUMBLINE_HOME",
        "PLUMBLINE_CONFIG",
        "PLUMBLINE_IMAGE",
        "PLUMBLINE_CPU_LIMIT",
        "PLUMBLINE_MEMORY_LIMIT",
        "PLUMBLINE_ENGINE_PYTHON",
        "PLUMBLINE_TRITONSERVER",
        "PLUMBLINE_SERVER",  # a local Airflow knows its descendants by it
    ]
)
_PREFIXES = ("LC_",)
# The harness writes its results itself, so it gets the credentials of the one store that it writes to.
_STORE_PREFIXES = {
    "s3": ("AWS_", "FSSPEC_S3"),
    "gs": ("GOOGLE_", "GCLOUD_", "FSSPEC_GS", "STORAGE_EMULATOR_HOST"),
    "gcs": ("GOOGLE_", "GCLOUD_", "FSSPEC_GS", "FSSPEC_GCS", "STORAGE_EMULATOR_HOST"),
    "az": ("AZURE_",),
    "abfs": ("AZURE_",),
    "abfss": ("AZURE_",),
}


def trial_environment(inherited: Mapping[str, str], store_url: str, token: str, scratch: Path) -> dict[str, str]:
    """The variables of one trial.

    `scratch` becomes its TMPDIR. The library of this very process comes first on PYTHONPATH, so that launcher and harness are of one
    version wherever the trial starts.
    """
    prefixes = _PREFIXES + _STORE_PREFIXES.get(store_url.partition("://")[0].rpartition("::")[2], ())
    kept = {name: value for name, value in inherited.items() if name in _NAMES or name.startswith(prefixes)}
    library = str(Path(__file__).resolve().parents[2])
    others = [part for part in kept.get("PYTHONPATH", "").split(os.pathsep) if part and part != library]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([library, *others]),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(scratch),
        TRIAL_TOKEN: token,
    }
