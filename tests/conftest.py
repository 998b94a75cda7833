"""What holds for every test: no Airflow home in the home folder of whoever runs the tests."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

# Before any test imports Airflow, which makes its home when it is imported.
if "AIRFLOW_HOME" not in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="plumbline-tests-airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
