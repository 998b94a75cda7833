"""What people declare: providers, workloads, teams, thresholds; and what is asked of the harness, a trial.

The ground floor: it imports nothing of ours.
"""

from plumbline.declarations.alerts import Alerts, QuietHours, Route
from plumbline.declarations.budget import Budget
from plumbline.declarations.contract import Contract
from plumbline.declarations.criteria import Criterion
from plumbline.declarations.inference import InferenceWorkload
from plumbline.declarations.launchers import EndpointLauncher, KubernetesLauncher, LocalLauncher
from plumbline.declarations.loader import AnyWorkload, DeclarationError, Declarations, Problem, enabled_providers, load, load_upkeep, misfit
from plumbline.declarations.metrics import METRICS, Metric, metric
from plumbline.declarations.places import Places, places
from plumbline.declarations.provider import Price, Provider
from plumbline.declarations.simulation import SimulatedLauncher
from plumbline.declarations.team import Preference, Team, with_weights
from plumbline.declarations.thresholds import DriftRules, Thresholds, ValidityLimits
from plumbline.declarations.training import TrainingWorkload
from plumbline.declarations.trial import HARNESS_PROTOCOL, Origin, Trial, canonical, criteria_hash, digest, series_key, spec_hash, trial_id

__all__ = [
    "HARNESS_PROTOCOL",
    "METRICS",
    "Alerts",
    "AnyWorkload",
    "Budget",
    "Contract",
    "Criterion",
    "DeclarationError",
    "Declarations",
    "DriftRules",
    "EndpointLauncher",
    "InferenceWorkload",
    "KubernetesLauncher",
    "LocalLauncher",
    "Metric",
    "Origin",
    "Places",
    "Preference",
    "Price",
    "Problem",
    "Provider",
    "QuietHours",
    "Route",
    "SimulatedLauncher",
    "Team",
    "Thresholds",
    "TrainingWorkload",
    "Trial",
    "ValidityLimits",
    "canonical",
    "criteria_hash",
    "digest",
    "enabled_providers",
    "load",
    "load_upkeep",
    "metric",
    "misfit",
    "places",
    "series_key",
    "spec_hash",
    "trial_id",
    "with_weights",
]
