"""The prompts that a workload brings: where they come from, their format, which of them are sent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from plumbline.declarations.base import Declared
from plumbline.declarations.workloads import Seed

MAX_PROMPTS = 100_000
DEFAULT_PROMPT_TOKENS = 512
"""For forecasts, where nothing is known of the prompts' lengths."""

PRIVATE_FOLDER = "PROMPTS_FOLDER"
"""The variable that names the folder with private prompt files where the trial runs; the installation's own prompts/ if unset."""

PromptFormat = Literal["text", "messages", "sharegpt"]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_PATH = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*\.(jsonl|json|txt)$"


class _Prompts(Declared):
    """`format`: text (a line of a .txt file, or `prompt` or `text` of a JSON object), messages (`messages` with `role` and `content`), or
    sharegpt (`conversations` with `from` and `value`). `private`: documents, evidence and errors hold hashes and lengths, never text."""

    format: PromptFormat
    sample: int | None = Field(None, ge=1, le=MAX_PROMPTS, description="how many of them are used, drawn by `seed`; all if omitted")
    seed: Seed = 7
    private: bool = False
    expected_tokens: int | None = Field(
        None, ge=1, le=16_777_216, description="of a mean prompt, for cost forecasts; of a file a quarter of its characters if omitted"
    )

    @property
    def folder_variable(self) -> str | None:
        """The variable that must name the file's folder where the trial runs elsewhere; None if the trial brings or fetches the prompts."""
        return None


class FilePrompts(_Prompts):
    """A file in `prompts/` beside the declarations. When declarations are read, `sha256` (of the file), `selection` (SHA-256 of the sampled
    prompts) and, unless they are private, `content` (the sampled prompts, compressed) are added, so that a trial carries its prompts."""

    source: Literal["file"]
    path: str = Field(pattern=_PATH)
    sha256: _Sha256 | None = None
    selection: _Sha256 | None = None
    content: str | None = Field(None, repr=False)

    @property
    def folder_variable(self) -> str | None:
        """See _Prompts."""
        return PRIVATE_FOLDER if self.private else None


class UrlPrompts(_Prompts):
    """A file of any file system that fsspec knows (s3://, gs://, az://, https:// …), fetched by the trial and checked against `sha256`."""

    source: Literal["url"]
    url: str = Field(pattern=r"^[a-z][a-z0-9+.-]*://.+\.(jsonl|json|txt)$")
    sha256: _Sha256


class HubPrompts(_Prompts):
    """A file of a dataset of the Hugging Face hub, fetched by the trial."""

    source: Literal["hub"]
    id: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="owner/name of the dataset")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="the commit: a branch moves, and a series must not")
    path: str = Field(pattern=_PATH, description="the file in the dataset's repository")
    sha256: _Sha256 | None = None


PromptSet = Annotated[FilePrompts | UrlPrompts | HubPrompts, Field(discriminator="source")]


def file_name(prompts: PromptSet) -> str:
    """The file's name in messages."""
    return prompts.url.rpartition("/")[2] if isinstance(prompts, UrlPrompts) else prompts.path
