"""Builds a harness image from this repository and loads it into a cluster: `python -m tests.cluster.images cpu` prints its name. With
`--build` it is built only, so that loading it later takes seconds.

E2E_BASE     the base: a reference to pull (default below); where nothing can be pulled a docker archive, or `debootstrap`: made here from
             Debian's archive, by root
E2E_IMAGE    an image that the cluster can pull or has already; nothing is built then
E2E_IMPORT   command that loads {archive} onto the cluster's nodes; known by itself for kind, k3d and minikube
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_BASE = "docker.io/library/python:3.11-slim-bookworm"
_DEBIAN, _DEBIAN_PACKAGES = "bookworm", "python3-venv,libpython3.11,ca-certificates,git"
_SOURCES = (
    "k8s/images",
    "pyproject.toml",
    "setup.py",
    "docs/package.md",
    "requirements",
    "include/plumbline/declarations",
    "include/plumbline/formats",
    "include/plumbline/kinds",
    "include/plumbline/loadclient",
    "include/plumbline/harness",
    "include/plumbline/reporter",
    "include/plumbline/results",
    "include/plumbline/metrics",
    "include/plumbline/__init__.py",
    "include/plumbline/judgement.py",
    "include/plumbline/on_demand.py",
    "include/plumbline/whole_file.py",
)


class CannotBuild(RuntimeError):
    """The image cannot be built or loaded here; the message says what is missing."""


@dataclass(frozen=True)
class Engine:
    """A program that builds images: docker, podman or buildah."""

    program: str

    @classmethod
    def found(cls) -> Engine:
        """The first that is there; CannotBuild if none is."""
        for program in ("docker", "podman", "buildah"):
            if shutil.which(program) and (program != "docker" or _quiet("docker", "info")):
                return cls(program)
        raise CannotBuild("no docker (with a running daemon), podman or buildah here; install one, such as: apt-get install buildah")

    def base(self, reference: str) -> str:
        """The base in the engine's own storage, by digest; a docker archive by the tag that it carries."""
        if reference == "debootstrap":
            return self._debian()
        if Path(reference).is_file():
            name = _tag_in(Path(reference))
            if self.program == "buildah":
                _run("buildah", "pull", "--quiet", f"docker-archive:{reference}")
            else:
                _run(self.program, "load", "--input", reference)
            return name
        _run(self.program, "pull", "--quiet", reference)
        if "@sha256:" in reference:
            return reference
        form = "{{index .RepoDigests 0}}" if self.program != "buildah" else "{{.FromImageDigest}}"
        kind = ("--type", "image") if self.program != "docker" else ()
        seen = _run(self.program, "inspect", *kind, "--format", form, reference).strip()
        return seen if "@" in seen else f"{reference}@{seen}"

    def _debian(self) -> str:
        """A small Debian with Python; made once, then found in the engine's storage."""
        tag = f"localhost/plumbline/debian-python:{_DEBIAN}"
        if _quiet(self.program, "inspect", "--type", "image", tag):
            return tag
        if not shutil.which("debootstrap"):
            raise CannotBuild("E2E_BASE=debootstrap needs debootstrap: apt-get install debootstrap")
        with tempfile.TemporaryDirectory(prefix="plumbline-base-") as folder:
            root = Path(folder) / "root"
            _run("debootstrap", "--variant=minbase", f"--include={_DEBIAN_PACKAGES}", _DEBIAN, str(root))
            _run(
                "tar",
                "--numeric-owner",
                "--exclude=./var/cache/apt/*",
                "--exclude=./var/lib/apt/lists/*",
                "-C",
                str(root),
                "-cf",
                f"{folder}/root.tar",
                ".",
            )
            shutil.rmtree(root)
            (Path(folder) / "Dockerfile").write_text("FROM scratch\nADD root.tar /\n")
            _run(self.program, "build", *self._isolation(), "--file", f"{folder}/Dockerfile", "--tag", tag, folder)
        return tag

    def _isolation(self) -> list[str]:
        # A build needs no more than a root folder: runs where nested containers cannot be made.
        return ["--isolation", "chroot"] if self.program == "buildah" else []

    def build(self, dockerfile: Path, tag: str, base: str, **arguments: str) -> None:
        """Build one image, with further build arguments; what pip is configured with on this machine counts inside too."""
        with tempfile.TemporaryDirectory(prefix="plumbline-build-") as folder:
            mounts = list(_pip_mounts(Path(folder)))
            common = ["--file", str(dockerfile), "--tag", tag, "--build-arg", f"BASE={base}"]
            common += [item for name, value in arguments.items() for item in ("--build-arg", f"{name}={value}")]
            if self.program == "docker":
                if mounts:
                    sys.stderr.write("docker mounts nothing while it builds: pip's settings of this machine are not used\n")
                _run("docker", "build", *common, "--build-arg", "SOURCE_DATE_EPOCH=0", str(ROOT))
                return
            volumes = [item for source, target in mounts for item in ("--volume", f"{source}:{target}:ro")]
            _run(self.program, "build", *self._isolation(), "--layers", "--timestamp", "0", *common, *volumes, str(ROOT))

    def save(self, tag: str, archive: Path) -> None:
        """Write the image as a docker archive."""
        archive.unlink(missing_ok=True)
        if self.program == "buildah":
            _run("buildah", "push", "--quiet", tag, f"docker-archive:{archive}:{tag}")
        else:
            _run(self.program, "save", "--output", str(archive), tag)


def tag_of(kind: str, base: str) -> str:
    """The image's name: the same for the same sources and base, so that an image that is there already need not be built."""
    seen = hashlib.sha256(base.encode())
    for source in sorted(_SOURCES):
        path = ROOT / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                seen.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return f"localhost/plumbline/{kind}:{seen.hexdigest()[:12]}"


def load_image(archive: Path, context: str) -> None:
    """Load an archive onto the nodes of the cluster that the kubeconfig's context names."""
    template = os.environ.get("E2E_IMPORT") or _known_import(context)
    _run(*(part.replace("{archive}", str(archive)) for part in shlex.split(template)))


def built(kind: str, context: str, present: frozenset[str]) -> str:
    """The image's name, after it was built and loaded unless the cluster's nodes have it already (`present`)."""
    if given := os.environ.get("E2E_IMAGE"):
        return given
    tag = tag_of(kind, _base())
    if tag not in present:
        _carry(build(kind), tag, context)
    return tag


def build(kind: str) -> Engine:
    """The engine that holds the image; what an earlier build made is used again."""
    engine = Engine.found()
    engine.build(ROOT / "k8s" / "images" / f"{kind}.Dockerfile", tag_of(kind, _base()), engine.base(_base()))
    return engine


def derived(name: str, lines: str, context: str, present: frozenset[str]) -> str:
    """A small image for one test: the base and a few lines of a Dockerfile."""
    base = _base()
    tag = f"localhost/plumbline/{name}:{hashlib.sha256(f'{base}{lines}'.encode()).hexdigest()[:12]}"
    if tag not in present:
        engine = Engine.found()
        with tempfile.TemporaryDirectory(prefix="plumbline-build-") as folder:
            file = Path(folder) / "Dockerfile"
            file.write_text(f"ARG BASE\nFROM ${{BASE}}\n{lines}\n")
            engine.build(file, tag, engine.base(base))
        _carry(engine, tag, context)
    return tag


def _base() -> str:
    return os.environ.get("E2E_BASE") or DEFAULT_BASE


def _carry(engine: Engine, tag: str, context: str) -> None:
    with tempfile.TemporaryDirectory(prefix="plumbline-image-") as folder:
        archive = Path(folder) / "image.tar"
        engine.save(tag, archive)
        load_image(archive, context)


def _known_import(context: str) -> str:
    for prefix, command in (("kind-", "kind load image-archive {archive} --name %s"), ("k3d-", "k3d image import {archive} -c %s")):
        if context.startswith(prefix):
            return command % context.removeprefix(prefix)
    if context == "minikube":
        return "minikube image load {archive}"
    raise CannotBuild(
        f"how images get onto the nodes of {context} is not known; set E2E_IMPORT, such as 'ctr -n k8s.io images import {{archive}}'"
    )


def _pip_mounts(folder: Path) -> Iterator[tuple[str, str]]:
    """(here, in the build): pip's settings of this machine, and the folders and files that they name."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True).stdout
    settings: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        settings.setdefault(name.rpartition(".")[2], value.strip("'\""))
    if not settings:
        return
    config = folder / "pip.conf"
    config.write_text("\n".join(["[global]", *(f"{k} = {v}" for k, v in settings.items())]) + "\n")
    yield str(config), "/etc/pip.conf"
    for word in sorted({word for value in settings.values() for word in value.split()}):
        path = unquote(urlsplit(word).path) if word.startswith("file:") else word
        if path.startswith("/") and Path(path).exists():
            # An index is a folder of pages that point to files beside it.
            shown = str(Path(path).parent) if path.endswith("/simple") else path
            yield shown, shown


def _tag_in(archive: Path) -> str:
    found = subprocess.run(["tar", "-xOf", str(archive), "manifest.json"], capture_output=True, check=True).stdout
    return str(json.loads(found)[0]["RepoTags"][0])


def _quiet(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise CannotBuild(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    kinds = [argument for argument in sys.argv[1:] if argument != "--build"] or ["cpu"]
    if "--build" in sys.argv:
        build(kinds[0])
        sys.stdout.write(tag_of(kinds[0], _base()) + "\n")
    else:
        from tests.cluster.admin import Cluster

        cluster = Cluster(Path(os.environ["KUBECONFIG"]))
        sys.stdout.write(built(kinds[0], cluster.context, cluster.images()) + "\n")
