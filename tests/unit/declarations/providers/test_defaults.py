"""`defaults.yaml`: what cluster providers leave out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fakes.trials import CONFIG

from plumbline.declarations import DeclarationError, Declarations, KubernetesLauncher, load

DIGEST = "@sha256:" + 64 * "7"
OTHER = "@sha256:" + 64 * "8"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The shipped declarations, with one cluster provider that declares everything itself."""
    root = tmp_path / "config"
    shutil.copytree(CONFIG, root)
    own = root / "providers" / "example-oke-h100.yaml"
    text = own.read_text().replace(
        "  connection:", f"  images: {{training: mine{OTHER}}}\n  registry: mirror.example.com/cache\n  connection:", 1
    )
    own.write_text(text)
    (root / "defaults.yaml").write_text(
        f"images: {{training: plumbline-training{DIGEST}, inference: other.example.com/plumbline{DIGEST}}}\n"
        "registry: registry.example.com/team\n"
        'env: {NCCL_DEBUG: WARN, NCCL_SOCKET_IFNAME: "bond0"}\n'
    )
    return root


def launcher(declared: Declarations, name: str) -> KubernetesLauncher:
    found = declared.providers[name].launcher
    assert isinstance(found, KubernetesLauncher)
    return found


def test_a_new_digest_is_one_edit_for_every_provider_that_leaves_images_out(config: Path) -> None:
    declared = load(config)
    eks = launcher(declared, "example-eks-p5")
    assert eks.image_for("training") == f"registry.example.com/team/plumbline-training{DIGEST}"
    assert eks.image_for("inference") == f"other.example.com/plumbline{DIGEST}", "an image that names its registry keeps it"
    assert "images" in declared.from_defaults["example-eks-p5"]
    edited = (config / "defaults.yaml").read_text().replace(DIGEST, OTHER)
    (config / "defaults.yaml").write_text(edited)
    images = {launcher(load(config), p.name).image_for("training") for p in declared.providers.values() if p.name.startswith("example-eks")}
    assert images == {f"registry.example.com/team/plumbline-training{OTHER}"}


def test_a_providers_own_values_win(config: Path) -> None:
    declared = load(config)
    oke, eks = launcher(declared, "example-oke-h100"), launcher(declared, "example-eks-p5")
    assert oke.image_for("training") == f"mirror.example.com/cache/mine{OTHER}" and oke.image_for("inference") is None
    assert (oke.env["NCCL_SOCKET_IFNAME"], oke.env["NCCL_DEBUG"]) == ("eth0", "WARN")
    assert (eks.env["NCCL_SOCKET_IFNAME"], eks.env["FI_PROVIDER"]) == ("bond0", "efa")
    assert declared.from_defaults["example-oke-h100"] == ("env.NCCL_DEBUG",)
    assert "local-2core" not in declared.from_defaults, "a process on this machine has none of these"


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("registry: registry.example.com\nimages: {training: plumbline:latest}\n", 2, "images.training"),
        ("env:\n  NCCL_DEBUG: WARN\n  HF_TOKEN: abc\n", 3, "env.HF_TOKEN"),
        ("image: {}\n", 1, "image"),
    ],
)
def test_a_mistake_in_the_defaults_is_reported_once_where_it_is(config: Path, text: str, line: int, field: str) -> None:
    (config / "defaults.yaml").write_text(text)
    with pytest.raises(DeclarationError) as refused:
        load(config)
    (problem,) = refused.value.problems
    assert (Path(problem.file).name, problem.line, problem.field) == ("defaults.yaml", line, field)


def test_without_defaults_a_provider_that_leaves_images_out_is_told_so(config: Path) -> None:
    (config / "defaults.yaml").unlink()
    with pytest.raises(DeclarationError) as refused:
        load(config)
    fields = {(Path(p.file).name, p.field) for p in refused.value.problems}
    assert ("example-eks-p5.yaml", "launcher.images") in fields and ("example-oke-h100.yaml", "launcher.images") not in fields
