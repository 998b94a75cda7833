"""Charts of training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plumbline.reports.chart import Chart, axis, colour, rounded
from plumbline.reports.evidence import Run, thinned
from plumbline.reports.figures import scale


def step_times(key: str, suffix: str, providers: Sequence[str], runs: Sequence[Run]) -> Chart | None:
    """Every step of every repeat, one line each; None without evidence."""
    if not runs:
        return None
    everything = np.concatenate([r.seconds for r in runs])
    shown = scale("s", [float(np.median(everything))], "step_time")
    ceiling = float(np.percentile(np.concatenate([r.seconds[r.steps >= r.steady_from] for r in runs]), 99.5)) * 1.25
    above = int((everything > ceiling).sum())
    data = []
    for run in runs:
        paint, dash, _ = colour(providers, run.provider)
        kept = thinned(run.seconds)
        first = run is next(r for r in runs if r.provider == run.provider)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": run.steps[kept].astype(int).tolist(),
                "y": rounded(run.seconds[kept] / shown.factor),
                "name": run.provider,
                "legendgroup": run.provider,
                "showlegend": first,
                "line": {"color": paint, "width": 1.3, "dash": dash},
                "opacity": 0.85,
                "hovertemplate": f"{run.provider}<br>step %{{x}}: %{{y:.4g}} {shown.suffix}<extra>{run.trial_id.rsplit('.', 1)[-1]}</extra>",
            }
        )
    outside = f" {above} slower {'step lies' if above == 1 else 'steps lie'} above the picture (double-click shows all)." if above else ""
    start = max(r.steady_from for r in runs)
    return Chart(
        name=f"{key}-steps",
        section="training",
        title=f"Step time over the run{suffix}",
        caption=f"Every step of every usable repeat, one line each. The shaded start is warm-up and counts in no steady number.{outside}",
        data=data,
        layout={
            "xaxis": axis("step"),
            "yaxis": axis(f"step time ({shown.suffix})", range=[0, ceiling / shown.factor]),
            "shapes": [
                {
                    "type": "rect",
                    "xref": "x",
                    "yref": "paper",
                    "x0": 0,
                    "x1": start,
                    "y0": 0,
                    "y1": 1,
                    "fillcolor": "$band",
                    "line": {"width": 0},
                    "layer": "below",
                }
            ],
            "hovermode": "closest",
        },
        wide=True,
    )
