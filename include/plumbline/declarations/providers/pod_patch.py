"""`pod_patch`: which strategic merge patches on a trial's pod may be declared.

A patch adds what no field of the launcher covers. It may neither weaken the pod's security nor change what the launcher needs to start, find and
end the trial: the lists of fields are closed. Merge keys: the Kubernetes API's own (`patchMergeKey` of PodSpec and Container, 1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from plumbline.declarations.providers.pods import (
    RESERVED_VOLUMES,
    metadata_error,
    mount_error,
    reserved_variable_error,
)
from plumbline.declarations.secret_texts import is_secret_name
from plumbline.declarations.yaml_source import FieldPath, format_path

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

_FREE_FIELDS = ("affinity", "nodeSelector", "tolerations", "dnsPolicy", "dnsConfig", "hostAliases", "schedulerName", "preemptionPolicy")
_SPEC_FIELDS = (
    *_FREE_FIELDS,
    "schedulingGates",
    "readinessGates",
    "resourceClaims",
    "topologySpreadConstraints",
    "volumes",
    "initContainers",
    "containers",
)
_LAUNCHER_FIELD_OF = {
    "hostNetwork": "host_network",
    "hostIPC": "host_ipc",
    "serviceAccountName": "service_account",
    "priorityClassName": "priority_class",
    "runtimeClassName": "runtime_class",
    "imagePullSecrets": "image_pull_secrets",
    "activeDeadlineSeconds": "timeout",
    "hostPath": "volumes",
}
_LAUNCHER_OWNED = (
    *("hostPID", "hostUsers", "shareProcessNamespace", "automountServiceAccountToken", "serviceAccount", "ephemeralContainers"),
    *("restartPolicy", "nodeName", "hostname", "hostnameOverride", "subdomain", "setHostnameAsFQDN", "terminationGracePeriodSeconds"),
    *("enableServiceLinks", "priority", "overhead", "os", "resources", "schedulingGroup"),
)
_VOLUME_TYPES = ("emptyDir", "configMap", "secret", "downwardAPI", "projected", "persistentVolumeClaim", "ephemeral", "csi")
"""Those of Kubernetes' Pod Security Standard *restricted*."""
_FIELDS: dict[str, tuple[str, ...]] = {
    "securityContext": ("supplementalGroups", "supplementalGroupsPolicy", "fsGroupChangePolicy", "sysctls"),
    "sysctls": ("name", "value"),
    "volumes": ("name", *_VOLUME_TYPES),
    "projected": ("sources", "defaultMode"),
    "sources": ("configMap", "secret", "downwardAPI"),
    "env": ("name", "value", "valueFrom"),
    "valueFrom": ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef"),
    "ports": ("name", "containerPort", "protocol"),
    "volumeMounts": ("name", "mountPath", "subPath", "readOnly", "recursiveReadOnly"),
    "volumeDevices": ("name", "devicePath"),
    "httpGet": ("path", "port", "scheme", "httpHeaders"),
    "tcpSocket": ("port",),
}
"""Fields of a mapping, or of each entry of a list, by its own field. Not there: paths, ports and hosts of the node, and tokens of its service account."""
_NAMESPACED_SYSCTLS = ("net.", "kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_TRIAL_CONTAINER_FIELDS = ("env", "ports", "volumeMounts", "volumeDevices", "resources")
_SIDE_CONTAINER_FIELDS = (*_TRIAL_CONTAINER_FIELDS, "lifecycle", "startupProbe", "livenessProbe", "readinessProbe", "workingDir")
_CONTAINER_OWNED = ("image", "command", "args", "securityContext", "imagePullPolicy", "terminationMessagePolicy", "restartPolicy")

Violation = tuple[FieldPath, str]


def check_patch(patch: Mapping[str, Any], containers: Collection[str]) -> None:
    """ValueError with the first invalid field of the patch. `containers`: names of the declared side containers."""
    for where, why in _violations(patch, containers):
        raise ValueError(f"pod_patch.{format_path(where)} {why}")


def variables_of_patch(patch: Mapping[str, Any]) -> Iterator[str]:
    """Names of the variables that a patch gives to the trial's container; it holds (see `check_patch`)."""
    for container in (patch.get("spec") or {}).get("containers") or ():
        yield from (str(entry["name"]) for entry in container.get("env") or () if "name" in entry)


def _violations(patch: Mapping[str, Any], containers: Collection[str]) -> Iterator[Violation]:
    yield from _unknown_keys(patch, (), ("metadata", "spec"), "a patch has metadata and spec")
    yield from _patch_metadata(patch.get("metadata", {}))
    spec = patch.get("spec", {})
    if not isinstance(spec, dict):
        yield ("spec",), "is not a mapping; expected fields of a pod's specification, such as schedulerName"
        return
    yield from _patch_spec(spec)
    yield from _merge_lists(spec, ("spec",))
    yield from _patch_security(spec.get("securityContext", {}), ("spec", "securityContext"))
    for i, volume in enumerate(spec.get("volumes") or ()):
        if volume["name"] in RESERVED_VOLUMES:
            yield ("spec", "volumes", i), f"({volume['name']}) is a reserved volume; expected another name"
    for field, names, allowed in (
        ("containers", ("harness",), _TRIAL_CONTAINER_FIELDS),
        ("initContainers", containers, _SIDE_CONTAINER_FIELDS),
    ):
        for i, container in enumerate(spec.get(field) or ()):
            yield from _patch_container(container, ("spec", field, i), names, allowed)
    yield from _listed_fields(spec, ("spec",))


def _unknown_keys(row: Any, where: FieldPath, allowed: Collection[str], what: str) -> Iterator[Violation]:
    if not isinstance(row, dict):
        yield where, f"is not a mapping; {what}"
        return
    for key in row:
        if key in _LAUNCHER_FIELD_OF:
            yield (*where, key), f"has its own field; expected launcher.{_LAUNCHER_FIELD_OF[key]}"
        elif key not in allowed:
            near = get_close_matches(str(key), allowed, n=1)
            yield (*where, key), f"is not allowed here; {f'did you mean {near[0]}? ' if near else ''}expected one of {', '.join(allowed)}"


def _patch_metadata(metadata: Any) -> Iterator[Violation]:
    yield from _unknown_keys(metadata, ("metadata",), ("labels", "annotations"), "expected labels, annotations or both")
    for field, values in metadata.items() if isinstance(metadata, dict) else ():
        if not isinstance(values, dict):
            yield ("metadata", field), "is not a mapping; expected a mapping of keys to text"
            continue
        for key, value in values.items():
            if (why := metadata_error(key, value)) is not None:
                yield ("metadata", field, key), f": {why}"
            elif key.startswith("$") or not isinstance(value, str | None):
                yield ("metadata", field, key), "is not text; expected text, or null to remove the key"


def _patch_spec(spec: dict[str, Any]) -> Iterator[Violation]:
    allowed = (*_SPEC_FIELDS, "securityContext")
    for field, value in spec.items():
        where: FieldPath = ("spec", field)
        if field in _LAUNCHER_OWNED:
            yield where, "is reserved for the launcher; expected a patch without it"
        elif field not in allowed:
            yield from _unknown_keys({field: value}, ("spec",), allowed, "")
        elif isinstance(value, dict) and field != "securityContext":
            yield from _directives(value, where, top=True)


def _directives(value: Any, where: FieldPath, *, top: bool) -> Iterator[Violation]:
    """Directives below a field that merges as a mapping: the field itself may be replaced, nothing else."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key.startswith("$") and not (top and key == DIRECTIVE and inner == "replace"):
            yield (*where, key), "is not a valid directive; expected $patch: replace, on the field itself"
        yield from _directives(inner, (*where, key), top=False)


def _merge_lists(row: dict[str, Any], where: FieldPath) -> Iterator[Violation]:
    """Lists that merge by a key: each entry has it, and directives are deletions of an entry."""
    for field, key in MERGE_KEYS.items():
        if field not in row:
            continue
        entries = row[field]
        if not isinstance(entries, list):
            yield (*where, field), f"is not a list; expected a list of entries, each with {key}"
            continue
        for i, entry in enumerate(entries):
            at = (*where, field, i)
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str | int):
                yield at, f"has no merge key {key}; expected one"
                continue
            if entry.get(DIRECTIVE, "delete") != "delete" or any(k.startswith("$") and k != DIRECTIVE for k in entry):
                yield at, "has an unknown directive; expected $patch: delete"
            yield from _merge_lists(entry, at)


def _listed_fields(value: Any, where: FieldPath) -> Iterator[Violation]:
    """Fields outside the lists of `_FIELDS`, at any depth."""
    if isinstance(value, list):
        for i, row in enumerate(value):
            yield from _listed_fields(row, (*where, i))
    elif isinstance(value, dict):  # text under a name of `_FIELDS` is a label's value
        if (allowed := _FIELDS.get(str(where[-1 if isinstance(where[-1], str) else -2]))) is not None:
            yield from _unknown_keys(value, where, (*allowed, DIRECTIVE) if isinstance(where[-1], int) else allowed, "")
        for field, inner in value.items():
            yield from _listed_fields(inner, (*where, field))


def _patch_security(security: Any, where: FieldPath) -> Iterator[Violation]:
    yield from _unknown_keys(security, where, fields := _FIELDS["securityContext"], f"expected some of {', '.join(fields)}")
    if not isinstance(security, dict):
        return
    groups, sysctls = security.get("supplementalGroups") or [], security.get("sysctls") or []
    if not isinstance(groups, list) or not all(type(group) is int and group >= 1 for group in groups):
        yield (*where, "supplementalGroups"), "has the group 0 or is no list of ids; expected a list of integers from 1"
    names = [row.get("name") if isinstance(row, dict) else row for row in sysctls] if isinstance(sysctls, list) else [sysctls]
    if not all(isinstance(name, str) and name.startswith(_NAMESPACED_SYSCTLS) for name in names):
        yield (*where, "sysctls"), f"has one of the whole node; expected a list with names that begin with {', '.join(_NAMESPACED_SYSCTLS)}"


def _patch_container(container: Any, where: FieldPath, names: Collection[str], allowed: Collection[str]) -> Iterator[Violation]:
    if not isinstance(container, dict):
        return  # _lists says so
    name = container.get("name")
    if name not in names:
        instead = "" if "harness" in names else ": declare it in sidecars or init_containers, which bound its rights"
        yield (
            where,
            f"({name}) cannot be patched{instead}; expected one of {', '.join(sorted(names)) or '(none declared)'}",
        )
        return
    for field, value in container.items():
        if field == DIRECTIVE:
            yield where, f"({name}) may not be deleted; expected a patch without it"
        elif field in _CONTAINER_OWNED:
            yield (
                (*where, field),
                "is the launcher's own, and a patch may not change it; expected launcher.images, capabilities or sidecars",
            )
        elif field != "name":
            yield from _unknown_keys({field: value}, where, allowed, "")
    for i, entry in enumerate(container.get("env") or ()):
        variable = str(entry["name"])
        referred = is_secret_name(variable) and "value" not in entry
        if not referred and (why := reserved_variable_error(variable)) is not None:
            yield (*where, "env", i), f"({variable}): {why}"
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        if name == "harness" and (why := mount_error(str(mount["mountPath"]))) is not None:
            yield (*where, "volumeMounts", i), f": {why}"
        if mount.get("name") in RESERVED_VOLUMES:
            yield (*where, "volumeMounts", i), f"({mount['name']}) is a reserved volume; expected another name"
    if name == "harness":
        others = "expected claims; declare other resources in launcher.resources"
        yield from _unknown_keys(container.get("resources", {}), (*where, "resources"), ("claims",), others)
