"""`plumbline model add`: declare a workload that serves a checkpoint."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

import typer

from plumbline.cli.declared import load_declared
from plumbline.cli.exit_status import FAILED
from plumbline.cli.output import Json, emit, err, fail, out
from plumbline.declarations import installation_paths
from plumbline.declarations.problems import display_path
from plumbline.declarations.workloads.models import ServingPrecision
from plumbline.harness.inference.checkpoint.contents import BrokenCheckpoint, Contents
from plumbline.harness.inference.checkpoint.sources import AccessRefused, FetchFailed
from plumbline.metrics.formatting import format_bytes, format_count
from plumbline.workflows import add_model
from plumbline.workflows.add_model import ProviderFit

model = typer.Typer(help="Inspect checkpoints and declare workloads that serve them.", no_args_is_help=True)


@model.command("add")
def add(
    source: Annotated[str, typer.Argument(help="owner/name of the hub, a URL such as s3://bucket/model, or a folder")],
    revision: Annotated[str | None, typer.Option(help="branch, tag or commit of the hub; its commit is declared")] = None,
    name: Annotated[str | None, typer.Option(help="the workload's name; from the model's if left out")] = None,
    precision: Annotated[ServingPrecision | None, typer.Option(help="that of the files if left out")] = None,
    context: Annotated[
        int | None, typer.Option(min=8, help="longest sequence in tokens; the template's, or the model's if that is shorter")
    ] = None,
    like: Annotated[
        str | None, typer.Option(help="the inference workload whose load and limits are taken; chat-8b-1gpu if left out")
    ] = None,
    mirror: Annotated[str | None, typer.Option(help="in place of the hub, as a provider's models_url")] = None,
    metadata_only: Annotated[
        bool, typer.Option("--metadata-only", help="fetch no weights; the manifest is then declared of hub models only")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="write over a workload of that name")] = False,
    as_json: Json = False,
) -> None:
    """Look at a checkpoint, say which providers it fits, fetch and hash it, and declare a workload that serves it.

    Configuration and safetensors headers are read first: a broken, gated or unknown model ends here. A gated model needs HF_TOKEN in the
    environment. The files go to the installation's cache, where trials on this machine find them.
    """
    try:
        declared = load_declared()
        template = add_model.template_of(declared, like)
        source_files = add_model.find_source(source, revision, mirror, os.environ.get("HF_TOKEN") or None)
        contents = add_model.look_at(source_files)
        err.print(_described(contents), style="dim")
        fetched = None if metadata_only else add_model.fetch_here(source_files, lambda text: err.print(text, style="dim"))
        manifest = add_model.listed_manifest(source_files) if fetched is None else fetched.manifest
        chosen = name or add_model.default_name(source_files)
        section = add_model.model_section(source_files, contents, manifest, template, precision, context)
        config = installation_paths().config
        text = add_model.declaration(
            config / "workloads" / "inference" / f"{template.name}.yaml", template, chosen, section, contents.quantised_to
        )
        path = add_model.write_declaration(config, chosen, text, contents, replace=replace)
        declared = load_declared()
    except FetchFailed as error:
        fail(str(error), FAILED)
    except BrokenCheckpoint as error:
        fail(f"{source}: {error}")
    except (AccessRefused, ValueError, OSError) as error:
        fail(str(error))
    workload = declared.inference_workloads[chosen]
    answer = Added(str(display_path(path)), chosen, section, list(add_model.provider_fits(workload, declared)))
    emit(as_json, answer, lambda: _show(answer))


@dataclass(frozen=True)
class Added:
    """`file`: the written declaration; `model`: its section."""

    file: str
    workload: str
    model: dict[str, object]
    providers: list[ProviderFit]


def _described(contents: Contents) -> str:
    experts = contents.experts
    parts = [
        ", ".join(contents.architectures) or contents.format,
        f"{contents.parameters:,} weights" if contents.parameters else "",
        f"{experts[1]} of {experts[0]} experts a token ({contents.active_parameters:,} weights)" if experts else "",
        format_bytes(contents.weights_bytes),
        contents.precision or "",
        f"context {contents.context:,}" if contents.context else "",
        "with a chat template" if contents.has_chat_template else "without a chat template",
    ]
    return ", ".join(part for part in parts if part)


def _show(answer: Added) -> None:
    out.print(f"Does {answer.workload} fit?", style="bold")
    rows = [row for row in answer.providers if row.enabled or row.why is None]
    width = max((len(row.provider) for row in rows), default=0)
    for row in rows:
        arithmetic = "" if row.fit is None or (row.why and row.fit.fits) else f": {row.fit.arithmetic}"
        out.print(f"  {row.provider:<{width}}  {_verdict(row)}{arithmetic}{'' if row.enabled else ' (disabled)'}")
    if others := len(answer.providers) - len(rows):
        out.print(f"  {format_count(others, 'disabled provider')} cannot run it (--json says why)")
    fitting = next((row.provider for row in rows if row.enabled and row.why is None and (row.fit is None or row.fit.fits)), "PROVIDER")
    out.print(f"wrote {answer.file}; next: plumbline trial {answer.workload} --provider {fitting}")


def _verdict(row: ProviderFit) -> str:
    """In words: whether weights and cache fit, then what else is against the provider."""
    fit = row.fit
    if fit is not None and not fit.fits:
        return f"no, but with needs.count {row.count}" if row.count else "no"
    if row.why is not None:
        return f"no: {row.why}"
    if fit is None:
        return "unknown: the provider declares no memory (accelerator.memory, or a known product)"
    sequences = fit.full_sequences
    return "yes" if sequences >= fit.sequences else f"yes, {sequences} of {fit.sequences} sequences at full length"
