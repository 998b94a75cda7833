"""The steps of a benchmark run, without Airflow: each takes and returns small plain data, everything large goes by the result store."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from plumbline.declarations import Declarations, KubernetesLauncher, Provider, Trial, load, places
from plumbline.launch import progress, stores
from plumbline.launch.plan import KINDS
from plumbline.orchestration.asked import Asked, trials_of
from plumbline.orchestration.lanes import Lane, lanes_of
from plumbline.results import BadResult, Reason, ResultDocument, ResultStore, Validity, full_disk, quarantine, signing

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.launch import PlanError

Row = dict[str, Any]
_CAMPAIGNS_AVOIDED = 3
_log = logging.getLogger(__name__)


def plan(provider: str, lane: Lane, asked: Asked, most: int | None = None) -> list[Row]:
    """Plan the trials of one lane and store their specifications; one {campaign_id, trial_id, title} each.

    Planning again gives the same trials: a specification that is stored already is kept. PlanError if the campaign holds a trial of
    that name that was asked for differently, or if there are more than `most`, which is how many tasks Airflow maps in one run.
    Trials that the provider's monthly budget does not carry are left out, with a finding; BudgetReached if that is all of the lane's.
    """
    declared, now = load(), datetime.now(timezone.utc)
    trials = lane.of(trials_of(asked, declared, declared.providers[provider], lane.kind, now))
    if asked.workloads is None:
        for workload, why in declared.left_out(declared.providers[provider]):
            _log.warning("%s does not measure %s monthly: %s", provider, workload.name, why)
    if most is not None and len(trials) > most:
        from plumbline.launch import PlanError

        raise PlanError(
            f"{len(trials)} trials of {lane.name} on {provider} in one run, but Airflow maps at most {most} tasks (core.max_map_length); "
            "expected fewer repeats or workloads, or a higher setting in all of Airflow's components"
        )
    trials = _within_budget(declared, declared.providers[provider], lane, asked, trials, now)
    if asked.placement == "fresh_node":
        trials = _on_fresh_nodes(trials)
    store = stores.home()
    for trial in trials:
        keep(store, trial)
    return [{"campaign_id": t.campaign_id, "trial_id": t.trial_id, "title": f"{t.workload.name} {t.slot} r{t.repeat}"} for t in trials]


def run(spec: Mapping[str, str]) -> Row:
    """Launch one planned trial and wait for its end. Raises the typed exception of its failure class, after everything is stored."""
    from plumbline.launch import launcher_for
    from plumbline.launch.failures import InsufficientCapacity, raise_for

    store = stores.home()
    trial = stores.planned(store, spec)
    try:
        record = launcher_for(trial.provider).launch(trial, store, progress.tell)
    except OSError as error:
        if (why := full_disk.full(error)) is None:
            raise
        raise InsufficientCapacity(why) from error
    finally:
        progress.forget(trial.trial_id)
    _log.info("%s", record.log_tail)
    raise_for(record, _validity(store, trial) if record.failure_class else None)
    return {"trial_id": trial.trial_id, "exit_code": record.exit_code}


def _validity(store: ResultStore, trial: Trial) -> Validity | None:
    """What the document of the trial's newest attempt says; None if there is none that can be believed."""
    try:
        return store.document(store.attempts(trial.campaign_id, trial.trial_id)[-1]).validity
    except (FileNotFoundError, BadResult):
        return None


def collect(spec: Mapping[str, str], *, settle: bool = False) -> Row:
    """Require a document for each attempt of the trial, whatever became of it; says how the last one ended.

    `settle`: the task that ran the trial is over, so what is left of it on a cluster is deleted and recorded first.
    """
    from plumbline.launch.collect import collect as collected

    if settle and isinstance(stores.planned(stores.home(), spec).provider.launcher, KubernetesLauncher):
        from plumbline.launch.cluster.lifecycle import settle as settled

        settled(spec)
    documents = collected(stores.home(), spec["campaign_id"], spec["trial_id"])
    last = documents[-1].validity
    return {"trial_id": spec["trial_id"], "attempts": len(documents), "status": last.status, "failure_class": last.failure_class}


def validate(provider: str, lane: str, specs: Iterable[Mapping[str, str]]) -> list[Row]:
    """Check the campaign's results of one lane as one table; for each trial the verdict on each of its attempts.

    A trial that has attempts of which none is collected is left out: its red `collect` can still bring the result home.
    """
    from plumbline.quality import check

    store = stores.home()
    wanted = list(specs)
    trials = [stores.planned(store, spec) for spec in wanted]
    documents = [document for trial in trials for document in _collected(store, trial)]
    report = check(documents, trials, places().data_docs, f"{trials[0].campaign_id}-{provider}-{lane}")
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
            # `record` lists a document that was spoilt since in the archive's quarantine, and records nothing of it.
            spoilt = [folder for folder in launched if store.exists(f"{folder}/collected.json")]
            verdicts = [{"attempt": int(folder.rpartition("-")[2]), "action": "reject", "reasons": []} for folder in spoilt]
            _log.error("%s has attempts, and none is collected: it is not recorded; clear its `collect` task", trial.trial_id)
            if not verdicts:
                continue
        rows.append({**spec, "verdicts": verdicts or [_missing(store, trial)]})
    return rows


def record(checked: Mapping[str, Any]) -> Row:
    """Write every attempt of one trial to the archive, with its verdict: a rejected one is kept and never compared.

    What cannot be believed is listed in quarantine, and the other attempts are recorded all the same.
    """
    from plumbline.archive import open_archive

    with open_archive() as archive:
        return record_in(archive, checked)


def record_in(archive: Archive, checked: Mapping[str, Any]) -> Row:
    """The same in an archive that is open already, for who has many trials to record."""
    from plumbline.orchestration.recording import recorded

    store = stores.home()
    done = [
        recorded(
            archive,
            store,
            f"{checked['campaign_id']}/{checked['trial_id']}/attempt-{verdict['attempt']}",
            verdict["action"],
            tuple(Reason(**reason) for reason in verdict["reasons"]),
        )
        for verdict in checked["verdicts"]
    ]
    return {"campaign_id": checked["campaign_id"], "trial_id": checked["trial_id"], "recorded": done}


def _within_budget(declared: Declarations, provider: Provider, lane: Lane, asked: Asked, trials: list[Trial], now: datetime) -> list[Trial]:
    if provider.budget is None or not trials:
        return trials
    from plumbline.archive import open_archive
    from plumbline.orchestration import alerting, budget

    every = [trial for kind in KINDS for trial in trials_of(asked, declared, provider, kind, now)]
    with open_archive() as archive:
        cut = budget.cut(archive, provider, every, now)
        # All lanes of a run cut alike: the first one that has trials tells of it.
        tells = lane == next(own for own in lanes_of(declared, provider) if own.of(every))
        found = budget.keep(archive, cut, now) if tells else None
    if found is not None:
        alerting.alert()
    _log.log(logging.WARNING if cut.left_out else logging.INFO, "budget: %s", cut)
    kept = {trial.trial_id for trial in cut.kept}
    if not any(trial.trial_id in kept for trial in trials):
        raise budget.BudgetReached(f"{cut}. To go on: {budget.how_to_go_on(provider)}")
    return [trial for trial in trials if trial.trial_id in kept]


def _on_fresh_nodes(trials: list[Trial]) -> list[Trial]:
    from plumbline.archive import open_archive

    with open_archive() as archive:
        used = {key: recent_nodes(archive, key) for key in {trial.series_key for trial in trials}}
    return [t.model_copy(update={"placement": "fresh_node", "avoid_nodes": used[t.series_key]}) for t in trials]


def recent_nodes(archive: Archive, series_key: str) -> tuple[str, ...]:
    """The nodes that the series' newest campaigns were measured on."""
    nodes = set()
    for campaign in archive.campaigns(series_key, latest=_CAMPAIGNS_AVOIDED):
        for attempt in archive.trials(campaign.campaign_id, series_key):
            document = archive.document(attempt.trial_id, attempt.attempt)
            if document is not None and document.launch is not None:
                nodes |= {pod.node for pod in document.launch.pods if pod.node is not None}
    return tuple(sorted(nodes))


def clusters() -> list[str]:
    """The names of the enabled providers that are clusters."""
    return [provider.name for provider in load().enabled_providers() if isinstance(provider.launcher, KubernetesLauncher)]


def sweep(provider: str) -> list[str]:
    """Delete what launches on the provider's cluster left behind long after their end; what was deleted. Counts what is there then."""
    from plumbline.launch.cluster import census
    from plumbline.launch.cluster.sweep import sweep as swept

    launcher = load().providers[provider].launcher
    if not isinstance(launcher, KubernetesLauncher):
        return []
    deleted = swept(launcher)
    found = census.count(launcher)
    census.keep(provider, found)
    _log.info("%s has %s", provider, found)
    return deleted


def keep(store: ResultStore, trial: Trial) -> None:
    """Store what is planned, once; PlanError if the campaign holds a trial of that name that was asked for differently.

    Of a trial that is planned again only what says where it runs is taken over: a declaration that was mended holds from the next attempt
    on. Attempts that there are keep what they were given.
    """
    path = stores.planned_path(trial.campaign_id, trial.trial_id)
    if not store.exists(path):
        store.put(path, trial.model_dump_json(indent=1).encode())
        return
    held = stores.planned(store, {"campaign_id": trial.campaign_id, "trial_id": trial.trial_id})
    if (held.series_key, held.spec_hash, held.criteria_hash) != (trial.series_key, trial.spec_hash, trial.criteria_hash):
        raise _changed(trial)
    again = held.model_copy(update={field: getattr(trial, field) for field in ("provider", "placement", "avoid_nodes")})
    if again != held:
        store.put(path, again.model_dump_json(indent=1).encode())


def _changed(trial: Trial) -> PlanError:
    from plumbline.launch import PlanError

    return PlanError(
        f"campaign {trial.campaign_id} already holds {trial.trial_id} with another specification or other criteria; "
        "name another campaign: trials of one campaign are measured and judged alike"
    )


def _collected(store: ResultStore, trial: Trial) -> list[ResultDocument]:
    """What collect stored; an attempt that could not be collected is missing here, and the completeness check says so.

    One that was spoilt since goes into quarantine: the other documents of the campaign are checked all the same.
    """
    documents = []
    for folder in store.attempts(trial.campaign_id, trial.trial_id):
        if not store.exists(f"{folder}/collected.json"):
            continue
        try:
            documents.append(store.collected(folder))
        except BadResult as error:
            _log.error("%s", error)
            quarantine.put(store, folder, "collected.json", str(error))
    return documents


def _missing(store: ResultStore, trial: Trial) -> Row:
    """A planned trial of which there is nothing at all becomes a document too: missing is a fact, and not a failure of the provider."""
    reason = Reason(code="never_launched", detail="planned, but no attempt of it reached the result store")
    document = ResultDocument.sealed(
        trial=trial,
        harness_version=signing.UNKNOWN_HARNESS,
        simulated=trial.provider.simulated,
        validity=Validity(status="missing", reasons=(reason,)),
    )
    store.put_collected(document)
    return {"attempt": trial.attempt, "action": "accept", "reasons": []}
