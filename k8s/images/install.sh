#!/bin/sh
# The steps that every harness image shares, run by the Dockerfiles beside this file. The harness and its locked packages live in an
# environment of their own, /opt/plumbline; what is needed only to get there stays in the build stage.
#   install.sh wheel                  build stage: the pinned tools in /tools, the harness's wheel in /wheel; sources in /src
#   install.sh packages [LOCK...]     the environment with image.txt and further locks, all below /locks
#   install.sh harness                the wheel, the list of what the image holds, the compiled modules
set -eu
home=/opt/plumbline
export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
unset PIP_CONSTRAINT  # NVIDIA's bases pin their own environment with it; ours has its own lock

# environment FOLDER [OPTION]: some bases have pip and cannot put it into a new environment, others the reverse.
environment() {
  python3 -m venv ${2:-} "$1" 2>/dev/null || python3 -m venv --clear --without-pip ${2:-} "$1"
}

# into FOLDER ARGUMENT...: pip, working on the environment in the folder.
into() {
  folder=$1; shift
  if [ -x "$folder/bin/pip" ]; then "$folder/bin/pip" "$@"; else python3 -m pip --python "$folder/bin/python" "$@"; fi
}

wheel() {
  environment /tools
  into /tools install --no-compile --require-hashes -r /locks/image-tools.txt
  into /tools wheel --no-deps --no-build-isolation --wheel-dir /wheel /src
}

packages() {
  case "${BASE:-}" in
    *@sha256:*|localhost/*) ;;
    *) echo "BASE is '${BASE:-}'; expected a base image by digest (name@sha256:...), so that the same build gives the same image" >&2; exit 2 ;;
  esac
  # What the base brings for its accelerator, torch and the numpy that it was built with, stays visible and is not replaced.
  environment "$home" --system-site-packages
  lock=/locks/image.txt
  if python3 -c 'import torch, numpy' 2>/dev/null; then
    awk '/^[a-z]/ { keep = !/^numpy==/ } keep' "$lock" >/tmp/lock.txt
    lock=/tmp/lock.txt
  fi
  into "$home" install --no-compile --require-hashes -r "$lock"
  for more in "$@"; do into "$home" install --no-compile --no-deps -r "/locks/$more"; done
  "$home/bin/python" -c 'import torch'
  compiled "$home/lib"
}

harness() {
  into "$home" install --no-compile --no-deps --no-index /wheel/*.whl
  rm "$home/bin/plumbline"  # the command line needs the rooms that are not here
  "$home/bin/python" -m plumbline.harness run --help >/dev/null
  /tools/bin/cyclonedx-py environment --output-reproducible --of JSON -o "$home/sbom.cdx.json" "$home/bin/python"
  compiled "$home"/lib/python3*/site-packages/plumbline
}

# The pods' root is read-only: without this they would compile all of torch at every start. By content, not by the time of the build.
# Some packages carry test files that no Python compiles any more; they are reported and left.
compiled() {
  "$home/bin/python" -m compileall -q -j 0 --invalidation-mode unchecked-hash "$1" || echo "some modules stay uncompiled"
  rm -rf /tmp/* /var/tmp/* /root/.cache
}

"$@"
