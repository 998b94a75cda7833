"""The step of the build that pyproject.toml cannot say: the declarations of a checkout, `include/config`, are the examples of the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

DECLARATIONS = Path("include") / "config"


class BuildWithExamples(build_py):
    """Copies the declarations to `plumbline/examples` of the wheel. An image's sources have none, and an editable checkout reads its own."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for source, target in self._examples():
                self.mkpath(str(target.parent))
                self.copy_file(str(source), str(target))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *(str(target) for _, target in self._examples() if not self.editable_mode)]

    def _examples(self) -> Iterator[tuple[Path, Path]]:
        for source in sorted(path for path in DECLARATIONS.rglob("*") if path.is_file()):
            yield source, Path(self.build_lib) / "plumbline" / "examples" / source.relative_to(DECLARATIONS)


setup(cmdclass={"build_py": BuildWithExamples})
