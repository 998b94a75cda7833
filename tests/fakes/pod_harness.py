"""What a fake pod's container does instead of measuring: it reads its trial from the store, as told by its arguments, and leaves a document."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.fakes.fake_kubernetes import PodRun

from plumbline.harness.launcher_protocol import DELETIONS_VARIABLE, PROGRESS_EVENT
from plumbline.results import Environment, FailureClass, Reason, ResultDocument, ResultStore, Validity, signing

FAILED = 3


def harness(failure: FailureClass | None = None, *, lasts_s: float = 0.0) -> Callable[[PodRun], int]:
    """The process of a pod: progress lines, after `lasts_s` rank 0's document, an exit code; `failure`: how the trial fails by itself."""

    def process(run: PodRun) -> int:
        arguments = run.row["spec"]["containers"][0]["args"]
        url = arguments[arguments.index("--trial") + 1]
        store = ResultStore(arguments[arguments.index("--out") + 1])
        trial = store.trial(url.removeprefix(f"{store.url}/").removesuffix("/trial.json"))
        run.say(
            f'{{"event": "{PROGRESS_EVENT}", "trial_id": "{trial.trial_id}", "phase": "steady", "fraction": 0.5, "note": "half"}}',
            "measuring",
        )
        run.wait(lasts_s)
        if run.row["metadata"]["labels"].get("plumbline/rank", "0") != "0":
            return 0
        reasons = () if failure is None else (Reason(code=failure, detail="the fake harness was told to fail"),)
        document = ResultDocument.sealed(
            trial=trial,
            harness_version="0.1.0",
            environment=Environment.of({"cpu.model": "fake"}),
            validity=Validity(status="failed" if failure else "valid", reasons=reasons, failure_class=failure),
        )
        store.put_document(signed(run, document))
        run.say("measured")
        return FAILED if failure else 0

    return process


def signed(run: PodRun, document: ResultDocument) -> ResultDocument:
    """The document as the pod's harness signs it, with the key of the pod's Secret."""
    key = signing.take_key(run.environment())
    assert key is not None, "the launcher gives each pod that writes a result a key"
    return signing.sign(document, key)


def asking(times: int) -> Callable[[PodRun], int]:
    """The process of a pod whose trial's fault deletes it: it asks for that until it happens `times` times; then like `harness`."""

    def process(run: PodRun) -> int:
        given = {entry["name"]: entry.get("value") for entry in run.row["spec"]["containers"][0]["env"]}
        number = 1 + len(json.loads(given.get(DELETIONS_VARIABLE) or "[]"))
        while number <= times:
            run.say(json.dumps({"event": "plumbline-delete-pod", "number": number}))
            run.wait(0.2)
        return harness(lasts_s=0.2)(run)

    return process
