#!/bin/sh
# Common steps of the harness images, run by the Dockerfiles in this folder. The harness and its locked packages are in a separate
# environment, /opt/plumbline. Torch and engines run on /opt/plumbline/bin/engine-python: the base's Python with the base's packages
# first, ours last (docs/decisions/0016). Build tools stay in the build stage.
#   install.sh wheel                  build stage: the pinned tools in /tools, the harness's wheel in /wheel; sources in /src
#   install.sh packages [LOCK...]     the environment with image.txt and further locks, all below /locks; the engine Python; the user
#   install.sh git_client             git, where the base has none
#   install.sh harness [MODULE...]    the wheel, a check that the engine Python imports these, the list of packages, compiled modules
# VERSION       the version of the harness, as its tag names it; default: fallback_version in pyproject.toml
# BASE          the base's name by digest
# TORCH_INDEX   package index of torch where the base has none; default: pip's configured index
# TORCH_SHA256  of that index's CPU wheel of torch: pip takes no other, and its libraries from image-cpu.txt
# IMAGE_ROOT    replaces / in tests
set -eu
root=${IMAGE_ROOT:-}
home=$root/opt/plumbline
engine=$home/bin/engine-python
export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
unset PIP_CONSTRAINT  # NVIDIA's bases pin their own environment with it; ours has its own lock

# environment FOLDER: some bases have pip and cannot put it into a new environment, others the reverse.
environment() {
  python3 -m venv "$1" 2>/dev/null || python3 -m venv --clear --without-pip "$1"
}

# into FOLDER ARGUMENT...: pip, working on the environment in the folder.
into() {
  folder=$1; shift
  if [ -x "$folder/bin/pip" ]; then "$folder/bin/pip" "$@"; else python3 -m pip --python "$folder/bin/python" "$@"; fi
}

wheel() {
  if [ -n "${VERSION:-}" ]; then export SETUPTOOLS_SCM_PRETEND_VERSION="$VERSION"; fi  # the image's sources have no tags
  environment "$root/tools"
  into "$root/tools" install --no-compile --require-hashes -r "$root/locks/image-tools.txt"
  into "$root/tools" wheel --no-deps --no-build-isolation --wheel-dir "$root/wheel" "$root/src"
}

packages() {
  case "${BASE:-}" in
    *@sha256:*|localhost/*) ;;
    *) echo "BASE is '${BASE:-}'; expected a base image by digest (name@sha256:...), for reproducible builds" >&2; exit 2 ;;
  esac
  if python3 -c 'import torch' 2>/dev/null; then has_torch=yes; else has_torch=no; fi
  environment "$home"
  into "$home" install --no-compile --require-hashes -r "$root/locks/image.txt"
  for more in "$@"; do
    case "$more:$has_torch" in
      torch.txt:yes) ;;
      torch.txt:no) torch ;;
      *) into "$home" install --no-compile --require-hashes --no-deps -r "$root/locks/$more" ;;
    esac
  done
  write_engine_python
  add_user
  compiled "$home/lib"
}

# The one package whose build, and so whose hash, is the caller's choice.
torch() {
  if [ -n "${TORCH_SHA256:-}" ]; then
    sed -n "s/^torch==.*/& --hash=sha256:$TORCH_SHA256/p" "$root/locks/torch.txt" >"$root/locks/torch-hashed.txt"
    set -- --require-hashes --no-deps -r "$root/locks/torch-hashed.txt"
  else
    # With its libraries: torch pins each of them itself. What image.txt and image-cpu.txt hold satisfies it and stays.
    set -- -r "$root/locks/torch.txt"
  fi
  into "$home" install --no-compile ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$@"
}

# git fetches scripts that are a commit of a repository; vendors' bases have it.
git_client() {
  command -v git >/dev/null || { apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*; }
}

# The base's Python with our packages at the end of its search path, so that they never replace the base's.
write_engine_python() {
  if [ "$has_torch" = yes ]; then
    ours=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    python3 -c 'import shlex, sys
path = ":".join([*filter(None, sys.path), sys.argv[1]])
print(f"#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} \"$@\"")' "$ours" >"$engine"
  else
    printf '#!/bin/sh\nexec %s/bin/python "$@"\n' "$home" >"$engine"
  fi
  chmod 755 "$engine"
}

# torch Inductor and vLLM ask for the user's name when they are imported.
add_user() {
  grep -q '^[^:]*:[^:]*:10001:' "$root/etc/group" || echo 'plumbline:x:10001:' >>"$root/etc/group"
  grep -q '^[^:]*:[^:]*:10001:' "$root/etc/passwd" || echo 'plumbline:x:10001:10001:Plumbline:/work:/usr/sbin/nologin' >>"$root/etc/passwd"
}

harness() {
  into "$home" install --no-compile --no-deps --no-index "$root"/wheel/*.whl
  rm "$home/bin/plumbline"  # the command line needs packages that are not in the image
  "$home/bin/python" -m plumbline.harness run --help >/dev/null
  "$engine" -c 'import sys
from importlib import import_module
from importlib.metadata import version
from plumbline.harness.image_requirements import unsupported_torch as unsupported
if wrong := unsupported(version("torch")):
    sys.exit(f"{wrong}; expected a base with such a torch")
for name in sys.argv[1:]:
    print(name, "from", getattr(import_module(name), "__file__", None))' "$@"
  "$root/tools/bin/cyclonedx-py" environment --output-reproducible --of JSON -o "$home/sbom.cdx.json" "$home/bin/python"
  compiled "$home"/lib/python3*/site-packages/plumbline
}

# The pods' root is read-only, so they would otherwise compile at every start. By content, independent of the build time.
# Some packages contain test files that no longer compile; they are reported and skipped.
compiled() {
  "$home/bin/python" -m compileall -q -j 0 --invalidation-mode unchecked-hash "$1" || echo "some modules were not compiled"
  rm -rf "$root"/tmp/* "$root"/var/tmp/* "$root"/root/.cache
}

"$@"
