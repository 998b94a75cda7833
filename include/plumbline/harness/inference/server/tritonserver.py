"""The installation of a tritonserver: find it, lay out its backends, and require what an engine needs."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.engines import InferenceEngine
from plumbline.harness import engine_python
from plumbline.harness.measurement import TrialFailed

TRITONSERVER_VARIABLE = "PLUMBLINE_TRITONSERVER"
_STUB = "triton_python_backend_stub"


@dataclass(frozen=True)
class TritonInstallation:
    """`root` holds bin/ and backends/, `libraries` what the server needs besides the system's."""

    server: Path
    root: Path
    libraries: Path | None

    @classmethod
    def of(cls, server: Path) -> TritonInstallation:
        """The installation that a server binary belongs to: an unpacked nvidia-pytriton wheel or NVIDIA's container."""
        root = server.resolve().parent.parent
        bundled = root.parent.parent / "nvidia_pytriton.libs"
        return cls(server, root, bundled if bundled.is_dir() else None)

    def backend_parts(self) -> dict[str, Path]:
        """The files of the Python backend by the name that they must have; TrialFailed("image_error") if one is missing."""
        backend = self.root / "backends" / "python"
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        # The wheel keeps one stub a Python version; NVIDIA's container has the one of its own Python beside the backend.
        stubs = [self.root / "python_backend_stubs" / version / _STUB, backend / _STUB]
        parts = {name: backend / name for name in ("libtriton_python.so", "triton_python_backend_utils.py")}
        parts[_STUB] = next((stub for stub in stubs if stub.is_file()), stubs[0])
        for name, path in parts.items():
            if not path.is_file():
                raise TrialFailed("image_error", f"{self.server} has no {name} for Python {version}: {path} is missing")
        return parts

    def backends(self) -> tuple[str, ...]:
        """Sorted."""
        folder = self.root / "backends"
        return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir())) if folder.is_dir() else ()

    def python_backends(self) -> set[str]:
        """Models that are a model.py which the Python backend runs."""
        return {name for name in self.backends() if (self.root / "backends" / name / "model.py").is_file()}

    def require(self, engine: InferenceEngine) -> None:
        """TrialFailed("image_error") unless it brings the engine's backend, and the engine Python the engine."""
        brings = f"the image tritonserver:YY.MM-{engine.image} brings it"
        if (backend := engine.triton_backend) not in (installed := self.backends()):
            raise TrialFailed("image_error", f"{self.server} has no {backend} backend, it has {', '.join(installed) or 'none'}; {brings}")
        if engine.package:
            remedy = f"{brings}, or set {engine_python.VARIABLE} to a Python that has it"
            engine_python.describe().require(engine.package, remedy)

    def require_input(self, backend: str, name: str, expected: str) -> None:
        """TrialFailed("image_error") unless a backend written in Python knows an input of that name."""
        folder = self.root / "backends" / backend
        if not any(name in source.read_text(encoding="utf-8") for source in folder.rglob("*.py")):
            raise TrialFailed("image_error", f"{folder} does not know the input {name}; expected {expected}")

    def backend_directory(self, folder: Path) -> Path:
        """Lay out the backends in `folder` and return it: the Python backend's stub must lie beside its library, all others as they are."""
        python = folder / "python"
        python.mkdir(parents=True, exist_ok=True)
        for name, path in self.backend_parts().items():
            shutil.copy2(path, python / name)
        for backend in self.backends():
            link = folder / backend
            if not link.exists():
                link.symlink_to(self.root / "backends" / backend, target_is_directory=True)
        return folder

    def environment(self, backend: str = "python", prefix: Path | None = None) -> dict[str, str]:
        """The server's environment variables: its Python models run on the engine Python, with its packages; `prefix`: a link to its own.

        Models of ours (`backend` python) find the harness's packages behind the base's; an engine's own backend does not see them.
        """
        python = engine_python.describe()
        # Without the second the stub takes whichever libpython the system has, or finds none.
        libraries = [self.libraries, python.libraries, os.environ.get("LD_LIBRARY_PATH")]
        variables = {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(str(folder) for folder in libraries if folder),
            "PATH": os.pathsep.join([str((prefix or Path(python.prefix)) / "bin"), os.environ.get("PATH", os.defpath)]),
        }
        if python.apart:
            variables["PYTHONPATH"] = os.pathsep.join(python.search_path if backend == "python" else python.base_path)
        return variables


def find_installation() -> TritonInstallation:
    """TrialFailed("image_error") names the searched places and the remedy."""
    configured = os.environ.get(TRITONSERVER_VARIABLE)
    if configured:
        if not os.access(configured, os.X_OK) or not Path(configured).is_file():
            raise TrialFailed(
                "image_error",
                f"{TRITONSERVER_VARIABLE} is {configured}, which is not an executable file; expected the path of a tritonserver",
            )
        return TritonInstallation.of(Path(configured))
    unpacked = None if REPOSITORY is None else REPOSITORY / ".triton" / "pytriton" / "tritonserver" / "bin" / "tritonserver"
    if unpacked is not None and unpacked.is_file():
        return TritonInstallation.of(unpacked)
    on_path = shutil.which("tritonserver")
    if on_path:
        return TritonInstallation.of(Path(on_path))
    raise TrialFailed(
        "image_error",
        f"no tritonserver: {TRITONSERVER_VARIABLE} is not set, "
        + (f"{unpacked} does not exist and none is on PATH; `make setup` unpacks one, " if unpacked else "and none is on PATH; ")
        + "the inference image brings its own",
    )
