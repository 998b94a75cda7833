"""Secrets in what is declared: one check, of names and of texts, that goes over every field of every declaration.

Declarations, documents, pages and packs are read by many: a key in one of them is public. The check follows the models and their data, so
that a new field is covered without an edit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from plumbline.declarations.urls import url_refusal
from plumbline.declarations.yaml_source import FieldPath

_SHAPES: tuple[tuple[str, str], ...] = (
    ("a private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\r|\\n)+[A-Za-z0-9+/]"),
    ("an AWS access key", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    ("a Hugging Face token", r"\bhf_[A-Za-z0-9]{30,}\b"),
    ("a GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})\b"),
    ("a GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    (
        "an API key of a model's provider",
        r"\b(?:sk-(?:ant-|proj-|or-v1-|svcacct-)?[A-Za-z0-9_-]{32,}|nvapi-[A-Za-z0-9_-]{40,}|gsk_[A-Za-z0-9]{40,})",
    ),
    ("a Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{12,}"),
    ("a Slack webhook", r"\bhooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_-]+/[A-Za-z0-9_-]+/[A-Za-z0-9]{16,}"),
    ("a Google key", r"\bAIza[A-Za-z0-9_-]{35}|\bya29\.[A-Za-z0-9_-]{30,}"),
    ("an Azure key", r"\b(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{40,}={0,2}"),
    ("a registry's or package index's token", r"\b(?:dckr_pat_[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{36}|pypi-AgE[A-Za-z0-9_-]{50,})"),
    ("a JSON Web Token", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("a URL that has a user or password", r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@:\"'<>{}$*]*:[^\s/?#@\"'<>{}$*]+@[A-Za-z0-9\[]"),
    (
        "a URL that has a query or a fragment with a key",
        r"://[^\s\"']*[?&](?:sig|token|key|api_?key|access_?token|x-amz-(?:signature|credential|security-token)|x-goog-signature|password)"
        r"=[A-Za-z0-9%+/_.-]{6,}",
    ),
    (
        "an Authorization header",
        r"(?i)\b(?:bearer|basic)[ ]+(?=[A-Za-z0-9+/_.-]*[0-9])(?=[A-Za-z0-9+/_.-]*[A-Za-z])[A-Za-z0-9+/_.-]{20,}={0,2}",
    ),
)
"""What is found, and its shape. Each is of a form that other text does not have by chance."""
_SHAPED = tuple((what, re.compile(shape)) for what, shape in _SHAPES)
_HINTS = re.compile(
    r"-----BEGIN|AKIA|ASIA|hf_|gh[pousr]_|github_pat_|glpat-|sk-|nvapi-|gsk_|xox[abeoprs]-|hooks\.slack|AIza|ya29\.|AccountKey|SharedAccessKey"
    r"|dckr_pat_|npm_|pypi-AgE|eyJ|://|[Bb]earer|BEARER|[Bb]asic |BASIC "
)
"""One of these is in every text that has a shape: most texts are read once."""

_SECRET = re.compile(
    r"secret|passw(or)?d|passphrase|credential|authorization|cookie|apikey|signature|(?<=_)pwd(_|$)|(^|_)(sig|pat)(_|$)|connection_string"
    r"|(api|access|private|account|shared|signing|encryption|fernet|subscription|ssh)_key"
)
_TOKEN = re.compile(r"(?:(?:^|_)([a-z0-9]*)_)?[a-z0-9]*?token(?:_|$)")
_OF_TEXTS = frozenset(
    (
        "audio",
        "begin",
        "bos",
        "cls",
        "end",
        "eos",
        "first",
        "image",
        "last",
        "mask",
        "max",
        "min",
        "new",
        "next",
        "num",
        "pad",
        "per",
        "sep",
    )
) | frozenset(("special", "start", "stop", "think", "unk", "video"))
"""Words before `token` that make it one of a tokenizer."""
_REFERS = re.compile(r"_(from_env|env|file|path|dir|name|ref|ref_name|id_file|url|header|type)$")
"""Ends of names whose value says where a secret is, not what it is."""
_PLAIN = re.compile(
    r"\s*|[-+]?[0-9][0-9_.,]*([eE][-+]?[0-9]+)?|true|false|yes|no|none|null|on|off|auto|default|\*+|x+|…|\.\.\.", re.IGNORECASE
)
_REFERENCE = re.compile(r"[$/{<%(@]|\.\.?/|~/")
"""Where a value begins that names another place: a variable, a path, a placeholder."""
_ASSIGNED = re.compile(r"(?<![A-Za-z0-9_.-])(?:--?)?([A-Za-z][A-Za-z0-9_.-]{1,80})=[\"']?([^\s\"';,|&)]{6,})")
_FOLLOWED = re.compile(r"(?<!\S)--?([A-Za-z][A-Za-z0-9_.-]{1,80})\s+[\"']?([^\s\"';,|&)-][^\s\"';,|&)]{5,})")
_OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_.-]{1,80})")

STEERING = re.compile(
    r"LD_PRELOAD|LD_AUDIT|PATH|HOME|TMPDIR|BASH_ENV|IFS|SHELLOPTS|PYTHONHOME|PYTHONSTARTUP|PYTHONINSPECT|NODE_OPTIONS|PLUMBLINE_.*"
)
"""Variables that put other code in place of what is declared, or that are the harness's own."""


class SecretFound(NamedTuple):
    """Where something is that must not be there, and the problem in a sentence, which does not quote it."""

    field: FieldPath
    problem: str


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").replace(".", "_").lower()


def is_secret_name(name: str) -> bool:
    """Whether a variable, header, key or option is named like one that holds a secret; in any spelling, also camelCase."""
    words = _words(name)
    if _SECRET.search(words):
        return True
    return (found := _TOKEN.search(words)) is not None and found.group(1) not in _OF_TEXTS


def secret_in(text: str) -> str | None:
    """What a text holds by its shape, in words; None if nothing is known against it."""
    if not _HINTS.search(text):
        return None
    return next((what for what, shape in _SHAPED if shape.search(text)), None)


def _is_given(name: str, value: str) -> bool:
    """Whether a name and its value are a secret: neither a reference to one, nor a number or a word that could be none."""
    return is_secret_name(name) and not _REFERS.search(_words(name)) and not _PLAIN.fullmatch(value) and not _REFERENCE.match(value)


def _given_in(text: str) -> str | None:
    """The name to which a command's text gives a secret, as NAME=VALUE or --name value."""
    given = (found.groups() for shape in (_ASSIGNED, _FOLLOWED) for found in shape.finditer(text))
    return next((name for name, value in given if _is_given(name, value)), None)


def text_problem(text: str) -> str | None:
    """What is wrong with one declared text, in words; None if nothing is."""
    if (what := secret_in(text)) is not None:
        return f"holds {what}"
    return None if (name := _given_in(text)) is None else f"gives {name} a value in clear"


_EXPECTED = (
    "which documents, pages and packs would show; expected it in a connection of Airflow or a Secret of the namespace "
    "(valueFrom in pod_patch), and here no value"
)


def secrets_of_data(data: Any, field: FieldPath = ()) -> Iterator[SecretFound]:
    """Every text below a value as it is read from YAML or JSON, whatever field it is of, that holds a secret by its shape."""
    if isinstance(data, str):
        if (problem := text_problem(data)) is not None:
            whole = url_refusal(data) if re.fullmatch(r"\S+://\S+", data) else None
            yield SecretFound(field, whole or f"{problem}, {_EXPECTED}")
    elif isinstance(data, Mapping):
        for name, value in data.items():
            if secret_in(str(name)) is not None:
                yield SecretFound(field, f"has a key that holds {secret_in(str(name))}, {_EXPECTED}")
            yield from secrets_of_data(value, (*field, name))
    elif isinstance(data, Sequence):
        before: str | None = None
        for number, value in enumerate(data):
            option = _OPTION.fullmatch(before) if before is not None else None
            before = value if isinstance(value, str) else None
            if option is not None and before is not None and not before.startswith("-") and _is_given(option.group(1), before):
                yield SecretFound((*field, number), f"gives {option.group(1)} a value in clear, {_EXPECTED}")
                continue
            yield from secrets_of_data(value, (*field, number))


def secrets_of_names(declared: object, field: FieldPath = ()) -> Iterator[SecretFound]:
    """Every entry below a declaration whose name is not a field of ours (a variable, a header, a trigger's key) and is that of a secret or
    one of STEERING: found by following the models."""
    if isinstance(declared, BaseModel):
        for name, info in type(declared).model_fields.items():
            yield from secrets_of_names(getattr(declared, name), (*field, info.alias or name))
    elif isinstance(declared, Mapping):
        yield from _of_entries(declared, field)
    elif isinstance(declared, Sequence) and not isinstance(declared, str | bytes):
        for number, value in enumerate(declared):
            yield from secrets_of_names(value, (*field, number))


def _of_entries(entries: Mapping[Any, Any], field: FieldPath) -> Iterator[SecretFound]:
    named, value = entries.get("name"), entries.get("value")
    pairs = [("value", named, value)] if isinstance(named, str) and isinstance(value, str) else []  # of Kubernetes
    for where, name, given in (*pairs, *((key, key, each) for key, each in entries.items())):
        if isinstance(given, str) and isinstance(name, str):
            if STEERING.fullmatch(name):
                yield SecretFound(
                    (*field, where), f"sets {name}, which puts other code in place of what is declared; expected it in the image or command"
                )
            elif _is_given(name, given):
                yield SecretFound((*field, where), f"has the name of a secret and a value ({name}), {_EXPECTED}")
    for key, each in entries.items():
        yield from secrets_of_names(each, (*field, key))
