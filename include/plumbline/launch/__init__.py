"""From a planned trial to a result in the store: plan it, launch it, classify what became of it, collect it.

| module | what it does |
|---|---|
| `plan` | declarations × what was asked for → a flat list of trials, hashed before anything runs |
| `month` | what a provider's monthly rerun comes to: trials, node hours, money; what nobody measures |
| `local_gpu` | the GPUs of this machine as a declared provider |
| `base` | what a launcher is; which launcher drives which provider |
| `local`, `endpoint` | the launchers whose trials are processes here: the provider is this machine, or a hosted model |
| `this_machine` | a trial as a process on this machine |
| `process`, `keeper`, `machine_lock`, `environment`, `outcome` | the parts of it |
| `failures` | a typed exception for each failure class, and which of them are worth another try |
| `timeline` | the metrics that only the outside of a trial can see |
| `collect` | one document for each attempt, whatever became of it |
| `orphans` | ends what a killed launcher left behind |
"""

from plumbline.launch.base import Launcher, PlanError, launcher_for
from plumbline.launch.plan import Request, plan

__all__ = ["Launcher", "PlanError", "Request", "launcher_for", "plan"]
