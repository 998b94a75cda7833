"""Read a folder of YAML files into validated declarations, or report every problem with its file and line."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, ValidationError

from plumbline.declarations import dag_ids
from plumbline.declarations.alerts import Alerts
from plumbline.declarations.compatibility import incompatibility, reason_to_skip
from plumbline.declarations.economics import Economics
from plumbline.declarations.installation import CLOCK_SKEW, Upkeep, example_declarations, installation_paths, is_team_server
from plumbline.declarations.problems import DeclarationError, Problem, display_path, problem_at, problems_of
from plumbline.declarations.promises import PROMISES
from plumbline.declarations.providers.contract import Contract
from plumbline.declarations.providers.endpoint import EndpointLauncher
from plumbline.declarations.providers.launcher_base import LauncherBase
from plumbline.declarations.providers.launchers import LauncherDefaults, with_client_at
from plumbline.declarations.providers.launchers import apply_defaults as fill_in_defaults
from plumbline.declarations.providers.provider import ContractSource, Provider
from plumbline.declarations.references import References
from plumbline.declarations.secret_texts import SecretFound, secrets_of_data, secrets_of_names
from plumbline.declarations.teams import KINDS, Preference, Team
from plumbline.declarations.thresholds import Thresholds
from plumbline.declarations.workloads.any_workload import AnyWorkload, class_of_training
from plumbline.declarations.workloads.container_metric import ContainerMetric, metrics_in
from plumbline.declarations.workloads.evaluation import load_passage, load_questions
from plumbline.declarations.workloads.inference import InferenceWorkload
from plumbline.declarations.workloads.prompts import load_prompts
from plumbline.declarations.workloads.script_files import load_files
from plumbline.declarations.workloads.traces import load_trace_rows
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.declarations.workloads.workload import CATALOGUE, RelativeCriterion, Workload, refused_run_cost
from plumbline.declarations.yaml_source import FieldPath, UnreadableYaml, read_yaml
from plumbline.metrics import METRICS, Metric, with_own
from plumbline.metrics.formatting import unknown_name

Model = TypeVar("Model", bound=BaseModel)
Naming = TypeVar("Naming", Alerts, Economics)

FOLDERS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("providers", Provider),
    ("workloads/training", TrainingWorkload),
    ("workloads/inference", InferenceWorkload),
    ("teams", Team),
    ("contracts", Contract),
)
FILES: dict[str, type[BaseModel]] = {
    "thresholds.yaml": Thresholds,
    "defaults.yaml": LauncherDefaults,
    "alerts.yaml": Alerts,
    "economics.yaml": Economics,
    "upkeep.yaml": Upkeep,
    "references.yaml": References,
    dag_ids.FILE: dag_ids.AirflowNames,
}
"""Files that lie beside the folders; only the first must exist."""


@dataclass(frozen=True)
class BrokenFiles:
    """Why the last valid declarations are in force: the `problems` of the files that are there. `since` it was first seen, None if it was not noted;
    from `until` on no new trial starts."""

    problems: tuple[Problem, ...]
    since: datetime | None = None
    until: datetime | None = None

    @property
    def places(self) -> str:
        """File and line of each problem, without its text, which may quote a price."""
        return ", ".join(dict.fromkeys(f"{problem.file}:{problem.line}" for problem in self.problems))


@dataclass(frozen=True)
class Declarations:
    """All validated declarations, by name."""

    providers: dict[str, Provider]
    workloads: dict[str, AnyWorkload]
    teams: dict[str, Team]
    thresholds: Thresholds
    contracts: dict[str, Contract] = dataclasses.field(default_factory=dict)
    alerts: Alerts = dataclasses.field(default_factory=Alerts)
    upkeep: Upkeep = dataclasses.field(default_factory=Upkeep)
    economics: Economics = dataclasses.field(default_factory=Economics)
    references: References = dataclasses.field(default_factory=References)
    from_defaults: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Fields of `launcher` from `defaults.yaml`, by provider."""
    broken: BrokenFiles | None = dataclasses.field(default=None, compare=False)
    """Set while a file is broken: these are the last valid ones, with what stops or limits since."""
    withdrawn: frozenset[str] = frozenset()
    """Workloads whose files are gone while another one is broken: none of their trials is planned."""

    def why_no_trial_starts(self, now: datetime) -> str | None:
        """Why no new trial starts at `now`; None if it may."""
        if self.broken is None or self.broken.since is None or self.broken.until is None:
            return None
        # A time to come is not ours: a wrong clock wrote it, which must not keep broken files in force.
        if self.broken.since - CLOCK_SKEW <= now < self.broken.until:
            return None
        return (
            f"no trial starts: the declarations have been broken since {self.broken.since:%Y-%m-%d %H:%M} UTC, longer than start_while_broken of "
            f"upkeep.yaml; repair {self.broken.places} (`plumbline check` shows every problem)"
        )

    def enabled_providers(self) -> tuple[Provider, ...]:
        """Enabled providers, by name."""
        return tuple(p for _, p in sorted(self.providers.items()) if p.enabled)

    def choices(
        self, team: str | None = None, kind: Literal["training", "inference"] | None = None
    ) -> list[tuple[str, Literal["training", "inference"], Preference]]:
        """Every choice that teams make, by team as declared; of one team and kind if asked."""
        teams = [t for name, t in self.teams.items() if team in (None, name)]
        return [(t.name, of, p) for t in teams for of in KINDS if kind in (None, of) for p in t.preferences(of)]

    def workloads_for(self, provider: Provider, kind: str | None = None) -> tuple[AnyWorkload, ...]:
        """Workloads that the provider can and may run, by name."""
        return tuple(
            w
            for name, w in sorted(self.workloads.items())
            if (kind is None or w.kind == kind) and name not in self.withdrawn and incompatibility(w, provider) is None
        )

    @property
    def inference_workloads(self) -> dict[str, InferenceWorkload]:
        """Workloads that answer requests, by name."""
        return {name: served for name, w in self.workloads.items() if (served := w.serving) is not None}

    def monthly_workloads(self, provider: Provider, kind: str | None = None, month: int | None = None) -> tuple[AnyWorkload, ...]:
        """Workloads of the provider's rerun in `month` (1 to 12; None: in any), by name: its own `workloads`, else all fitting ones of the
        standard set."""
        named = provider.workloads
        return tuple(
            w
            for w in self.workloads_for(provider, kind)
            if (w.name in named if named is not None else _in_standard_set(w, provider))
            and (month is None or w.months is None or month in w.months)
        )

    def left_out(self, provider: Provider) -> tuple[tuple[AnyWorkload, str], ...]:
        """Workloads, by name, that the provider's monthly rerun skips for want of an engine or scratch disk, and why. A provider's own `workloads`
        must fit."""
        if provider.workloads is not None:
            return ()
        skipped = []
        for _, workload in sorted(self.workloads.items()):
            if not workload.on_demand_only and (why := reason_to_skip(workload, provider)) is not None:
                skipped.append((workload, why))
        return tuple(skipped)


def _in_standard_set(workload: AnyWorkload, provider: Provider) -> bool:
    """Not on demand only, on no more nodes than a trial may take, and deleting a pod only where a declared volume outlives it."""
    lasts = not workload.pod_deletions or provider.launcher.checkpoint_volume
    return not workload.on_demand_only and workload.nodes <= provider.nodes_of_a_trial and lasts


EXPECTED_FOLDER = "providers/, workloads/, teams/ and thresholds.yaml"


def _where_to_begin(config: Path | None) -> str:
    if config is not None or os.environ.get("PLUMBLINE_CONFIG"):
        return ""
    return (
        f". Name yours by PLUMBLINE_CONFIG, or begin with a copy of the examples: cp -r {shlex.quote(str(example_declarations()))} config"
    )


def load(config: Path | None = None, *, generated: bool = False) -> Declarations:
    """Read every declaration below `config`, with the installation's `generated` providers; default: all of the installation's.
    Raises DeclarationError."""
    root = config or installation_paths().config
    problems: list[Problem] = []
    items: dict[str, dict[str, Any]] = {"providers": {}, "workloads": {}, "teams": {}, "contracts": {}}
    origin: dict[tuple[str, str], tuple[Path, dict[FieldPath, int]]] = {}
    if not root.is_dir():
        raise DeclarationError(
            [Problem(display_path(root), 1, "", f"is not a folder; expected one with {EXPECTED_FOLDER}{_where_to_begin(config)}")]
        )
    own = _own_metrics(root)
    defaults, wrong = read_optional(root / "defaults.yaml", LauncherDefaults)
    broken = bool(wrong)
    problems += wrong
    from_defaults: dict[str, tuple[str, ...]] = {}
    for folder, model in FOLDERS:
        group = folder.split("/")[0]
        for path in sorted((root / folder).glob("*.y*ml")):
            added: list[str] = []
            declared, lines, wrong = _read_file(path, model, root, defaults, added, own)
            # An invalid defaults.yaml is reported once, not also by the images that each provider then lacks.
            problems += [problem for problem in wrong if not (broken and problem.field == "launcher.images")]
            if declared is None:
                continue
            name = str(declared.name)  # type: ignore[attr-defined]
            if (group, name) in origin:
                first, first_lines = origin[group, name]
                where = f"{display_path(first)}:{first_lines.get(('name',), 1)}"
                problems.append(problem_at(path, lines, ("name",), f'"{name}" is already declared in {where}; expected another name'))
                continue
            if path.stem != name:
                problems.append(problem_at(path, lines, ("name",), f'"{name}" differs from the file name; expected "{path.stem}"'))
            origin[group, name] = (path, lines)
            items[group][name] = declared
            if added:
                from_defaults[name] = tuple(added)
    thresholds, _, wrong = _read_file(root / "thresholds.yaml", Thresholds, own=own)
    problems += wrong
    unread = {(folder.split("/")[0], path.stem) for folder, _ in FOLDERS for path in (root / folder).glob("*.y*ml")} - set(origin)
    problems += _place_clients(items["providers"], origin, unread)
    problems += _unknown_references(items, origin, unread)
    unread_names = {name for group, name in unread if group in ("providers", "workloads")}
    alerts, wrong = _referring_file(root / "alerts.yaml", Alerts, items, unread_names)
    problems += wrong
    economics, wrong = _referring_file(root / "economics.yaml", Economics, items, unread_names)
    problems += wrong
    upkeep, wrong = read_optional(root / "upkeep.yaml", Upkeep)
    problems += wrong
    references, wrong = read_optional(root / "references.yaml", References)
    problems += wrong
    problems += read_optional(root / dag_ids.FILE, dag_ids.AirflowNames)[1]
    if problems or thresholds is None:
        raise DeclarationError(problems)
    if (config is None or generated) and not is_team_server():
        items["providers"] |= _generated_providers(installation_paths().generated_providers, items)
    return Declarations(
        providers=items["providers"],
        workloads=items["workloads"],
        teams=items["teams"],
        contracts=items["contracts"],
        thresholds=thresholds,
        alerts=alerts,
        upkeep=upkeep,
        economics=economics,
        references=references,
        from_defaults=from_defaults,
    )


def _own_metrics(root: Path) -> tuple[Metric, ...]:
    """Metrics that workloads declare beside the catalogue: other files may name them. Of two with one name the first; the other is reported."""
    own: dict[str, Metric] = {}
    for path in sorted((root / "workloads/training").glob("*.y*ml"), reverse=True):
        with suppress(UnreadableYaml):  # reported where it is read
            own |= metrics_in(read_yaml(path)[0])
    return tuple(own[name] for name in sorted(own.keys() - METRICS.keys()))


def _generated_providers(folder: Path, items: dict[str, dict[str, Any]]) -> dict[str, Provider]:
    """Generated providers whose workloads exist and whose name is not declared. DeclarationError for an invalid file."""
    fitting = {}
    for path in sorted(folder.glob("*.yaml")):
        provider = load_file(path, Provider)
        if provider.name not in items["providers"] and set(provider.workloads or ()) <= set(items["workloads"]):
            fitting[provider.name] = provider
    return fitting


def read_optional(path: Path, model: type[Model]) -> tuple[Model, list[Problem]]:
    """An optional file without references to other files."""
    if not path.exists():
        return model(), []
    declared, _, wrong = _read_file(path, model)
    return declared if declared is not None else model(), wrong


def _referring_file(path: Path, model: type[Naming], items: dict[str, dict[str, Any]], unread: set[str]) -> tuple[Naming, list[Problem]]:
    """A file that may be left out and that names providers and workloads, with what it names in vain."""
    if not path.exists():
        return model(), []
    declared, lines, wrong = _read_file(path, model)
    if declared is None:
        return model(), wrong
    names = ({*items["providers"], *unread}, {*items["workloads"], *unread})
    return declared, [problem_at(path, lines, field, message) for field, message in declared.unknown_names(*names)]


def valid_by_themselves(
    root: Path, folder: str, model: type[Model], problems: Sequence[Problem]
) -> tuple[dict[str, Model], frozenset[str]]:
    """The files of a folder that are valid though `problems` were found in others, by name; and the names of all of its files."""
    wrong = {problem.file for problem in problems}
    defaults, _ = read_optional(root / "defaults.yaml", LauncherDefaults)
    own, valid, names = _own_metrics(root), {}, set()
    for path in (root / folder).glob("*.y*ml"):
        names.add(path.stem)
        declared = None if display_path(path) in wrong else _read_file(path, model, root, defaults, [], own)[0]
        if declared is not None and str(declared.name) == path.stem:  # type: ignore[attr-defined]
            valid[path.stem] = declared
    return valid, frozenset(names)


def load_file(path: Path, model: type[Model], root: Path | None = None) -> Model:
    """One file that a person names, as `model`; what it names lies beside it, or in folders of `root`. DeclarationError with all its problems."""
    declared, _, problems = _read_file(path, model, root) if path.is_file() else (None, {}, [Problem(str(path), 1, "", "is not a file")])
    if declared is None:
        raise DeclarationError(problems)
    return declared


def enabled_providers() -> tuple[Provider, ...]:
    return load().enabled_providers()


def _read_companions(data: Any, root: Path | None, declaration_file: Path) -> list[tuple[tuple[str | int, ...], str]]:
    """Add what a trial needs of the files that a workload names; problems by field."""
    folders = (root / name if root else declaration_file for name in ("traces", "prompts", "evaluations", "scripts"))
    traces, prompts, evaluations, scripts = folders
    return [
        *load_files(data, scripts),
        *load_trace_rows(data, traces),
        *load_prompts(data, prompts),
        *load_questions(data, evaluations),
        *load_passage(data, evaluations),
    ]


def _read_file(
    path: Path,
    model: type[Model],
    root: Path | None = None,
    defaults: LauncherDefaults | None = None,
    added: list[str] | None = None,
    own: tuple[Metric, ...] = (),
) -> tuple[Model | None, dict[FieldPath, int], list[Problem]]:
    """The file's declaration, the lines of its fields and its problems; adds a provider's fields from `defaults` to `added`.

    `root`: the declarations, with folders for traces, prompts, evaluations and scripts; None: all lie beside the file. `own`: metrics that
    workloads declare; a workload may name those of its own task alone."""
    try:
        data, lines = read_yaml(path)
    except UnreadableYaml as error:
        return None, {}, [Problem(display_path(path), error.line, error.field, str(error))]
    if secret := _secrets_in(json.dumps(data)):  # alone: other errors quote what they refuse
        return None, lines, [problem_at(path, lines, field, message) for field, message in secret]
    if model is TrainingWorkload:
        model = cast("type[Model]", class_of_training(data))
    if issubclass(model, Workload) and (unread := _read_companions(data, root, path.parent)):
        return None, lines, [problem_at(path, lines, field, message) for field, message in unread]
    if model is Provider and defaults is not None and added is not None:
        added += fill_in_defaults(data, defaults)
    try:
        # JSON mode: strict about types, yet lists become tuples and ISO dates dates.
        text = json.dumps(data)
        declared, secrets = _validated(model, text, () if issubclass(model, Workload) and not metrics_in(data) else own)
    except ValidationError as error:
        return None, lines, list(problems_of(path, model, data, lines, error))
    return None if secrets else declared, lines, [problem_at(path, lines, field, message) for field, message in secrets]


@lru_cache(maxsize=256)
def _secrets_in(text: str) -> tuple[SecretFound, ...]:
    """Secrets by their shape in a file's JSON, from a cache as `_validated` has one."""
    return tuple(secrets_of_data(json.loads(text)))


@lru_cache(maxsize=256)
def _validated(model: type[Model], text: str, own: tuple[Metric, ...]) -> tuple[Model, tuple[SecretFound, ...]]:
    """The instance of a text, and secrets by their names in it, from a cache: instances never change, and most files stay the same between
    readings."""
    declared = model.model_validate_json(text, context={CATALOGUE: with_own(own)})
    return declared, tuple(secrets_of_names(declared))


def _place_clients(
    providers: dict[str, Provider], origin: dict[tuple[str, str], tuple[Path, dict[FieldPath, int]]], unread: set[tuple[str, str]]
) -> list[Problem]:
    """Give each endpoint whose client is at another provider the launcher of both; problems of those where that cannot be."""
    problems, declared = [], dict(providers)
    for name, provider in declared.items():
        launcher = provider.launcher
        if not isinstance(launcher, EndpointLauncher) or (client := launcher.client) is None or ("providers", client.provider) in unread:
            continue
        if (other := declared.get(client.provider)) is None:
            placed: LauncherBase | str = unknown_name("provider", client.provider, declared)
        else:
            placed = with_client_at(launcher, client, other.launcher, f"{other.cloud} {other.region}")
        if isinstance(placed, str):
            problems.append(problem_at(*origin["providers", name], ("launcher", "client", "provider"), placed))
        else:
            providers[name] = provider.model_copy(update={"launcher": placed})
    return problems


def _unknown_references(
    items: dict[str, dict[str, Any]], origin: dict[tuple[str, str], tuple[Path, dict[FieldPath, int]]], unread: set[tuple[str, str]]
) -> Iterator[Problem]:
    """References to undeclared names, except of files that could not be read."""

    def missing(group: str, owner: str, field: FieldPath, wanted: str, kind: str, known: dict[str, Any]) -> Problem:
        return problem_at(*origin[group, owner], field, unknown_name(kind, wanted, known))

    workloads: dict[str, AnyWorkload] = items["workloads"]
    for name, workload in workloads.items():
        named: list[tuple[FieldPath, str]] = [(("providers", i), each) for i, each in enumerate(workload.providers or ())]
        relative = ((i, each) for i, each in enumerate(workload.acceptance) if isinstance(each, RelativeCriterion))
        named += [(("acceptance", i), each.provider) for i, each in relative if each.provider is not None]
        for field, provider in named:
            if provider not in items["providers"] and ("providers", provider) not in unread:
                yield missing("workloads", name, field, provider, "provider", items["providers"])
        judged: list[tuple[FieldPath, str]] = [(("acceptance", i), each.metric) for i, each in enumerate(workload.acceptance)]
        judged += [(("primary",), workload.primary.metric)] if workload.primary else []
        for field, metric in judged if workload.kind == "inference" else ():  # archived trials may have one, and are read
            if (refused := refused_run_cost([metric])) is not None:
                yield problem_at(*origin["workloads", name], field, refused)
    first: dict[str, tuple[str, ContainerMetric]] = {}
    for name, workload in workloads.items():
        for metric, own in workload.declared_metrics.items():
            owner, other = first.setdefault(metric, (name, own))
            if (other.unit, other.better) != (own.unit, own.better):
                expected = f"expected these, or another name: {owner} declares unit {other.unit}, better {other.better}"
                yield problem_at(
                    *origin["workloads", name], ("task", "metrics", metric), f"is in {own.unit}, better {own.better}; {expected}"
                )
    for name, place in items["providers"].items():
        references: list[tuple[FieldPath, str]] = [(("workloads", i), each) for i, each in enumerate(place.workloads or ())]
        references += [(("watch", "workloads", i), each) for i, each in enumerate(place.watch.workloads or ())]
        references += [(("sla", *where), each) for promise in PROMISES for where, each in promise.workloads(place.sla)]
        for field, workload_name in references:
            named_workload = workloads.get(workload_name)
            if named_workload is None and ("workloads", workload_name) not in unread:
                yield missing("providers", name, field, workload_name, "workload", items["workloads"])
            elif named_workload is not None and (why := incompatibility(named_workload, place)) is not None:
                sentence = f'"{workload_name}" does not fit the provider: {why}; expected one that fits'
                yield problem_at(*origin["providers", name], field, sentence)
    for name, place in items["providers"].items():
        for i, source in enumerate(place.price_sources):
            if (
                isinstance(source, ContractSource)
                and source.contract not in items["contracts"]
                and ("contracts", source.contract) not in unread
            ):
                yield missing("providers", name, ("price_sources", i, "contract"), source.contract, "contract", items["contracts"])
    for name, team in items["teams"].items():
        for kind in ("training", "inference"):
            known = {n: w for n, w in items["workloads"].items() if w.kind == kind}
            main = getattr(team, kind)
            choices: list[tuple[FieldPath, Preference]] = [((kind,), main)] if main else []
            choices += [(("also", kind, i), further) for i, further in enumerate(getattr(team.also, kind))]
            for where, preference in choices:
                place = preference.current
                if place is not None and place not in items["providers"] and ("providers", place) not in unread:
                    yield missing("teams", name, (*where, "current"), place, "provider", items["providers"])
                for i, workload_name in enumerate(preference.workloads):
                    if workload_name not in known and ("workloads", workload_name) not in unread:
                        yield missing("teams", name, (*where, "workloads", i), workload_name, f"{kind} workload", known)
