"""`python -m plumbline.harness run --trial trial.json --out URL` runs a trial; `… probe` prints what it sees of this machine, or with --out
stores a quick probe (exit status 0 or 1); `… check --out URL` reports whether the result store works from here (exit status 0 or 1).

Exit status of `run`: 0 a document was stored and the trial is valid, degraded or invalid; 3 a document was stored and the trial
failed; 2 the input is unusable and nothing was stored; 1 the result store did not answer for minutes and holds no document.
On other nodes of a trial no document is stored: 0 means that the trial is done, 3 that it failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from plumbline.declarations import Trial
from plumbline.declarations.yaml_source import expected_shape, format_path, locate
from plumbline.harness import environment, probes
from plumbline.harness.delivery import StoreUnreachable, UnusableStore, open_store
from plumbline.harness.environment.cpu import usable_cores
from plumbline.harness.gang.topology import InvalidTopology, topology_of
from plumbline.harness.image_requirements import unsupported_torch
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.run import quick_probe, run, store_probe
from plumbline.results import Environment, ResultStore, signing, store_check
from plumbline.results.probe_document import PROBE_LIMIT_S

MEASURED, STORE_FAILED, UNUSABLE, FAILED = 0, 1, 2, 3
_CHECK_PATIENCE_S = 5.0


class UnusableTrial(ValueError):
    """A trial's file cannot be used; the message names file, field and expected shape."""


def read_trial(source: str) -> Trial:
    """The trial in a JSON file or at an fsspec URL, checked down to its hashes; UnusableTrial or UnusableStore otherwise.

    OSError if the store behind a URL does not answer for minutes: a pod's network and its names may come up after the pod.
    """
    folder, url, name = source.rpartition("/") if "://" in source else (source, "", "")
    try:
        text = (open_store(folder).get(name) if url else Path(source).read_bytes()).decode("utf-8")
    except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ValueError, ImportError) as error:
        raise UnusableTrial(f"{source}: cannot be read ({error}); expected a trial as JSON") from error
    try:
        return Trial.model_validate_json(text)
    except ValidationError as error:
        raise UnusableTrial(f"{source}: {_format_validation_error(text, error)}") from error


def _format_validation_error(text: str, error: ValidationError) -> str:
    items = error.errors(include_url=False)
    first = items[0]
    more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
    if first["type"] == "json_invalid":
        return f"{first['msg']}; expected a trial as JSON"
    loc = first["loc"]
    message = first["msg"].removeprefix("Value error, ")
    # A rule that the model states itself says what it expects; for the others the schema knows.
    shape = "" if first["type"] == "value_error" else f"; expected {expected_shape(Trial.model_json_schema(), loc)}"
    field = format_path(locate(json.loads(text), loc))
    return f"{field + ': ' if field else ''}{message}{shape}{more}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m plumbline.harness", description="Measures one trial.")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="run a trial and store its result document")
    runs.add_argument("--trial", required=True, help="the trial's specification, a JSON file or its URL")
    runs.add_argument("--out", required=True, help="the result store, such as file:///var/results or s3://bucket/results")
    probing = commands.add_parser("probe", help="print the environment and the hardware probes of this machine as JSON")
    probing.add_argument(
        "--out", help="store the environment, matmul and memory alone, as this file or object, such as s3://bucket/probe.json"
    )
    probing.add_argument("--limit", type=float, default=PROBE_LIMIT_S, help="of --out: seconds after which a probe is left out")
    checks = commands.add_parser("check", help="say as one line of JSON whether the result store can be used from here")
    checks.add_argument("--out", required=True, help="the result store")
    options = parser.parse_args(arguments)
    if options.command == "probe" and options.out is not None:
        return _quick_probe(options.out, options.limit)
    if options.command == "probe":
        sys.stdout.write(json.dumps(_probe(), indent=1) + "\n")
        return MEASURED
    if options.command == "check":
        report = _check_store(options.out)
        sys.stdout.write(json.dumps(report) + "\n")
        return STORE_FAILED if report["fault"] else MEASURED
    try:
        key = signing.take_key(os.environ)  # before anything is started that would inherit it
        trial = read_trial(options.trial)
    except (UnusableTrial, UnusableStore, signing.InvalidKey) as error:
        sys.stderr.write(f"{error}\n")
        return UNUSABLE
    except OSError as error:
        sys.stderr.write(f"{options.trial}: the specification could not be read: {type(error).__name__}: {error}\n")
        return STORE_FAILED
    try:
        topology = topology_of(trial, os.environ)
        if topology.node > 0:
            # Imported on demand: it has heavy dependencies.
            failure = import_module("plumbline.harness.training.job.node_agent").run_node_agent(trial, topology)
            sys.stderr.write(f"failed: {failure}\n" if failure else "")
            return FAILED if failure else MEASURED
        document = run(trial, options.out, key=key)
    except (InvalidTopology, UnusableStore) as error:
        sys.stderr.write(f"{error}\n")
        return UNUSABLE
    except OSError as error:
        what = "nothing was measured" if isinstance(error, StoreUnreachable) else "the result document could not be stored"
        sys.stderr.write(f"{options.out}: {what}: {type(error).__name__}: {error}\n")
        return STORE_FAILED
    for reason in document.validity.reasons:
        sys.stderr.write(f"{document.validity.status}: {reason.detail}\n")
    return FAILED if document.validity.status == "failed" else MEASURED


def _check_store(out: str) -> dict[str, object]:
    """`fault` is None if the store works; `time`: this machine's clock, to compare with. `torch`: the version that would compute; `torch_fault`:
    why the harness does not run on it. `accelerators`: facts of devices, drivers and limits; None if the image's engine Python does not run.
    `cuda_fault`: why PyTorch cannot use the NVIDIA GPUs that the driver shows."""
    seconds, fault = None, None
    try:
        seconds = store_check.check_access(ResultStore(out, patience_s=_CHECK_PATIENCE_S))
    except (store_check.StoreFault, ValueError, ImportError) as error:
        fault = str(error)
    torch, accelerators, cuda_fault = None, None, None
    try:
        facts = environment.collect_facts()
    except TrialFailed as failure:  # the image's engine Python does not run
        torch_fault: str | None = failure.detail
    else:
        torch = None if facts["torch.version"] is None else str(facts["torch.version"])
        torch_fault = unsupported_torch(torch)
        accelerators = {name: value for name, value in facts.items() if name.startswith(("gpu.", "driver.", "torch.", "cuda.", "limits."))}
        if facts["torch.cuda"] is not None and facts["cuda.version"] is not None and facts["gpu.count"]:
            try:
                environment.require_driver(facts)
                cuda_fault = environment.open_fault()
            except TrialFailed as failure:
                cuda_fault = failure.detail
    return {
        "store": out,
        "fault": fault,
        "seconds": seconds,
        "time": time.time(),
        "harness": version("plumbline"),
        "torch": torch,
        "torch_fault": torch_fault,
        "accelerators": accelerators,
        "cuda_fault": cuda_fault,
    }


def _quick_probe(out: str, limit_s: float) -> int:
    with tempfile.TemporaryDirectory(prefix="plumbline-probe-") as folder:
        result = quick_probe(Path(folder), limit_s)
    try:
        store_probe(result, out)
    except (OSError, UnusableStore) as error:
        sys.stderr.write(f"{out}: the probe could not be stored: {error}\n")
        return STORE_FAILED
    for name, why in result.left_out.items():
        sys.stderr.write(f"{name} skipped: {why}\n")
    return MEASURED


def _probe() -> dict[str, object]:
    facts = Environment.of(environment.collect_facts())
    with tempfile.TemporaryDirectory(prefix="plumbline-probe-") as folder:
        rows = probes.run(usable_cores(), Path(folder), "cuda" if facts.facts.get("gpu.count") else "cpu")
    return {**facts.model_dump(mode="json"), "probes": [row.model_dump(mode="json") for row in rows]}


if __name__ == "__main__":
    raise SystemExit(main())
