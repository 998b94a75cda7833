"""A hosted model is a provider too: for inference only, with no key in its URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plumbline.declarations import DeclarationError, EndpointLauncher, load, misfit
from plumbline.launch.base import PlanError, require_launcher
from plumbline.orchestration.defaults import launch_settings

HERE = "providers/here.yaml"
LOCAL = "{kind: local, cpus: [0], memory: 4GiB, timeout: 10min}"
HOSTED = "{kind: endpoint, url: '%s', protocol: openai, connection: hosted_key}"

Break = Callable[[str, str, str], Path]


def test_an_endpoint_answers_inference_and_is_never_asked_to_train(broken: Break) -> None:
    declared = load(broken(HERE, LOCAL, HOSTED % "https://api.example.com/v1"))
    provider = declared.providers["here"]
    assert isinstance(provider.launcher, EndpointLauncher)
    assert misfit(declared.workloads["chat"], provider) is None
    assert misfit(declared.workloads["gpt"], provider) == "it is training, and an endpoint only answers inference requests"


def test_its_client_shares_the_machine_with_local_trials(broken: Break) -> None:
    provider = load(broken(HERE, LOCAL, HOSTED % "https://api.example.com/v1")).providers["here"]
    assert provider.pool == "plumbline_this-machine"
    assert launch_settings(provider)["pool"] == provider.pool


def test_a_plan_that_names_it_is_refused_until_there_is_a_launcher(broken: Break) -> None:
    provider = load(broken(HERE, LOCAL, HOSTED % "https://api.example.com/v1")).providers["here"]
    with pytest.raises(PlanError, match='"here" is reached by the launcher "endpoint", which this version cannot drive'):
        require_launcher(provider)


@pytest.mark.parametrize(
    ("launcher", "said"),
    [
        (HOSTED % "http://api.example.com/v1", "would send the key of hosted_key in clear; expected https://"),
        (HOSTED % "grpcs://api.example.com", "does not carry openai; expected http:// or https://"),
        ("{kind: endpoint, url: https://api.example.com, protocol: kserve_grpc}", "expected grpc:// or grpcs://"),
        (HOSTED % "https://me:secret@api.example.com", "launcher.url"),
        (HOSTED % "https://api.example.com/v1?key=secret", "launcher.url"),
        ("{kind: endpoint, url: https://api.example.com, protocol: rest}", "launcher.protocol"),
    ],
)
def test_what_could_not_work_or_would_leak_a_key_is_refused(broken: Break, launcher: str, said: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        load(broken(HERE, LOCAL, launcher))
    assert len(raised.value.problems) == 1
    assert said in str(raised.value)
