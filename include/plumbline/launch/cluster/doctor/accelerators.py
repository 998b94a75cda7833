"""What a doctor's pod saw of the accelerators, compared with the provider's declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plumbline.declarations import Provider
from plumbline.harness.hardware import mismatch
from plumbline.launch.cluster.doctor.line import Line, failed, ok, unknown
from plumbline.results import Scalar

_BUILDS = {"nvidia": ("torch.cuda", "CUDA"), "amd": ("torch.rocm", "ROCm")}


def lines(provider: Provider, taken: int, what: str, facts: Mapping[str, Scalar] | None) -> Iterator[Line]:
    """`taken`: accelerators that the pod held, 0 if none. `facts`: of its environment, None from a harness that does not report them.

    `what`: the kind of trial whose image it is. Nothing of a provider without accelerators.
    """
    if provider.accelerator.kind not in _BUILDS:
        return
    name = f"accelerators ({what})"
    if facts is None:
        yield unknown(name, "the image's harness does not report them; build the image from this version")
        return
    fact, platform = _BUILDS[provider.accelerator.kind]
    if facts.get("torch.version") is not None and facts.get(fact) is None:
        found = f"PyTorch {facts['torch.version']} of the image is built without {platform}"
        yield failed(f"image for GPUs ({what})", found, f"build the image over a base with {platform} (k8s/images/README.md)")
    if not taken:
        return
    wrong = mismatch(provider, taken, facts)
    if wrong is not None:
        yield failed(name, wrong, "look at the node's driver, its device plugin and launcher.runtime_class; --no-gpu leaves them out")
    elif facts.get("driver.version") is None:
        yield failed(
            name, "no driver answers in the pod", "install the GPU driver on the node, or declare the runtime class that mounts it"
        )
    else:
        yield ok(name, f"{facts['gpu.count']} × {facts.get('gpu.0.product')}, driver {facts['driver.version']}")
