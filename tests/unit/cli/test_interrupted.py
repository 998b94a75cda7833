"""Ctrl-C is one line and exit status 130, whenever it comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

_RAISED = """
import sys
import plumbline.cli
{}
sys.argv = ["plumbline", "status"]
plumbline.cli.main()
"""


@pytest.mark.parametrize(
    "where",
    [
        # While the command line itself is read.
        "import importlib.abc\nclass Stop(importlib.abc.MetaPathFinder):\n    def find_spec(self, name, *_):\n"
        "        if name == 'plumbline.cli.app': raise KeyboardInterrupt\nsys.meta_path.insert(0, Stop())",
        # While a command works.
        "import plumbline.cli.status as status\ndef stop(*_, **__): raise KeyboardInterrupt\nstatus.read_archive = stop",
        # While pydantic builds a model, which wraps it in an error of its own.
        "import plumbline.cli.status as status\nfrom pydantic_core import SchemaError\n"
        "def stop(*_, **__): raise SchemaError('Error building `literal` serializer:\\n  KeyboardInterrupt: ')\nstatus.read_archive = stop",
    ],
)
def test_one_line(where: str) -> None:
    done = subprocess.run([sys.executable, "-c", _RAISED.format(where)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_any_other_error_keeps_its_traceback() -> None:
    where = "import plumbline.cli.status as status\ndef stop(*_, **__): raise RuntimeError('lost')\nstatus.read_archive = stop"
    done = subprocess.run([sys.executable, "-c", _RAISED.format(where)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "RuntimeError: lost" in done.stderr
