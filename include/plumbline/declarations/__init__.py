"""Declarations: YAML files as frozen models, and the trial's specification."""

from typing import TYPE_CHECKING

from plumbline.on_demand import names_on_demand

if TYPE_CHECKING:
    from plumbline.declarations.alerts import Alerts, QuietHours, Route
    from plumbline.declarations.compatibility import incompatibility
    from plumbline.declarations.installation import InstallationPaths, installation_paths
    from plumbline.declarations.last_valid import load_in_force, load_upkeep
    from plumbline.declarations.loader import BrokenFiles, Declarations, enabled_providers, load
    from plumbline.declarations.problems import DeclarationError, Problem
    from plumbline.declarations.providers.contract import Contract
    from plumbline.declarations.providers.endpoint import EndpointLauncher
    from plumbline.declarations.providers.launchers import KubernetesLauncher, LocalLauncher
    from plumbline.declarations.providers.provider import Budget, Price, Provider
    from plumbline.declarations.providers.simulation import SimulatedLauncher
    from plumbline.declarations.teams import Preference, Team, parse_weights, with_weights
    from plumbline.declarations.thresholds import DriftRules, Thresholds, ValidityLimits
    from plumbline.declarations.trials import (
        HARNESS_PROTOCOL,
        Origin,
        Trial,
        canonical,
        criteria_hash,
        digest,
        series_key,
        spec_hash,
        trial_id,
    )
    from plumbline.declarations.workloads.any_workload import AnyWorkload
    from plumbline.declarations.workloads.container import ContainerWorkload
    from plumbline.declarations.workloads.inference import InferenceWorkload
    from plumbline.declarations.workloads.script import ScriptWorkload
    from plumbline.declarations.workloads.training import TrainingJob, TrainingWorkload
    from plumbline.declarations.workloads.workload import AnyCriterion, Criterion, RelativeCriterion
else:
    __getattr__ = names_on_demand(__name__)

__all__ = [
    "HARNESS_PROTOCOL",
    "Alerts",
    "AnyCriterion",
    "AnyWorkload",
    "BrokenFiles",
    "Budget",
    "ContainerWorkload",
    "Contract",
    "Criterion",
    "DeclarationError",
    "Declarations",
    "DriftRules",
    "EndpointLauncher",
    "InferenceWorkload",
    "InstallationPaths",
    "KubernetesLauncher",
    "LocalLauncher",
    "Origin",
    "Preference",
    "Price",
    "Problem",
    "Provider",
    "QuietHours",
    "RelativeCriterion",
    "Route",
    "ScriptWorkload",
    "SimulatedLauncher",
    "Team",
    "Thresholds",
    "TrainingJob",
    "TrainingWorkload",
    "Trial",
    "ValidityLimits",
    "canonical",
    "criteria_hash",
    "digest",
    "enabled_providers",
    "incompatibility",
    "installation_paths",
    "load",
    "load_in_force",
    "load_upkeep",
    "parse_weights",
    "series_key",
    "spec_hash",
    "trial_id",
    "with_weights",
]
