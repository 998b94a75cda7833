"""`pod_patch`: which strategic merge patches on a trial's pod may be declared.

A patch adds what no field of the launcher covers. It may neither weaken the pod's security nor change what the launcher needs to start, find and
end the trial: the lists of fields are closed. Merge keys: the Kubernetes API's own (`patchMergeKey` of PodSpec and Container, 1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from plumbline.declarations.pods import OWN_PATHS, OWN_VOLUMES, host_path, own_metadata, own_variable, secret_name, within
from plumbline.declarations.yaml_positions import Path_, dotted

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}
"""Lists whose entries merge by a key. Every other list is replaced as a whole, tolerations among them."""
DIRECTIVE = "$patch"

_FREE = ("affinity", "nodeSelector", "tolerations", "dnsPolicy", "dnsConfig", "hostAliases", "schedulerName", "preemptionPolicy")
_SPEC = (
    *_FREE,
    "schedulingGates",
    "readinessGates",
    "resourceClaims",
    "topologySpreadConstraints",
    "volumes",
    "initContainers",
    "containers",
)
_BY_FIELD = {
    "hostNetwork": "host_network",
    "hostIPC": "host_ipc",
    "serviceAccountName": "service_account",
    "priorityClassName": "priority_class",
    "runtimeClassName": "runtime_class",
    "imagePullSecrets": "image_pull_secrets",
    "activeDeadlineSeconds": "timeout",
}
_OF_LAUNCHER = (
    *("hostPID", "hostUsers", "shareProcessNamespace", "automountServiceAccountToken", "serviceAccount", "ephemeralContainers"),
    *("restartPolicy", "nodeName", "hostname", "hostnameOverride", "subdomain", "setHostnameAsFQDN", "terminationGracePeriodSeconds"),
    *("enableServiceLinks", "priority", "overhead", "os", "resources", "schedulingGroup"),
)
_POD_SECURITY = ("supplementalGroups", "supplementalGroupsPolicy", "fsGroupChangePolicy", "sysctls")
_TRIAL = ("env", "envFrom", "ports", "volumeMounts", "volumeDevices", "resources")
_BESIDE = (*_TRIAL, "lifecycle", "startupProbe", "livenessProbe", "readinessProbe", "workingDir")
_OF_CONTAINER = ("image", "command", "args", "securityContext", "imagePullPolicy", "terminationMessagePolicy", "restartPolicy")
_TRAINJOB_SPEC = ("affinity", "nodeSelector", "tolerations", "schedulingGates", "volumes", "securityContext", "containers")
_TRAINJOB_CONTAINER = ("env", "volumeMounts")

Complaint = tuple[Path_, str]


def check_patch(patch: Mapping[str, Any], beside: Collection[str], *, trainjob: bool) -> None:
    """ValueError with the first field that the patch may not have, or not so. `beside`: names of the declared side containers."""
    for where, why in _complaints(patch, beside, trainjob):
        raise ValueError(f"pod_patch.{dotted(where)} {why}")


def _complaints(patch: Mapping[str, Any], beside: Collection[str], trainjob: bool) -> Iterator[Complaint]:
    yield from _known(patch, (), ("metadata", "spec"), "a patch has metadata and spec")
    yield from _metadata(patch.get("metadata", {}))
    spec = patch.get("spec", {})
    if not isinstance(spec, dict):
        yield ("spec",), "is no mapping; expected fields of a pod's specification, such as schedulerName"
        return
    yield from _spec(spec, trainjob)
    yield from _lists(spec, ("spec",))
    yield from _volumes(spec.get("volumes") or ())
    for field, names, allowed in (("containers", ("harness",), _TRIAL), ("initContainers", beside, _BESIDE)):
        for i, container in enumerate(spec.get(field) or ()):
            yield from _container(container, ("spec", field, i), names, _TRAINJOB_CONTAINER if trainjob else allowed)


def _known(row: Any, where: Path_, allowed: Collection[str], what: str) -> Iterator[Complaint]:
    if not isinstance(row, dict):
        yield where, f"is no mapping; {what}"
        return
    for key in row:
        if key not in allowed:
            near = get_close_matches(str(key), allowed, n=1)
            yield (*where, key), f"is no field here; {f'did you mean {near[0]}? ' if near else ''}expected one of {', '.join(allowed)}"


def _metadata(metadata: Any) -> Iterator[Complaint]:
    yield from _known(metadata, ("metadata",), ("labels", "annotations"), "expected labels, annotations or both")
    for field, values in metadata.items() if isinstance(metadata, dict) else ():
        if not isinstance(values, dict):
            yield ("metadata", field), "is no mapping; expected a mapping of keys to text"
            continue
        for key, value in values.items():
            if (why := own_metadata(key)) is not None:
                yield ("metadata", field, key), f": {why}"
            elif key.startswith("$") or not isinstance(value, str | None):
                yield ("metadata", field, key), "is no text; expected text, or null to remove the key"


def _spec(spec: dict[str, Any], trainjob: bool) -> Iterator[Complaint]:
    allowed = (*_SPEC, "securityContext")
    for field, value in spec.items():
        where: Path_ = ("spec", field)
        if field in _BY_FIELD:
            yield where, f"has a field of its own; expected launcher.{_BY_FIELD[field]}"
        elif field in _OF_LAUNCHER:
            yield where, "is the launcher's own, and a patch may not change it; expected the patch without it"
        elif field == "securityContext":
            yield from _known(value, where, _POD_SECURITY, "the rest of the pod's security context may not change")
        elif field not in allowed:
            yield from _known({field: value}, ("spec",), allowed, "")
        elif trainjob and field not in _TRAINJOB_SPEC:
            yield where, f"cannot be set in a TrainJob; expected one of {', '.join(_TRAINJOB_SPEC)}, or gang: jobset or pods"
        elif isinstance(value, dict):
            yield from _directives(value, where, top=True)


def _directives(value: Any, where: Path_, *, top: bool) -> Iterator[Complaint]:
    """Directives below a field that merges as a mapping: the field itself may be replaced, nothing else."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key.startswith("$") and not (top and key == DIRECTIVE and inner == "replace"):
            yield (*where, key), "is no directive here; expected $patch: replace, on the field itself"
        yield from _directives(inner, (*where, key), top=False)


def _lists(row: dict[str, Any], where: Path_) -> Iterator[Complaint]:
    """Lists that merge by a key: each entry has it, and directives are deletions of an entry."""
    for field, key in MERGE_KEYS.items():
        if field not in row:
            continue
        entries = row[field]
        if not isinstance(entries, list):
            yield (*where, field), f"is no list; expected a list of entries, each with {key}"
            continue
        for i, entry in enumerate(entries):
            at = (*where, field, i)
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str | int):
                yield at, f"has no {key}, by which entries merge; expected one"
                continue
            if entry.get(DIRECTIVE, "delete") != "delete" or any(k.startswith("$") and k != DIRECTIVE for k in entry):
                yield at, "has a directive that is not known here; expected $patch: delete"
            yield from _lists(entry, at)


def _volumes(volumes: Any) -> Iterator[Complaint]:
    for i, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        if not isinstance(volume, dict):
            continue  # _lists says so
        where: Path_ = ("spec", "volumes", i)
        if volume.get("name") in OWN_VOLUMES:
            yield where, f"({volume['name']}) is a volume of every trial, and a patch may not change it; expected another name"
        if "hostPath" in volume:
            path = volume["hostPath"].get("path") if isinstance(volume["hostPath"], dict) else None
            if (why := host_path(str(path), sidecar=False)) is not None:
                yield where, f"hostPath: {why}"


def _container(container: Any, where: Path_, names: Collection[str], allowed: Collection[str]) -> Iterator[Complaint]:
    if not isinstance(container, dict):
        return  # _lists says so
    name = container.get("name")
    if name not in names:
        instead = "" if "harness" in names else ": declare it in sidecars or init_containers, which bound its rights"
        yield (
            where,
            f"({name}) is no container that a patch may change{instead}; expected one of {', '.join(sorted(names)) or '(none declared)'}",
        )
        return
    for field, value in container.items():
        if field == DIRECTIVE:
            yield where, f"({name}) may not be deleted; expected the patch without it"
        elif field in _OF_CONTAINER:
            yield (
                (*where, field),
                "is the launcher's own, and a patch may not change it; expected launcher.images, capabilities or sidecars",
            )
        elif field != "name":
            yield from _known({field: value}, where, allowed, "")
    if name == "harness":
        yield from _trial(container, where)


def _trial(container: dict[str, Any], where: Path_) -> Iterator[Complaint]:
    for i, entry in enumerate(container.get("env") or ()):
        variable = str(entry.get("name")) if isinstance(entry, dict) else ""
        referred = secret_name(variable) and "value" not in entry
        if not referred and (why := own_variable(variable)) is not None:
            yield (*where, "env", i), f"({variable}): {why}"
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        path = str(mount.get("mountPath")) if isinstance(mount, dict) else ""
        if path == "/" or within(path.rstrip("/"), OWN_PATHS):
            yield (*where, "volumeMounts", i), f"({path}) is the trial's own; expected a path outside {', '.join(OWN_PATHS)}"
    yield from _known(
        container.get("resources", {}), (*where, "resources"), ("claims",), "expected claims; all else belongs into launcher.resources"
    )
