"""One check over every text of every declaration: fields are found by following the models, never listed."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel, Field

from plumbline.declarations import DeclarationError, load
from plumbline.declarations.base import Declared
from plumbline.declarations.cost_plan import CostPlan
from plumbline.declarations.loader import FILES, FOLDERS, load_file
from plumbline.declarations.secret_texts import (
    STEERING,
    SecretFound,
    is_secret_name,
    secret_in,
    secrets_of_data,
    secrets_of_names,
    text_problem,
)
from plumbline.declarations.workloads.container import ContainerWorkload
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.yaml_source import FieldPath, format_path

MODELS: tuple[type[BaseModel], ...] = (*(model for _, model in FOLDERS), *FILES.values(), ScriptWorkload, ContainerWorkload, CostPlan)
"""What the loader reads; further kinds of a field are found from these."""
PLANTED = "hf_" + "q" * 34
"""Apart, so that this file holds no key."""
SHAPED = {
    "a private key": "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE",
    "an AWS access key": "AKIA" + "IOSFODNN7EXAMPLE",
    "a Hugging Face token": PLANTED,
    "a GitHub token": "ghp_" + "a1" * 18,
    "a GitLab token": "glpat-" + "a1" * 10,
    "an API key of a model's provider": "sk-" + "ant-" + "a1" * 20,
    "a Slack token": "xoxb-" + "1" * 12,
    "a Slack webhook": "https://hooks.slack" + ".com/services/T0/B0/" + "a1" * 12,
    "a Google key": "AIza" + "a1" * 17 + "x",
    "an Azure key": "AccountKey=" + "a1" * 43 + "==",
    "a registry's or package index's token": "dckr_pat_" + "a1" * 12,
    "a JSON Web Token": "eyJ" + "a" * 12 + ".eyJ" + "b" * 12 + "." + "c" * 12,
    "a URL that has a user or password": "postgresql+psycopg://me:" + "hunter2@host/x",
    "a URL that has a query or a fragment with a key": "https://host/x?v=1&sig=" + "hunter2",
    "an Authorization header": "Bearer " + "a1" * 12,
}


def parts_of(annotation: Any, path: FieldPath, within: tuple[type, ...]) -> Iterator[tuple[str, FieldPath, tuple[type, ...]]]:
    """("text" or "names", path, models on the way) of all that an annotation can hold."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is str or (origin is None and isinstance(annotation, type) and issubclass(annotation, str)):
        yield "text", path, within
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in within:
            yield from fields_of(annotation, path, (*within, annotation))
    elif origin is Annotated:
        yield from parts_of(arguments[0], path, within)
    elif origin in (Union, types.UnionType):
        for each in arguments:
            yield from parts_of(each, path, within)
    elif origin is dict:
        yield "names", path, within
        yield from parts_of(arguments[1], (*path, "entry"), within)
    elif origin in (tuple, list, frozenset):
        for each in arguments[:1]:
            yield from parts_of(each, (*path, 0), within)
    elif origin is not Literal and "JsonValue" in repr(annotation):
        yield "text", path, within


def fields_of(
    model: type[BaseModel], path: FieldPath = (), within: tuple[type, ...] = ()
) -> Iterator[tuple[str, FieldPath, tuple[type, ...]]]:
    for name, info in model.model_fields.items():
        yield from parts_of(info.annotation, (*path, info.alias or name), within or (model,))


def paths(model: type[BaseModel], kind: str) -> list[FieldPath]:
    return list(dict.fromkeys(path for each, path, _ in fields_of(model) if each == kind))


def data_with(path: FieldPath, value: Any) -> Any:
    for part in reversed(path):
        value = [value] if isinstance(part, int) else {part: value}
    return value


@pytest.mark.fault("any text of any declaration holds a key", ends="refused", keeps="the key, which no message quotes")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_text_of_every_model_is_checked_at_load(model: type[BaseModel], tmp_path: Path) -> None:
    texts = paths(model, "text")
    for path in texts:
        file = tmp_path / "planted.yaml"
        file.write_text(yaml.safe_dump(data_with(path, f"see {PLANTED} of ours")))
        with pytest.raises(DeclarationError) as raised:
            load_file(file, model)
        [problem] = raised.value.problems
        assert problem.field == format_path(path) and "holds a Hugging Face token" in problem.message, path
        assert PLANTED not in str(raised.value)


def test_the_walk_finds_what_is_declared() -> None:
    texts = {model: paths(model, "text") for model in MODELS}
    assert sum(map(len, texts.values())) > 300
    assert ("task", "command", 0) in texts[ScriptWorkload] and ("task", "environment", "entry") in texts[ContainerWorkload]
    assert any(path[:3] == ("launcher", "serving", "env") for path in texts[FOLDERS[0][1]])
    assert any("triggers" in path for path in texts[FOLDERS[0][1]])


class Deeper(Declared):
    remark: str = ""
    settings: dict[str, str] = Field(default_factory=dict)


class Toy(Declared):
    """A kind of declaration, with fields that the check has never seen."""

    later: tuple[Deeper, ...] = ()
    anything: dict[str, Any] = Field(default_factory=dict)


def test_a_new_field_is_covered_by_itself(tmp_path: Path) -> None:
    assert paths(Toy, "text") == [("later", 0, "remark"), ("later", 0, "settings", "entry")]
    file = tmp_path / "toy.yaml"
    file.write_text(f"later:\n- remark: fine\n- remark: our {PLANTED}\n")
    with pytest.raises(DeclarationError, match=r"toy\.yaml:3  later\[1\]\.remark: holds a Hugging Face token"):
        load_file(file, Toy)
    file.write_text("later:\n- settings:\n    A: b\n    HF_TOKEN: hunter2\n")
    with pytest.raises(
        DeclarationError, match=r"toy\.yaml:4  later\[0\]\.settings\.HF_TOKEN: has the name of a secret and a value \(HF_TOKEN\)"
    ):
        load_file(file, Toy)
    file.write_text("anything: {env: [{name: DB_PASSWORD, value: hunter2}], authenticationRef: {name: keda-key}}\n")
    with pytest.raises(DeclarationError, match=r"anything\.env\[0\]\.value: has the name of a secret") as raised:
        load_file(file, Toy)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_names_in_every_mapping_of_every_model(model: type[BaseModel]) -> None:
    def built(at: type[BaseModel], path: FieldPath, within: tuple[type, ...], entries: dict[str, str]) -> Any:
        """The models on the way as instances, without their other fields."""
        value: Any = entries
        names = list(path)
        for each in reversed(within):
            while names:
                part = names.pop()
                if isinstance(part, int):
                    value = (value,)
                elif part in {info.alias or name for name, info in each.model_fields.items()}:
                    field = next(name for name, info in each.model_fields.items() if (info.alias or name) == part)
                    instance = each.__new__(each)
                    object.__setattr__(instance, "__dict__", {**dict.fromkeys(each.model_fields), field: value})
                    value = instance
                    break
                else:
                    value = {part: value}
        return value

    for kind, path, within in fields_of(model):
        if kind == "names":
            entries = {"HF_TOKEN": "hunter2", "LD_PRELOAD": "/tmp/x.so", "EOS_TOKEN": "</s>", "MODE": "fast"}
            found = list(secrets_of_names(built(model, path, within, entries)))
            assert [each.field for each in found] == [(*path, "HF_TOKEN"), (*path, "LD_PRELOAD")], (path, found)


@pytest.mark.parametrize(("what", "text"), SHAPED.items())
def test_shapes(what: str, text: str) -> None:
    assert secret_in(text) == secret_in(f"a note: {text}, and more") == what
    for quoted in (f'"{text}"', f"x='{text}'"):
        assert secret_in(quoted) == what


@pytest.mark.parametrize(
    "text",
    [
        *(
            "https://host:8443/v1",
            "s3://bucket/folder",
            "az://box@account/folder",
            "https://host/x?page=2",
            "git@host:team/repo",
            "me@host",
        ),
        *(
            "postgresql://me:$PASSWORD@host",
            "http://me:${KEY}@host",
            "hf_transfer",
            "sk-learn",
            "AKIA",
            "eyJ",
            "a Bearer of news",
            "0" * 64,
        ),
        *("python train.py --max-tokens 4096", "--eos-token endoftext", "python x --hf-token $HF_TOKEN", "--token-file /run/secrets/x"),
        *("HF_TOKEN=${HF_TOKEN} python x", "step (?P<step>[0-9]+) tokens=(?P<tokens>[0-9]+)", "secret handling is described in the wiki"),
        *("export AWS_PROFILE=team", "the password policy of the provider", "--api-key=$(cat /run/key)", "KEY_EVERY=1000000"),
    ],
)
def test_texts_that_hold_none(text: str) -> None:
    assert text_problem(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN=hunter22 python x",
        "sh -c 'export DB_PASSWORD=hunter22; run'",
        "run --api-key hunter22",
        "A_TOKEN='hunter22' x",
        "run --hf-token=hunter22",
    ],
)
def test_values_in_a_command(text: str) -> None:
    found = text_problem(text)
    assert found is not None and "a value in clear" in found and "hunter22" not in found


def test_an_option_and_its_value_apart() -> None:
    command = ["train", "--api-key", "hunter2", "--pad-token", "hunter2", "--token-file", "x", "--api-key", "$KEY", "--password"]
    assert [each.field for each in secrets_of_data({"command": command})] == [("command", 2)]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HF_TOKEN",
            "WANDB_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "PGPASSWORD",
            "MYSQL_PWD",
            "token",
            "authToken",
        ),
        *(
            "awsSecretAccessKey",
            "apiKey",
            "x-api-key",
            "Authorization",
            "AZURE_STORAGE_CONNECTION_STRING",
            "DB_PASSWD",
            "PLUMBLINE_FERNET_KEY",
        ),
    ],
)
def test_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "eos_token", "pad-token", "KEYBOARD", "SORT_KEY", "PWD", "PATIENCE", "PATTERN", "SIGNAL"],
)
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "HOME", "PLUMBLINE_REPORT", "BASH_ENV"])
def test_variables_that_steer(name: str) -> None:
    assert STEERING.fullmatch(name)
    [found] = secrets_of_names({"environment": {name: "x"}})
    assert found == SecretFound(
        ("environment", name), f"sets {name}, which puts other code in place of what is declared; expected it in the image or command"
    )


SCRIPT = """\
kind: training
name: own
version: 1
on_demand_only: true
needs: {accelerator: cpu}
task:
  kind: script
  command: [python, train.py]
  files: {source: git, url: "https://host/repo", commit: "0123456789012345678901234567890123456789"}
  report: {format: reporter}
  environment: {MODE: fast}
steps: {discard: 1, measure: 10}
repeats: {per_slot: 1, slots: ["02:00"]}
"""


@pytest.mark.fault("a task's environment has a secret, or LD_PRELOAD", ends="refused", keeps="the secret, which no message quotes")
@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        ("{MODE: fast}", "{HF_TOKEN: hunter2}", "11  task.environment.HF_TOKEN", "has the name of a secret and a value (HF_TOKEN)"),
        ("{MODE: fast}", "{LD_PRELOAD: /hunter2.so}", "11  task.environment.LD_PRELOAD", "sets LD_PRELOAD, which puts other code"),
        ("train.py]", "train.py, --hf-token, hunter2]", "8  task.command[3]", "gives hf-token a value in clear"),
        ("train.py]", "'-c', 'HF_TOKEN=hunter2 x']", "8  task.command[2]", "gives HF_TOKEN a value in clear"),
    ],
)
def test_a_task_is_refused_in_one_sentence(config: Path, old: str, new: str, where: str, said: str) -> None:
    (config / "workloads/training/own.yaml").write_text(SCRIPT)
    assert "own" in load(config).workloads
    (config / "workloads/training/own.yaml").write_text(SCRIPT.replace(old, new))
    with pytest.raises(DeclarationError) as raised:
        load(config)
    [problem] = raised.value.problems
    assert f"own.yaml:{where}" in str(problem) and said in problem.message and "hunter2" not in str(problem)


def test_all_problems_of_a_file_at_once(config: Path, broken: Callable[[str, str, str], Path]) -> None:
    (config / "workloads/training/own.yaml").write_text(SCRIPT.replace("{MODE: fast}", "{A_TOKEN: hunter2, B_TOKEN: hunter3}"))
    with pytest.raises(DeclarationError) as raised:
        load(config)
    assert [problem.field for problem in raised.value.problems] == ["task.environment.A_TOKEN", "task.environment.B_TOKEN"]
