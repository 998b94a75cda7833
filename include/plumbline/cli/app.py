"""The `plumbline` command: one entry per job, grouped as people meet them."""

from __future__ import annotations

import typer

from plumbline.cli import (
    alerts,
    archive,
    campaign,
    check,
    cluster,
    compare,
    cost,
    cost_forecast,
    decide,
    demo,
    environment,
    findings,
    prices,
    scorecard,
    trial,
    trigger,
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
app.command("doctor")(cluster.doctor_installation)
app.command()(campaign.run)
app.command()(campaign.up)
app.command()(trigger.trigger)
app.command()(trigger.budget)
app.command()(environment.watch)
app.command("demo-drift")(demo.demo_drift)
app.command("demo-watch")(demo.demo_watch)
app.command()(demo.rehearse)
app.command()(trial.selfcheck)
app.command()(trial.trial)
app.command()(trial.replay)
app.command()(trial.serve)
app.command()(scorecard.campaigns)
app.command()(scorecard.scorecard)
app.command()(scorecard.report)
app.command()(compare.compare)
app.command()(decide.decide)
cost.cost.command("scenarios")(cost_forecast.scenarios)
cost.cost.command("tornado")(cost_forecast.tornado)
cost.cost.command("spot")(cost_forecast.spot)
cost.cost.command("break-even")(cost_forecast.break_even)
cost.cost.command("precision")(cost_forecast.precision)
app.add_typer(cost.cost, name="cost")
app.add_typer(findings.findings, name="findings")
app.add_typer(alerts.alerts, name="alerts")
archive.archive.command("import-mlperf")(archive.import_mlperf)
app.add_typer(archive.archive, name="archive")
app.add_typer(findings.evidence, name="evidence")
app.command(context_settings=campaign.ANY_WORDS)(campaign.airflow)
app.add_typer(compare.drift, name="drift")
prices.prices.command("check")(prices.check_prices)
prices.prices.command("accept")(prices.accept)
prices.prices.command("replay")(prices.replay_prices)
app.add_typer(prices.prices, name="prices")
app.add_typer(cluster.cluster, name="cluster")
