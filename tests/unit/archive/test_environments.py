"""An environment is kept once, with what the launcher saw of the place."""

from __future__ import annotations

from tests.data.result_documents import FACTS, document, trial
from tests.unit.results.test_effective_environment import launched

from plumbline.archive import Archive


def test_what_the_cluster_said_of_a_pod_is_part_of_the_environment(archive: Archive) -> None:
    pods = ({"kubernetes.version": "v1.33.1", "host.zone": "b"},)
    for repeat in (1, 2):
        archive.record(launched(document(trial(repeat=repeat)), *pods), uri="file:///store")
    one, two = archive.trials("2025-11")
    assert one.environment_hash == two.environment_hash
    sample = archive.sample(one.series_key, "2025-11")
    assert sample.environments == ({**FACTS, "kubernetes.version": "v1.33.1", "host.zone": "b"},) * 2
    assert archive.verify() == []


def test_another_cluster_version_is_another_environment(archive: Archive) -> None:
    for repeat, version in ((1, "v1.33.1"), (2, "v1.34.0")):
        archive.record(launched(document(trial(repeat=repeat)), {"kubernetes.version": version}), uri="file:///store")
    one, two = archive.trials("2025-11")
    assert one.environment_hash != two.environment_hash
