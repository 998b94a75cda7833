"""Where everything that Plumbline writes lies: this file decides, and `tests/unit/house/test_storage.py` refuses a writer of files that is not listed.

Processes of one installation share the archive and the result store, and need no common folder. Reports, Data Docs and acceptance sheets are files of the home
while results are there too, and objects of the store as soon as results are in a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from plumbline.declarations.addresses import local_path
from plumbline.declarations.installation import InstallationPaths

ShelfKind = Literal["reports", "data_docs", "acceptance"]
SHELVES: tuple[ShelfKind, ...] = get_args(ShelfKind)
"""What workers write and pages show beside the results; `archive.shelves` writes and reads them."""

Lies = Literal["archive", "store", "shelf", "process", "machine", "scratch", "named"]
"""`archive`: its database. `store`: the result store. `shelf`: the store if it is a bucket, else the home. `process`: the home, for processes of one
machine, and may be lost. `machine`: outside the home, of one machine's user. `scratch`: a temporary folder that its writer removes. `named`: where the
caller says."""
SHARED: tuple[Lies, ...] = ("archive", "store", "shelf")
"""What all processes of an installation see, wherever they run."""


@dataclass(frozen=True)
class StoragePlace:
    """`writers`: modules, or packages with everything below them, that write there. `if_lost`: what then happens."""

    what: str
    lies: Lies
    at: str
    if_lost: str
    writers: tuple[str, ...]


PLACES = (
    StoragePlace(
        "measurements, findings, decisions, prices, the operations log, the last valid declarations, public keys, the audit log, locks",
        "archive",
        "PLUMBLINE_ARCHIVE_URL, else home/archive.db with its lock files",
        "the history is gone: back it up",
        ("archive.engine",),
    ),
    StoragePlace(
        "result documents, launch records, evidence, quarantine",
        "store",
        "PLUMBLINE_RESULTS_URL, else home/results",
        "numbers stay in the archive, raw evidence is gone",
        ("results.store",),
    ),
    StoragePlace(
        "reports with their tables and mail",
        "shelf",
        "home/reports, or _reports/ in the bucket",
        "`plumbline report CAMPAIGN` writes them again",
        ("presentation.html.report", "presentation.html.mail", "presentation.tables", "archive.shelves"),
    ),
    StoragePlace(
        "Data Docs of the quality checks",
        "shelf",
        "home/data-docs, or _data-docs/ in the bucket",
        "clearing `validate` writes them again",
        ("quality.data_docs", "archive.shelves"),
    ),
    StoragePlace(
        "acceptance sheets of the DAG `acceptance`",
        "shelf",
        "home/acceptance, or _acceptance/ in the bucket",
        "clearing `sheet` writes them again",
        ("workflows.evidence_pack", "archive.shelves"),
    ),
    StoragePlace(
        "generated data sets, checkpoints, backends and tokenizers by their hashes",
        "process",
        "home/cache",
        "made or fetched again",
        ("harness.training.dataset", "harness.inference.checkpoint", "workflows.add_model"),
    ),
    StoragePlace(
        "running trials and probes of this machine, with what their harness writes before it is delivered to the store",
        "process",
        "home/work; in a pod the volume /work",
        "the trial's attempt fails and is retried; the store and the archive keep what was collected",
        ("harness", "launch.local.process_launcher", "launch.progress", "launch.leftovers", "reporter.plumbline_report"),
    ),
    StoragePlace(
        "a checkpoint that a pod leaves to the pod that replaces it",
        "process",
        "a volume that the provider declares",
        "the training starts again, and the trial says so",
        ("harness.persistent_state",),
    ),
    StoragePlace(
        "the provider that `plumbline run` declares for this machine's GPUs",
        "process",
        "home/providers; not in force on a team server",
        "generated again",
        ("launch.local.gpu_provider",),
    ),
    StoragePlace(
        "the embedded Airflow: database, logs, settings, secrets, lock",
        "process",
        "home/airflow; on a team server Airflow's own database and logs",
        "a new start makes new ones",
        ("embedded", "cli.archive"),
    ),
    StoragePlace(
        "the key of evidence packs",
        "process",
        "PLUMBLINE_EVIDENCE_KEY, else home/evidence-key; without a common folder the variable gives all processes one key",
        "the next pack is signed with a new key: tell it the recipients",
        ("results.installation_keys",),
    ),
    StoragePlace(
        "locks and ports of this machine's cores and GPUs",
        "machine",
        "/tmp/plumbline-<uid>",
        "nothing: they go with the processes that hold them",
        ("launch.local.machine_access",),
    ),
    StoragePlace(
        "drafts: a report before it is stored, evidence on its way, copies of declarations, exports, tried scripts",
        "scratch",
        "the process's temporary folder",
        "the step that made them is repeated",
        (
            "archive.backup",
            "archive.shelves",
            "cli.output",
            "launch.batch.launcher",
            "cli.trial",
            "dashboard.pages.promises",
            "declarations.last_valid",
            "declarations.unpacking",
            "declarations.workloads.script_files",
            "embedded.team_server",
            "launch.stores",
            "loadclient.multi_process",
            "results.log_transport",
            "workflows.new_script",
            "workflows.transfer",
            "workflows.workload_from_log",
        ),
    ),
    StoragePlace(
        "the harness, and the files of trials that run as jobs, on the provider's own machines",
        "named",
        "launcher.folder there",
        "the harness is sent again; a trial of which nothing came back is measured again",
        ("launch.batch.guard", "launch.batch.harness_copy"),
    ),
    StoragePlace(
        "what a command writes for its caller: backups, exports, packs, claims, previews, kubeconfigs, declarations",
        "named",
        "the path that the caller gives, or the folder of declarations",
        "the command writes it again",
        (
            "archive.backup",
            "archive.bundle",
            "cli.airflow_init",
            "cli.alerts",
            "cli.cluster",
            "workflows.accept_nodes",
            "workflows.add_model",
            "workflows.claim",
            "workflows.evidence_pack",
            "workflows.new_script",
            "workflows.workload_from_log",
        ),
    ),
)


def writes_shelves_to_store(paths: InstallationPaths) -> bool:
    """Whether reports, Data Docs and acceptance sheets are objects of the result store: where that is no folder of this machine."""
    return local_path(paths.results_url) is None


def shelf_folder(paths: InstallationPaths, kind: ShelfKind) -> Path:
    """The folder of the home that holds a shelf while the result store is a folder too."""
    return {"reports": paths.reports, "data_docs": paths.data_docs, "acceptance": paths.acceptance}[kind]


def shelf_prefix(kind: ShelfKind) -> str:
    """A shelf's path in the result store; its underscore begins no campaign's name."""
    return f"_{kind.replace('_', '-')}"


def listed_writers() -> Iterator[str]:
    """Every module and package that may write files, as PLACES names them."""
    for place in PLACES:
        yield from place.writers
