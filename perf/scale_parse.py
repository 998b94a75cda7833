"""DAG processor load of the benchmark DAGs: seconds a parse and bytes a serialized DAG, by the number of providers.

python perf/scale_parse.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from scale_world import PROVIDERS, ROOT, make_world

# As in the DAG processor, Airflow is already imported; our modules and the file are not.
CHILD = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.serialization.serialized_objects import DagSerialization
root = Path(sys.argv[1])
began, cpu = time.perf_counter(), time.process_time()
bag = BundleDagBag(dag_folder=str(root / "dags" / "benchmark.py"), bundle_path=root, bundle_name="repository")
parsed, cpu_parsed = time.perf_counter() - began, time.process_time() - cpu
began = time.perf_counter()
sizes = [len(json.dumps(DagSerialization.to_dict(dag))) for dag in bag.dags.values()]
serialized = time.perf_counter() - began
print(json.dumps({"errors": bag.import_errors, "dags": len(sizes), "parse_s": parsed, "parse_cpu_s": cpu_parsed, "serialize_s": serialized, "bytes": sum(sizes)}))
"""


def measure(providers: int) -> dict[str, float]:
    """One parse in a fresh interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        config = make_world(Path(folder), providers)
        env = {**os.environ, "PLUMBLINE_CONFIG": str(config), "PYTHONPATH": str(ROOT / "include"), "AIRFLOW_HOME": folder}
        env |= {"AIRFLOW__CORE__LOAD_EXAMPLES": "False", "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT), "PLUMBLINE_HOME": folder}
        done = subprocess.run([sys.executable, "-c", CHILD, str(ROOT)], env=env, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert not report["errors"], report["errors"]
    return report


def main() -> None:
    print("providers  DAGs  parse s (cpu)  serialize s  KB a DAG")
    for providers in (1, 10, PROVIDERS, 2 * PROVIDERS):
        best = min((measure(providers) for _ in range(3)), key=lambda m: m["parse_cpu_s"])
        print(
            f"{providers:9d} {best['dags']:5.0f} {best['parse_s']:8.2f} ({best['parse_cpu_s']:.2f}) {best['serialize_s']:12.2f}"
            f" {best['bytes'] / best['dags'] / 1000:9.1f}"
        )
    print("limits: [dag_processor] dag_file_processor_timeout 50 s for a file, [core] dagbag_import_timeout 30 s")


if __name__ == "__main__":
    main()
