"""The reports of plumbline_report from Hugging Face's Trainer, Lightning's and Accelerate. A class imports its library when it is named.

    transformers.Trainer(..., callbacks=[plumbline_callbacks.HuggingFace()])
    lightning.Trainer(..., callbacks=[plumbline_callbacks.Lightning(tokens=8192)])
    accelerate.Accelerator(log_with=plumbline_callbacks.Accelerate())

`tokens`, `samples`: what one step of the whole job does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

if __package__:
    from plumbline.reporter import plumbline_report as report
else:  # one of two files in a folder of PYTHONPATH
    import plumbline_report as report  # type: ignore[import-not-found,no-redef]


class _Loop:
    """A trainer's steps, each from the end of the one before, or of what came between, to its own: waiting for data is part of it."""

    def __init__(self, work: dict[str, float]) -> None:
        self.work, self.pending = work, None  # type: dict[str, float], dict[str, Any] | None
        self.mark = time.monotonic_ns()

    def begin(self, steps: int) -> None:
        self.mark = time.monotonic_ns()
        if steps:
            report.loaded(steps)

    def ended(self, number: int | None, work: dict[str, float] | None = None) -> None:
        self.flush()
        began, self.mark = self.mark, time.monotonic_ns()
        self.pending = {"began": began, "number": number, "ended": self.mark, **(self.work or work or {})}

    def flush(self, loss: Any = None) -> None:
        if self.pending is not None:
            report.step_done(loss=loss, **self.pending)
        self.pending = None

    def between(self, scores: Any = None) -> None:
        self.flush()
        if scores:
            report.evaluated(**{name: value for name, value in scores.items() if not isinstance(value, str)})
        self.mark = time.monotonic_ns()


def _hugging_face() -> type:
    from transformers import TrainerCallback

    class HuggingFace(TrainerCallback):  # type: ignore[misc]
        """Steps have a loss where the Trainer logs one."""

        def __init__(self, **work: float) -> None:
            self.loop = _Loop(work)

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.loop.begin(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.loop.ended(state.global_step - 1, {"samples": args.train_batch_size * args.gradient_accumulation_steps * args.world_size})

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if "loss" in (logs or {}):
                self.loop.flush(logs["loss"])

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
            self.loop.between(metrics)

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.loop.flush()
            if state.is_world_process_zero:
                report.checkpoint_saved(Path(args.output_dir) / f"checkpoint-{state.global_step}")
            self.loop.between()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.loop.flush()

    return HuggingFace


def _lightning() -> type:
    from lightning.pytorch.callbacks import Callback

    class Lightning(Callback):  # type: ignore[misc]
        """A step is one of the optimizer. The harness sees checkpoints from their files."""

        def __init__(self, **work: float) -> None:
            self.loop, self.done, self.saved = _Loop(work), 0, False

        def on_train_start(self, trainer: Any, module: Any) -> None:
            self.done = trainer.global_step
            self.loop.begin(self.done)

        def on_train_batch_start(self, *args: Any) -> None:
            if self.saved:
                self.saved = False
                self.loop.between()

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *args: Any) -> None:
            if trainer.global_step > self.done:
                self.done = trainer.global_step
                self.loop.ended(self.done - 1)
                self.loop.flush(outputs["loss"] if isinstance(outputs, dict) else outputs)

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            if not trainer.sanity_checking:
                self.loop.between(trainer.callback_metrics)

        def on_save_checkpoint(self, *args: Any) -> None:
            self.saved = True

    return Lightning


def _accelerate() -> type:
    from accelerate.tracking import GeneralTracker

    class Accelerate(GeneralTracker):  # type: ignore[misc]
        """What is logged with a loss or train_loss is a step, all else an evaluation."""

        name = "plumbline"
        requires_logging_directory = False
        tracker = report

        def __init__(self, **work: float) -> None:
            super().__init__()
            self.loop = _Loop(work)

        def store_init_configuration(self, values: Any) -> None:
            self.loop.begin(0)

        def log(self, values: Any, step: int | None = None, **kwargs: Any) -> None:
            loss = values.get("loss", values.get("train_loss"))
            if loss is None:
                self.loop.between(values)
            else:
                self.loop.ended(step)
                self.loop.flush(loss)

    return Accelerate


def __getattr__(name: str) -> Any:
    made = {"HuggingFace": _hugging_face, "Lightning": _lightning, "Accelerate": _accelerate}.get(name)
    if made is None:
        raise AttributeError(name)
    return made()
