"""Which numbers a trial must have."""

from __future__ import annotations

from tests.data.result_documents import training_workload, trial

from plumbline.quality.attempt_rows import required_metrics

IMAGES = {
    "model": {"architecture": "vit", "layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "image": 16, "patch": 8, "classes": 4},
    "task": {"kind": "classification"},
    "data": {"source": "images", "images": 64},
    "batch": {"micro": 2},
}


def test_text_is_counted_in_tokens_and_images_are_not() -> None:
    text, images = (required_metrics(trial("training", workload=training_workload(**changed))) for changed in ({}, IMAGES))
    assert "steady.tokens_per_second.median" in text and "steady.samples_per_second.median" not in text
    assert "steady.samples_per_second.median" in images and "steady.tokens_per_second.median" not in images
