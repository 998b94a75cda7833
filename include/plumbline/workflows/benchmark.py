"""Steps of a benchmark run: plan, run, collect, validate, record. Small plain data in and out; documents go through the result store."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from itertools import groupby
from types import FrameType
from typing import Any

from pydantic import ValidationError

from plumbline.archive import Archive, open_archive
from plumbline.declarations import Declarations, Provider, Trial, installation, installation_paths, load_in_force
from plumbline.declarations import trial_id as make_trial_id
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch import progress, stores
from plumbline.launch.collect import collect as collected
from plumbline.launch.failures import Interrupted, QuotaExceeded, is_retryable, is_usable, raise_failure
from plumbline.launch.leftovers import store_leftovers
from plumbline.launch.plan import PlanError, RunRequest, enabled_provider, fitting_workload, on_each_node, plan, single_trial
from plumbline.launch.registry import launcher_for
from plumbline.quality import check
from plumbline.results import InvalidResult, Reason, ResultDocument, ResultStore, Validity, quarantine, signing
from plumbline.results.bounded_json import first_error
from plumbline.results.document import CONTENTION
from plumbline.results.launch_record import nodes_of
from plumbline.workflows import alert, budget
from plumbline.workflows.plan import TRIAL_GROUPS, TrialGroup, node_names, trial_groups
from plumbline.workflows.record import complete_corrections, record_attempt


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Inside, SIGTERM raises Interrupted in the main thread, so that launchers end what they started."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Interrupted("the task was stopped")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


Row = dict[str, Any]
_CAMPAIGNS_AVOIDED = 3
_log = logging.getLogger(__name__)


def note_rerun(request: RunRequest, providers: Sequence[str], by: str, run_id: str) -> None:
    """Write a rerun that a person asked for to the audit log, once a run of the DAG; its subject is the campaign."""
    detail = {"providers": list(providers), "workloads": list(request.workloads or ()), "repeats": request.repeats, "run_id": run_id}
    with open_archive() as archive:
        archive.add_audit(
            who=by, what="rerun_asked", subject=request.campaign_id, why=request.reason, detail=detail, once=f"rerun_asked/{run_id}"
        )


def plan_trials(provider: str, lane: TrialGroup, request: RunRequest, most: int | None = None) -> list[Row]:
    """Plan the trials of one lane and store their specifications; one {campaign_id, trial_id, title} each.

    Planning again gives the same trials and keeps stored specifications. PlanError if the campaign has a trial of that name with another
    specification, or if there are more than `most`, Airflow's limit of mapped tasks. Trials over the provider's monthly budget are skipped,
    with a finding; BudgetReached if none of the lane is left.
    """
    declared, now = load_in_force(), datetime.now(timezone.utc)
    nodes = node_names(declared.providers[provider], request, now)
    trials = lane.of(on_each_node(plan(declared, declared.providers[provider], request, now, (lane.kind,)), nodes, request.rounds))
    if request.workloads is None:
        for workload, why in declared.left_out(declared.providers[provider]):
            _log.warning("%s does not measure %s monthly: %s", provider, workload.name, why)
    if most is not None and len(trials) > most:
        raise PlanError(
            f"{len(trials)} trials of {lane.name} on {provider} in one run, but Airflow maps at most {most} tasks (core.max_map_length); "
            "expected fewer repeats or workloads, or a higher setting in all of Airflow's components"
        )
    trials = _within_budget(declared, declared.providers[provider], lane, request, trials, now, nodes)
    if request.placement == "fresh_node":
        trials = _on_fresh_nodes(trials)
    store = stores.home()
    for trial in trials:
        store_planned_trial(store, trial)
    return [{"campaign_id": t.campaign_id, "trial_id": t.trial_id, "title": f"{t.workload.name} {t.slot} r{t.repeat}"} for t in trials]


def run_trial(spec: Mapping[str, str], request: str | None = None) -> Row:
    """Launch one planned trial and wait for its end; once more if other load on this machine's cores made it invalid.

    Raises the typed exception of its failure class, after everything is stored. `request`: the same in each retry, which launches nothing if
    the attempt before it has a usable document or a failure that a retry would not change."""
    store = stores.home()
    trial = stores.planned_trial(store, spec)
    if request is not None and (launched := stores.attempts_for(request, store, spec)):
        record, validity = None, _validity(store, trial)
        with suppress(InvalidResult):
            record = store.launch(launched[-1])
        if is_usable(validity) and _spoilt(validity) is None:
            _log.info("an earlier try of this task measured %s", launched[-1])
            return {"trial_id": trial.trial_id, "exit_code": record.exit_code if record else 0}
        if record is not None and record.failure_class is not None and not is_retryable(record, validity):
            raise_failure(record, validity)
    launcher = launcher_for(trial.provider)
    if trial.selfcheck and (by := _checked_by(store, trial)) is not None:
        _log.info("the instrument was checked on this machine by %s", by)
        trial = trial.model_copy(update={"selfcheck": False})
    try:
        record = launcher.launch(trial, store, progress.write_progress)
        if trial.provider.launcher.cpus_here and (why := _spoilt(_validity(store, trial))) is not None:
            _log.warning("repeated once: %s", why)
            progress.write_progress(ProgressLine(trial.trial_id, "queued", 0.0, f"again: {why}"))
            record = launcher.launch(trial, store, progress.write_progress)
    except OSError as error:
        if (why := installation.full_disk_message(error)) is None:
            raise
        raise QuotaExceeded(why) from error
    finally:
        progress.remove_progress(trial.trial_id)
    _log.info("%s", record.log_tail)
    collect_or_leave(spec)
    raise_failure(record, _validity(store, trial) if record.failure_class else None)
    return {"trial_id": trial.trial_id, "exit_code": record.exit_code}


def _checked_by(store: ResultStore, trial: Trial) -> str | None:
    """The trial of this campaign whose selfcheck passed on this machine, on no other cores than this trial's: plans of other kinds and providers
    have a first trial each. None on providers' nodes, whose instrument is in each image."""
    own = trial.provider
    for other_id in store.trial_ids(trial.campaign_id) if own.launcher.cpus_here else ():
        other = stores.planned_trial(store, {"campaign_id": trial.campaign_id, "trial_id": other_id})
        there = other.provider
        alike = (there.launcher.machine_name, there.accelerator.kind) == (own.launcher.machine_name, own.accelerator.kind)
        if not (other.selfcheck and alike and set(there.launcher.cpus_here) <= set(own.launcher.cpus_here)):
            continue
        for folder in store.attempts(trial.campaign_id, other_id):
            with suppress(FileNotFoundError, InvalidResult):
                lines = store.document(folder).selfcheck
                if lines and all(line.status != "fail" for line in lines):
                    return other_id
    return None


def _spoilt(validity: Validity | None) -> str | None:
    """The other load that made a trial invalid, in words; None if none did."""
    if validity is None or validity.status != "invalid":
        return None
    return next((reason.detail for reason in validity.reasons if reason.code in CONTENTION), None)


def _validity(store: ResultStore, trial: Trial) -> Validity | None:
    """The validity of the trial's newest attempt; None without a valid document."""
    try:
        return store.document(store.attempts(trial.campaign_id, trial.trial_id)[-1]).validity
    except (FileNotFoundError, InvalidResult):
        return None


def collect_trial(spec: Mapping[str, str], *, settle: bool = False) -> Row:
    """Require a document for each attempt of the trial, however it ended; returns how the last one ended.

    `settle`: the task that ran the trial has ended, so its leftovers on a cluster are deleted and recorded first.
    """
    if settle:
        launcher_for(stores.planned_trial(stores.home(), spec).provider).settle(spec)
    documents = collected(stores.home(), spec["campaign_id"], spec["trial_id"])
    last = documents[-1].validity
    return {"trial_id": spec["trial_id"], "attempts": len(documents), "status": last.status, "failure_class": last.failure_class}


def collect_or_leave(spec: Mapping[str, str]) -> None:
    """Collect a trial at the end of its own task. What fails is left to `collect_group`: a task that failed here would measure again."""
    try:
        collect_trial(spec)
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001 - the lane's `collect` meets it again, retries and names it
        _log.warning("%s is not collected yet: %s", spec["trial_id"], error)


def collect_group(specs: Iterable[Mapping[str, str]]) -> None:
    """Collect the trials of one lane, whose tasks have ended: what they left on a cluster, failed trials, which may have a result by now, and
    what could not be collected before. The others go on if one fails."""
    store = stores.home()
    left = (spec for spec in specs if not _is_home(store, spec))
    _each(left, lambda spec: collect_trial(spec, settle=True), "collected").require_all()


def _is_home(store: ResultStore, spec: Mapping[str, str]) -> bool:
    """Whether each attempt has a collected document of a trial that did not fail."""
    folders = store.announced(spec["campaign_id"], spec["trial_id"])
    try:
        return bool(folders) and all(store.collected(folder).validity.status != "failed" for folder in folders)
    except (FileNotFoundError, InvalidResult):
        return False


@dataclass(frozen=True)
class LaneOutcome:
    """`done`: what a step returned for each trial of a lane; `failed`: the errors of the others, which are in the log."""

    done: list[Row]
    failed: list[Exception]

    def require_all(self) -> None:
        """Raise one of the errors, if possible one that a retry may mend: none of a document's."""
        if self.failed:
            raise min(self.failed, key=lambda error: isinstance(error, ValueError | LookupError))


def _each(rows: Iterable[Mapping[str, Any]], step: Callable[[Mapping[str, Any]], Row], verb: str) -> LaneOutcome:
    """Apply a step to each trial; a trial that fails stops no other."""
    outcome = LaneOutcome([], [])
    for row in rows:
        try:
            outcome.done.append(step(row))
        except Exception as error:  # noqa: BLE001 - raised by `require_all`
            _log.error("%s is not %s: %s: %s", row["trial_id"], verb, type(error).__name__, error)
            outcome.failed.append(error)
    return outcome


def validate_group(provider: str, lane: str, specs: Iterable[Mapping[str, str]]) -> list[Row]:
    """Check the campaign's results of one lane as one table; for each trial the verdict on each of its attempts.

    A trial with attempts but no collected result is omitted: clearing its `collect` can still bring the result home.
    """
    store = stores.home()
    wanted = list(specs)
    trials = [stores.planned_trial(store, spec) for spec in wanted]
    documents = [document for trial in trials for document in _collected(store, trial)]
    report = check(documents, trials, installation_paths().data_docs, f"{trials[0].campaign_id}-{provider}-{lane}")
    _log.info("%d documents checked, %s; Data Docs: %s", len(documents), "all pass" if report.success else "not all pass", report.data_docs)
    for problem in report.problems:
        _log.warning("%s: %s", problem.code, problem.detail)
    rows: list[Row] = []
    for spec, trial in zip(wanted, trials, strict=True):
        verdicts = []
        for document in (d for d in documents if d.trial.trial_id == trial.trial_id):
            verdict = report.verdicts[f"{trial.trial_id}#{document.trial.attempt}"]
            reasons = [reason.model_dump() for reason in verdict.reasons]
            verdicts.append({"attempt": document.trial.attempt, "action": verdict.action, "reasons": reasons})
        if not verdicts and (launched := store.announced(trial.campaign_id, trial.trial_id)):
            # `record` quarantines a document that was damaged since, and records nothing.
            spoilt = [folder for folder in launched if store.exists(f"{folder}/collected.json")]
            verdicts = [{"attempt": int(folder.rpartition("-")[2]), "action": "reject", "reasons": []} for folder in spoilt]
            _log.error("%s has attempts but no collected result and is not recorded; clear its `collect` task", trial.trial_id)
            if not verdicts:
                continue
        rows.append({**spec, "verdicts": verdicts or [_record_missing(store, trial)]})
    return rows


def record_group(checked: Iterable[Mapping[str, Any]]) -> LaneOutcome:
    """Record the checked trials of one lane, each in transactions of its own: repeating writes nothing twice."""
    with open_archive() as archive:
        return _each(checked, partial(record_trial, archive), "recorded")


def record_trial(archive: Archive, checked: Mapping[str, Any]) -> Row:
    """Write every attempt of one trial to the archive with its verdict; rejected ones are never compared. Invalid documents go into quarantine."""
    store = stores.home()
    done = [
        record_attempt(
            archive,
            store,
            f"{checked['campaign_id']}/{checked['trial_id']}/attempt-{verdict['attempt']}",
            verdict["action"],
            tuple(Reason(**reason) for reason in verdict["reasons"]),
        )
        for verdict in checked["verdicts"]
    ]
    return {"campaign_id": checked["campaign_id"], "trial_id": checked["trial_id"], "recorded": done}


def _within_budget(
    declared: Declarations,
    provider: Provider,
    lane: TrialGroup,
    request: RunRequest,
    trials: list[Trial],
    now: datetime,
    nodes: tuple[str, ...] | None,
) -> list[Trial]:
    if provider.budget is None or not trials:
        return trials
    every = on_each_node(plan(declared, provider, request, now), nodes, request.rounds)
    with open_archive() as archive:
        cut = budget.apply_budget(archive, provider, every, now)
        # All lanes of a run are cut alike: the first one with trials opens the finding.
        reports = lane == next(own for own in trial_groups(declared, provider) if own.of(every))
        finding = budget.store_budget_finding(archive, cut, now) if reports else None
    if finding is not None:
        alert.send_alerts()
    _log.log(logging.WARNING if cut.left_out else logging.INFO, "budget: %s", cut)
    kept_ids = {trial.trial_id for trial in cut.kept}
    if not any(trial.trial_id in kept_ids for trial in trials):
        raise budget.BudgetReached(cut.advice)
    return [trial for trial in trials if trial.trial_id in kept_ids]


def _on_fresh_nodes(trials: list[Trial]) -> list[Trial]:
    with open_archive() as archive:
        used = {key: recent_nodes(archive, key) for key in {trial.series_key for trial in trials}}
    return [launcher_for(trial.provider).fresh_node(trial, used[trial.series_key]) for trial in trials]


def recent_nodes(archive: Archive, series_key: str) -> tuple[str, ...]:
    nodes = set[str]()
    for campaign in archive.campaigns(series_key, latest=_CAMPAIGNS_AVOIDED):
        for attempt in archive.trials(campaign.campaign_id, series_key):
            document = archive.document(attempt.trial_id, attempt.attempt)
            nodes |= nodes_of(document) if document is not None else set()
    return tuple(sorted(nodes))


def cluster_providers() -> list[str]:
    return [provider.name for provider in load_in_force().enabled_providers() if provider.launcher.outlasts_task]


def sweep_cluster(provider: str) -> list[str]:
    """Delete leftovers of launches at the provider past their deadline, and return them; counts what remains."""
    declared = load_in_force().providers[provider]
    launcher = launcher_for(declared)
    deleted = launcher.sweep(declared)
    left = launcher.leftovers(declared)
    if left is not None:
        store_leftovers(provider, left)
        _log.info("%s has %s", provider, left)
    return deleted


def store_planned_trial(store: ResultStore, trial: Trial) -> None:
    """Store a planned trial once; PlanError if the campaign has a trial of that name with another specification.

    Planning again updates only where it runs, so that a repaired declaration applies from the next attempt on.
    """
    path = stores.planned_path(trial.campaign_id, trial.trial_id)
    if not store.exists(path):
        store.put(path, trial.model_dump_json(indent=1).encode())
        return
    stored = stores.planned_trial(store, {"campaign_id": trial.campaign_id, "trial_id": trial.trial_id})
    if (stored.series_key, stored.spec_hash, stored.criteria_hash) != (trial.series_key, trial.spec_hash, trial.criteria_hash):
        raise PlanError(
            f"campaign {trial.campaign_id} already holds {trial.trial_id} with another specification or other criteria; "
            "name another campaign: trials of one campaign are measured and judged alike"
        )
    again = stored.model_copy(update={field: getattr(trial, field) for field in ("provider", "placement", "avoid_nodes", "on_nodes")})
    if again != stored:
        store.put(path, again.model_dump_json(indent=1).encode())


def _collected(store: ResultStore, trial: Trial) -> list[ResultDocument]:
    """The collected documents; the completeness check reports missing ones. Documents damaged since go into quarantine."""
    documents = []
    for folder in store.attempts(trial.campaign_id, trial.trial_id):
        if store.correction(folder) is not None or not store.exists(f"{folder}/collected.json"):
            continue
        try:
            documents.append(store.collected(folder))
        except InvalidResult as error:
            _log.error("%s", error)
            quarantine.put(store, folder, "collected.json", str(error))
    return documents


def _record_missing(store: ResultStore, trial: Trial) -> Row:
    """A planned trial without any attempt becomes a document too: missing is a fact, not a failure of the provider."""
    reason = Reason(code="never_launched", detail="planned, but no attempt of it reached the result store")
    document = ResultDocument.sealed(
        trial=trial,
        harness_version=signing.UNKNOWN_HARNESS,
        simulated=trial.provider.simulated,
        validity=Validity(status="missing", reasons=(reason,)),
    )
    store.put_collected(document)
    return {"attempt": trial.attempt, "action": "accept", "reasons": []}


def plan_single_trial(declared: Declarations, workload: str, provider: str) -> Trial:
    """One trial of one workload on one provider, in a campaign of its own; raises PlanError if it does not fit."""
    now = datetime.now(timezone.utc)
    place = enabled_provider(declared, provider)
    request = RunRequest(now.strftime("trial-%Y%m%d-%H%M%S"), "one trial from the command line")
    return single_trial(declared, place, fitting_workload(declared, place, workload), request, now)


def plan_replay(recorded: Trial) -> Trial:
    """A repeat of the trial from its record: specification, criteria and hashes stay, only its time is new."""
    now = datetime.now(timezone.utc)
    campaign = now.strftime("replay-%Y%m%d-%H%M%S")
    changed = {
        "trial_id": make_trial_id(campaign, recorded.provider, recorded.workload, recorded.slot, recorded.repeat),
        "campaign_id": campaign,
        "reason": f"replay of {recorded.trial_id}",
        "planned_at": now,
        "attempt": 1,
        "selfcheck": True,
        "replay_of": recorded.trial_id,
        "origin": None,
    }
    try:  # today's rules too: a record may be older, or another installation's
        for declared in (recorded.provider, recorded.workload):
            type(declared).model_validate_json(declared.model_dump_json())
    except ValidationError as error:
        raise PlanError(f"{recorded.trial_id} cannot run again: {first_error(error)}") from None
    # Through JSON, so that the copy is validated with its hashes.
    return Trial.model_validate_json(recorded.model_copy(update=changed).model_dump_json())


@dataclass(frozen=True)
class DirectTrial:
    """A trial that was measured and recorded at once: the document of its last attempt, and why the archive rejects it; empty if it does not."""

    document: ResultDocument
    rejected: tuple[str, ...] = ()


def run_directly(trial: Trial, on_progress: Callable[[ProgressLine], None] | None = None) -> DirectTrial:
    """Launch, collect, check and record one trial."""
    store = ResultStore(installation_paths().results_url)
    spec = {"campaign_id": trial.campaign_id, "trial_id": trial.trial_id}
    store_planned_trial(store, trial)
    launcher_for(trial.provider).launch(trial, store, on_progress)
    collect_trial(spec)
    (checked,) = validate_group(trial.provider.name, trial.workload.kind, [spec])
    with open_archive() as archive:
        recorded = record_trial(archive, checked)["recorded"][-1]
    verdict = checked["verdicts"][-1]
    why = [f"{reason['code']}: {reason['detail']}" for reason in verdict["reasons"]] if verdict["action"] == "reject" else []
    if recorded == "quarantined":
        why.append("the document is in quarantine: plumbline archive quarantine list")
    return DirectTrial(store.collected(store.attempts(trial.campaign_id, trial.trial_id)[-1]), tuple(why))


@dataclass(frozen=True)
class CollectedTrial:
    """`recorded`: the outcome of each attempt; `quarantined`: why each quarantined document was refused; `problem`: why nothing was collected."""

    trial_id: str
    recorded: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    problem: str | None = None


def collect_campaign(archive: Archive, campaign_id: str) -> list[CollectedTrial]:
    """Collect, check and record every launched trial of the campaign; recorded ones stay.

    LookupError if the store holds no planned trial of the campaign.
    """
    store = stores.home()
    planned = list(_planned(store, campaign_id))
    if not planned:
        raise LookupError(f'{store.uri(campaign_id)}: the result store has no planned trial of campaign "{campaign_id}"')
    complete_corrections(archive, campaign_id)
    done, ready = [], []
    for trial in planned:
        if not store.announced(campaign_id, trial.trial_id):
            continue
        try:
            collect_trial({"campaign_id": campaign_id, "trial_id": trial.trial_id})
        except (InvalidResult, OSError, ValueError) as error:
            done.append(CollectedTrial(trial.trial_id, problem=str(error)))
        else:
            ready.append(trial)

    def lane(trial: Trial) -> tuple[str, str]:
        return trial.provider.name, next(name for name, each in TRIAL_GROUPS.items() if each.takes(trial.workload))

    for (provider, name), trials in groupby(sorted(ready, key=lane), key=lane):
        specs = [{"campaign_id": campaign_id, "trial_id": trial.trial_id} for trial in trials]
        checked = validate_group(provider, name, specs)
        done += [CollectedTrial(row["trial_id"], tuple(record_trial(archive, row)["recorded"])) for row in checked]
    refused = archive.quarantined(campaign_id=campaign_id)
    done = [replace(one, quarantined=tuple(q.reason for q in refused if q.trial_id == one.trial_id)) for one in done]
    return sorted(done, key=lambda one: one.trial_id)


def _planned(store: ResultStore, campaign_id: str) -> Iterator[Trial]:
    for trial_id in store.trial_ids(campaign_id):
        try:
            yield stores.planned_trial(store, {"campaign_id": campaign_id, "trial_id": trial_id})
        except FileNotFoundError:
            continue  # a file beside the trials, or a folder that another version left
