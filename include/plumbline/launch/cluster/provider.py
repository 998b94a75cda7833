"""The Kubernetes side of a provider, for functions that can do nothing with another."""

from __future__ import annotations

from plumbline.declarations import KubernetesLauncher, Provider, Trial
from plumbline.launch.failures import BadDeclaration


def launcher_of(provider: Provider) -> KubernetesLauncher:
    """The provider's launcher; BadDeclaration if it is none of Kubernetes."""
    if isinstance(provider.launcher, KubernetesLauncher):
        return provider.launcher
    raise BadDeclaration(f"{provider.name}: launcher.kind is {provider.launcher.kind}; expected kubernetes for a trial that runs in pods")


def image_of(trial: Trial) -> str:
    """The image that runs the trial; BadDeclaration if the provider declares none for its kind."""
    kind = trial.workload.kind
    image = launcher_of(trial.provider).image_for(kind)
    if image is None:
        raise BadDeclaration(f"{trial.provider.name}: launcher.images.{kind} is not declared; expected the image that runs {kind} trials")
    return image
