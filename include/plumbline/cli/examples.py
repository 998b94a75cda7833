"""An example of each command and what comes after it, shown at the end of its `--help` and in the reference."""

from __future__ import annotations

from typing import Any, NamedTuple

from typer.core import TyperGroup


class Example(NamedTuple):
    line: str
    """What follows `plumbline`, with names of this repository's declarations where it needs some."""
    then: str
    """The command that people need next, and why."""


_ID = "01jq"  # how an id begins, of whatever kind
_TRIAL = "trial-20261121"

EXAMPLES = {
    # Measure
    "run": Example("run --repeats 1", "plumbline scorecard: the verdict again · plumbline findings: what drifted"),
    "trigger": Example("trigger local-2core --reason 'new kernel'", "plumbline status: what runs and what was lost"),
    "trial": Example("trial gpt-tiny-cpu --provider local", "plumbline replay TRIAL: is it repeated? · plumbline compare OLD NEW"),
    "load": Example("load http://127.0.0.1:8000/v1 --rate 20 --for 60s", "docs/declare-a-provider.md: declare it, to compare months"),
    "replay": Example(f"replay {_TRIAL}", "plumbline compare OLD NEW: effect and interval of each metric"),
    "watch": Example("watch local-2core --facts", "plumbline findings: what changed · plumbline trigger PROVIDER: measure it"),
    "accept": Example("accept local-2core --nodes all", "docs/acceptance.md: read the sheet, and send back what it names"),
    "serve": Example("serve chat-tiny-cpu", "plumbline load grpc://127.0.0.1:8001 --rate 20: load it from another terminal"),
    "rehearse": Example("rehearse --provider simulated-h100 --campaigns 2026-01..2026-06", "plumbline findings: what it found there"),
    "workload from-log": Example("workload from-log docs/samples/vllm.log --name our-chat", "plumbline check: what its months cost"),
    "workload new": Example("workload new --command 'python train.py' --folder ../training", "plumbline trial WORKLOAD --provider local"),
    "workload check-prompts": Example("workload check-prompts chat-prompts-cpu", "plumbline trial WORKLOAD --provider local"),
    "model add": Example("model add Qwen/Qwen2.5-0.5B-Instruct --name our-model", "plumbline check: which providers it fits"),
    # Read
    "status": Example("status --since monday", "plumbline findings: what is open, by money · plumbline decide: who is first, and how sure"),
    "scorecard": Example("scorecard -v", "plumbline decide: the same at today's prices · plumbline report: as a page for others"),
    "availability": Example("availability local-2core --month 2026-11", "plumbline promises PROVIDER: does it keep what it promised"),
    "promises": Example("promises", "plumbline findings claim FINDING: a letter with the evidence"),
    "scaling": Example("scaling", "plumbline scorecard CAMPAIGN -v: the other numbers · plumbline trigger PROVIDER: measure it again"),
    "places": Example("places", "plumbline compare OLD NEW: is the difference of two places shown"),
    "report": Example("report", "open the path that it prints · plumbline report --mail FILE: as a mail that you send"),
    "campaigns": Example("campaigns", "plumbline scorecard CAMPAIGN · plumbline compare OLD NEW"),
    "compare": Example("compare local-1core local-2core", "plumbline cost precision: how many repeats would settle it"),
    "drift detect": Example("drift detect --stdin --floor 0.05", "docs/compare.md: what a line of its output means"),
    # Decide
    "decide": Example("decide --team platform -v", "plumbline decide --keep: store it, and open a finding if the first choice changed"),
    "cost trial": Example(f"cost trial {_TRIAL}", "plumbline cost campaign: all of its campaign"),
    "cost campaign": Example("cost campaign --purchase spot", "plumbline cost month: what a month comes to"),
    "cost month": Example("cost month --month 2026-11", "plumbline cost reconcile INVOICE: against the bill"),
    "cost commitments": Example("cost commitments", "plumbline cost break-even PROVIDER WORKLOAD: is it worth renewing"),
    "cost reconcile": Example("cost reconcile invoice-2026-11.csv --record", "plumbline cost invoices: each that was compared"),
    "cost invoices": Example("cost invoices", "plumbline findings show FINDING: what a difference opened"),
    "cost scenarios": Example(
        "cost scenarios local-2core gpt-tiny-cpu", "plumbline cost tornado PROVIDER WORKLOAD: what moves the result most"
    ),
    "cost tornado": Example("cost tornado local-2core gpt-tiny-cpu", "declare what moves it most: docs/cost.md"),
    "cost spot": Example("cost spot local-2core gpt-tiny-cpu --run 500h", "plumbline prices list: spot prices of today"),
    "cost break-even": Example(
        "cost break-even local-2core gpt-tiny-cpu", "plumbline cost tornado PROVIDER WORKLOAD: what moves the result most"
    ),
    "cost precision": Example("cost precision", "plumbline trigger PROVIDER --repeats N: measure as many as it names"),
    "prices list": Example("prices list", "plumbline prices check: compare with those in use"),
    "prices check": Example("prices check", "plumbline prices accept PROVIDER --why REASON"),
    "prices accept": Example("prices accept local-2core --price 0.02 --why 'contract of 2027'", "plumbline decide: who is first now"),
    "budget": Example("budget", "docs/declare-a-provider.md#what-it-may-cost: raise or end it"),
    # Act
    "findings list": Example(
        "findings list --provider local-2core", "plumbline findings show FINDING: its evidence and the commands that answer it"
    ),
    "findings show": Example(
        f"findings show {_ID}", "one of the answers that it lists, such as plumbline findings accept FINDING --why REASON"
    ),
    "findings acknowledge": Example(
        f"findings acknowledge {_ID} --why 'on it'", "plumbline findings resolve FINDING --why REASON, when it is over"
    ),
    "findings snooze": Example(
        f"findings snooze {_ID} --until 14d --why 'fixed this week'", "plumbline findings snooze FINDING --until now ends it"
    ),
    "findings resolve": Example(
        f"findings resolve {_ID} --why 'node replaced'", "plumbline findings: what is still open; what shows again is a new finding"
    ),
    "findings accept": Example(
        f"findings accept {_ID} --why 'new driver stays'", "plumbline findings reopen FINDING --why REASON takes it back"
    ),
    "findings reject": Example(f"findings reject {_ID} --why 'ticket 4711'", "plumbline evidence export FINDING: what the provider needs"),
    "findings reopen": Example(f"findings reopen {_ID} --why 'accepted too early'", "plumbline findings show FINDING: its history"),
    "findings claim": Example(
        f"findings claim {_ID}", "read the letter, send it with its pack · plumbline log ticket PROVIDER: note the claim"
    ),
    "findings claimed": Example(
        f"findings claimed {_ID} --why 'ticket 4711'", "plumbline findings credited FINDING --why REASON, when it came"
    ),
    "findings credited": Example(
        f"findings credited {_ID} --why 'on the invoice of October'", "plumbline promises: what is still to claim"
    ),
    "findings refused": Example(f"findings refused {_ID} --why 'force majeure, clause 7'", "plumbline promises: what is still to claim"),
    "log": Example(
        "log incident local-2core --what 'no capacity' --opened 2026-11-02T10:00Z", "plumbline promises PROVIDER: what it means for them"
    ),
    "alerts preview": Example("alerts preview --example", "docs/alerts.md: connect Slack, choose channels and owners"),
    "alerts digest": Example("alerts digest --month 2026-11", "plumbline findings: the open ones"),
    "evidence export": Example(f"evidence export {_ID}", "docs/evidence-packs.md: how the other side verifies it"),
    "evidence key": Example("evidence key", "docs/evidence-packs.md: whom to give it to, and how to replace it"),
    # Operate
    "check": Example("check --all", "plumbline trial WORKLOAD --provider PROVIDER: the first measurement"),
    "doctor": Example("doctor", "the remedy beside each line that fails"),
    "selfcheck": Example("selfcheck", "docs/selfcheck.md: what each line proves"),
    "up": Example("up", "open the address that it prints · plumbline trigger PROVIDER --reason REASON"),
    "archive expire": Example("archive expire --dry-run", "plumbline archive expire --yes: delete what it lists"),
    "archive migrate": Example("archive migrate", "plumbline archive verify"),
    "archive size": Example("archive size", "plumbline archive expire --dry-run: what could go"),
    "archive backup": Example("archive backup archive.backup", "plumbline archive restore FILE, on another machine: try it once"),
    "archive restore": Example("archive restore archive.backup", "plumbline archive verify"),
    "archive import": Example(
        "archive import docs/samples/vllm-bench-0.32.0.json --from vllm-bench --provider local-2core --workload chat-tiny-cpu",
        "plumbline scorecard -v: it stands beside your own results",
    ),
    "archive import-mlperf": Example(
        "archive import-mlperf docs/samples/mlperf.csv", "plumbline scorecard -v: published results beside your own"
    ),
    "archive imports": Example("archive imports", "plumbline archive forget-import IMPORT --why REASON"),
    "archive forget-import": Example(f"archive forget-import {_ID} --why 'wrong model'", "plumbline archive imports: what is left"),
    "archive verify": Example("archive verify", "docs/operate.md#the-archive: what a broken row means"),
    "archive export": Example("archive export ../copy", "plumbline archive import FOLDER, at another installation"),
    "archive collect": Example("archive collect 2026-11", "plumbline scorecard CAMPAIGN"),
    "archive correct": Example(
        f"archive correct {_TRIAL} --reject --why 'node was shared'", "plumbline scorecard: computed again without it"
    ),
    "archive quarantine list": Example("archive quarantine list", "plumbline archive quarantine show ID: what is wrong with it"),
    "archive quarantine show": Example(f"archive quarantine show {_ID}", "plumbline archive quarantine retry ID, once that is mended"),
    "archive quarantine retry": Example("archive quarantine retry", "plumbline archive quarantine list: what is left"),
    "cluster kubeconfig": Example(
        "cluster kubeconfig example-lambda-h100 --as connection --out connection.json",
        "plumbline airflow connections import connection.json",
    ),
    "cluster doctor": Example("cluster doctor example-lambda-h100", "plumbline trial WORKLOAD --provider PROVIDER: the first measurement"),
    "cluster sweep": Example("cluster sweep example-lambda-h100", "plumbline cluster doctor PROVIDER: does it launch again"),
    "airflow init": Example("airflow init ../our-airflow --for astronomer", "plumbline doctor, in a worker there: what is missing"),
    "airflow": Example("airflow connections list", "plumbline doctor: is everything that the declarations name there"),
}
"""By the command's path."""


def with_examples(command: Any, path: str) -> Any:
    """The command with its example as the end of its help; a group's commands likewise."""
    if isinstance(command, TyperGroup):
        for name, found in command.commands.items():
            with_examples(found, f"{path} {name}")
    elif example := EXAMPLES.get(path):
        command.epilog = f"Example: plumbline {example.line}\n\nThen: {example.then}"
    return command
