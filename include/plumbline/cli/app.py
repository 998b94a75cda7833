"""The `plumbline` command: one entry per job, grouped as people meet them."""

from __future__ import annotations

import typer

from plumbline.cli import (
    airflow,
    alerts,
    archive,
    archive_mlperf,
    campaign,
    check,
    cluster,
    comparing,
    cost,
    cost_outlook,
    cost_precision,
    decide,
    demo,
    demo_watch,
    doctor,
    drift_detect,
    evidence,
    findings,
    prices,
    prices_check,
    prices_replay,
    rehearse,
    scorecard,
    selfcheck,
    serve,
    trial,
    trigger,
    watch,
)
from plumbline.cli.output import EXIT_CODES

app = typer.Typer(
    name="plumbline",
    help="Benchmarks AI cloud providers, training and inference apart, and says with evidence when one has drifted.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold passwords
)
app.command()(check.check)
app.command()(doctor.doctor)
app.command()(campaign.run)
app.command()(campaign.up)
app.command()(trigger.trigger)
app.command()(trigger.budget)
app.command()(watch.watch)
app.command("demo-drift")(demo.demo_drift)
app.command("demo-watch")(demo_watch.demo_watch)
app.command()(rehearse.rehearse)
app.command()(selfcheck.selfcheck)
app.command()(trial.trial)
app.command()(trial.replay)
app.command()(serve.serve)
app.command()(scorecard.campaigns)
app.command()(scorecard.scorecard)
app.command()(scorecard.report)
app.command()(comparing.compare)
app.command()(decide.decide)
cost.cost.command("scenarios")(cost_outlook.scenarios)
cost.cost.command("tornado")(cost_outlook.tornado)
cost.cost.command("spot")(cost_outlook.spot)
cost.cost.command("break-even")(cost_outlook.break_even)
cost.cost.command("precision")(cost_precision.precision)
app.add_typer(cost.cost, name="cost")
app.add_typer(findings.findings, name="findings")
app.add_typer(alerts.alerts, name="alerts")
archive.archive.command("import-mlperf")(archive_mlperf.import_mlperf)
app.add_typer(archive.archive, name="archive")
app.add_typer(evidence.evidence, name="evidence")
app.command(context_settings=airflow.ANY_WORDS)(airflow.airflow)
app.add_typer(drift_detect.drift, name="drift")
prices.prices.command("check")(prices_check.check_prices)
prices.prices.command("accept")(prices_check.accept)
prices.prices.command("replay")(prices_replay.replay_prices)
app.add_typer(prices.prices, name="prices")
app.add_typer(cluster.cluster, name="cluster")
