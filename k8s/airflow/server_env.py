"""Write the .env of the team server: a new secret for each name in docker-compose.yaml. Standard library only.

python3 k8s/airflow/server_env.py [--store] [--file FILE]     (or: make server-env)
python3 k8s/airflow/server_env.py --pin [--file FILE]         (or: make server-images)
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
from base64 import urlsafe_b64encode
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGES = {
    "PLUMBLINE_POSTGRES_IMAGE": "postgres:17",
    "PLUMBLINE_STORE_IMAGE": "ghcr.io/versity/versitygw:v1.8.0",
    "PLUMBLINE_MINIO_IMAGE": "quay.io/minio/minio:RELEASE.2025-09-07T16-13-09Z",
}
"""Third-party images, by the variable for their digest. MinIO's is for installations that have its profile already."""
PROFILES = {"PLUMBLINE_STORE_IMAGE": "store", "PLUMBLINE_MINIO_IMAGE": "minio"}
"""The compose profile that needs an image; the others are always needed."""
_BY_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")

HEAD = """\
# The team server's secrets, created by `make server-env`. Store a copy with your team's secrets: without PLUMBLINE_FERNET_KEY the
# connections in Airflow's database cannot be read. Changing a database password here does not change it in the database.
"""
PLACES = """\
# The result store; default: the server's own volume. On a cloud, set the bucket and the containers' credentials:
#PLUMBLINE_RESULTS_URL=s3://bucket/plumbline
#AWS_ACCESS_KEY_ID=
#AWS_SECRET_ACCESS_KEY=
#AWS_DEFAULT_REGION=
# An account that only reads the bucket, for the pages; without it they show no evidence files:
#PLUMBLINE_PAGES_ACCESS_KEY_ID=
#PLUMBLINE_PAGES_SECRET_ACCESS_KEY=
"""
REST = """\
# The server's address, if it is behind a proxy with TLS:
#PLUMBLINE_BASE_URL=https://plumbline.example.com
# Another port on this machine's loopback address; PLUMBLINE_BASE_URL must then include it:
#PLUMBLINE_PORT=8080
# The team's own declarations instead of those in include/config:
#PLUMBLINE_CONFIG_DIR=./include/config
"""


def settings(beside: bool) -> str:
    """The text of a new .env; every call creates new secrets, all safe in a URL."""
    store_key = secrets.token_hex(16)
    server = {
        "COMPOSE_PROJECT_NAME": "plumbline",
        "PLUMBLINE_POSTGRES_PASSWORD": secrets.token_hex(24),
        "PLUMBLINE_AIRFLOW_DB_PASSWORD": secrets.token_hex(24),
        "PLUMBLINE_ARCHIVE_DB_PASSWORD": secrets.token_hex(24),
        "PLUMBLINE_READER_DB_PASSWORD": secrets.token_hex(24),
        # Fernet's own key format: 32 random bytes, urlsafe base64.
        "PLUMBLINE_FERNET_KEY": urlsafe_b64encode(os.urandom(32)).decode(),
        "PLUMBLINE_JWT_SECRET": secrets.token_hex(48),
        "PLUMBLINE_API_SECRET_KEY": secrets.token_hex(32),
        "PLUMBLINE_ADMIN_USER": "admin",
        "PLUMBLINE_ADMIN_PASSWORD": secrets.token_urlsafe(18),
        "PLUMBLINE_EVIDENCE_KEY": secrets.token_hex(32),
    }
    store = {
        "COMPOSE_PROFILES": "store",
        "PLUMBLINE_RESULTS_URL": "s3://plumbline/results",
        "AWS_ACCESS_KEY_ID": "plumbline",
        "AWS_SECRET_ACCESS_KEY": store_key,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": "http://store:7070",
        # The store's one account, to try things out; a bucket of your own has one that only reads.
        "PLUMBLINE_PAGES_ACCESS_KEY_ID": "plumbline",
        "PLUMBLINE_PAGES_SECRET_ACCESS_KEY": store_key,
    }
    return "\n".join([HEAD + _lines(server), _lines(store) if beside else PLACES, REST])


def _lines(values: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


def pin(file: Path, docker: str = "docker") -> int:
    """Pull the images that the file's profiles need and write their digests into `file`, replacing existing ones; other lines stay.

    0: each needed image has a digest. 1: one has none; the others are written. 2: nothing changed.
    """
    try:
        lines = file.read_text().splitlines()
        values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        # As Compose does: the environment precedes the file.
        chosen = os.environ.get("COMPOSE_PROFILES", values.get("COMPOSE_PROFILES", ""))
        profiles = {name.strip(" '\"") for name in chosen.split(",")}
        needed = {name: image for name, image in IMAGES.items() if name not in PROFILES or {PROFILES[name], "*"} & profiles}
        digests = {name: digest for name, image in needed.items() if (digest := _digest(docker, image))}
        if digests:
            _write(file, [line for line in lines if line.split("=", 1)[0] not in digests] + [f"{n}={d}" for n, d in digests.items()])
    except OSError as error:
        sys.stderr.write(f"cannot write the images' digests into {file}: {error}\n")
        return 2
    if digests:
        sys.stdout.write(f"wrote the digests of {', '.join(needed[name] for name in digests)} into {file}\n")
    missing = [name for name in needed if name not in digests and not _BY_DIGEST.search(values.get(name, ""))]
    for name in [name for name in needed if name not in digests and name not in missing]:
        sys.stderr.write(f"{needed[name]} cannot be pulled, so {name} in {file} remains {values[name]}\n")
    for name in missing:
        sys.stderr.write(
            f"{needed[name]} cannot be pulled, so {file} has no digest for {name}, and {_consequence(name)}. "
            f"Expected a registry that has the image: set {name}=name@sha256:… there by hand\n"
        )
    return 1 if missing else 0


def _digest(docker: str, image: str) -> str:
    """The image's name by digest; empty if Docker cannot pull it, whose own words then are on stderr. OSError without Docker."""
    if subprocess.run([docker, "pull", "--quiet", image], check=False, stdout=subprocess.DEVNULL).returncode:
        return ""
    line = [docker, "image", "inspect", "--format", "{{index .RepoDigests 0}}", image]
    found = subprocess.run(line, check=False, stdout=subprocess.PIPE, text=True).stdout.strip()
    return found if _BY_DIGEST.search(found) else ""


def _consequence(name: str) -> str:
    if name not in PROFILES:
        return "the team server cannot start"
    return f"profile {PROFILES[name]} cannot start; without {PROFILES[name]} in COMPOSE_PROFILES the server needs no such image"


def _write(file: Path, lines: list[str]) -> None:
    draft = file.with_name(f"{file.name}.part")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write("\n".join(lines) + "\n")
    draft.replace(file)


def main(arguments: list[str] | None = None) -> int:
    """0: written. 1: a needed image has no digest. 2: nothing changed."""
    parser = argparse.ArgumentParser(description="Write the team server's .env with new secrets.")
    parser.add_argument("--store", action="store_true", help="store results in an S3 server beside this one (profile store)")
    parser.add_argument("--file", type=Path, default=ROOT / ".env", help="default: .env beside docker-compose.yaml")
    parser.add_argument("--pin", action="store_true", help="write no secrets; pull third-party images and write their digests")
    options = parser.parse_args(arguments)
    if options.pin:
        return pin(options.file)
    try:
        # Created with its mode, and never over an existing file: a new Fernet key would make every stored connection unreadable.
        descriptor = os.open(options.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        sys.stderr.write(f"{options.file} exists; its secrets belong to a running server. Move it away to create a new one\n")
        return 2
    with os.fdopen(descriptor, "w") as file:
        file.write(settings(options.store))
    sys.stdout.write(f"wrote {options.file} (mode 0600); the first login is in it: PLUMBLINE_ADMIN_USER, PLUMBLINE_ADMIN_PASSWORD\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
