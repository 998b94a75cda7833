"""docs/cost-scenarios.md: its example is right, and it names every key."""

from __future__ import annotations

import json
import re

import yaml

from plumbline.declarations.economics import Assumption, Economics, HostedModel, SpotRate
from plumbline.declarations.installation import REPOSITORY


def test_the_page_shows_a_file_that_is_right_and_every_key() -> None:
    page = (REPOSITORY / "docs" / "cost-scenarios.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    shown = Economics.model_validate_json(json.dumps(yaml.safe_load(example), default=str))
    assert len(shown.assumptions) == 2 and shown.spot and len(shown.hosted) == 2
    for model in (Economics, Assumption, SpotRate, HostedModel):
        assert [name for name in model.model_fields if name not in page] == []
