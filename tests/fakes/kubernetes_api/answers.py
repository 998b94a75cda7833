"""What the API server answers to a request that reaches it: who may, what there is, what is done."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from tests.fakes.kubernetes_api.asked import ROUTE, Asked
from tests.fakes.kubernetes_api.logs import log
from tests.fakes.kubernetes_api.refusals import Refused, not_found
from tests.fakes.kubernetes_api.store import CLUSTER_SCOPED, KINDS, seconds

if TYPE_CHECKING:
    from tests.fakes.fake_kubernetes import FakeKubernetes


def answer(fake: FakeKubernetes, asked: Asked, authorization: str | None) -> Any:
    if authorization != f"Bearer {fake.token}":
        raise Refused(401, "Unauthorized")
    if asked.path.rstrip("/") == "/version":
        built = dict.fromkeys(("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler"), "fake")
        return {"major": "1", "minor": str(fake.minor), "gitVersion": f"v1.{fake.minor}.0", "platform": "linux/amd64", **built}
    if asked.path in ("/livez", "/readyz", "/healthz"):
        return "ok"
    if asked.path.rstrip("/") == "/apis":
        served = {version for version, _ in KINDS.values() if "/" in version} | {"metrics.k8s.io/v1beta1"}
        groups = sorted(filter(fake.serves, served))
        listed = [{"name": v.partition("/")[0], "versions": [{"groupVersion": v, "version": v.partition("/")[2]}]} for v in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    found = ROUTE.match(asked.path)
    if found is None:
        raise Refused(404, "the server could not find the requested resource")
    asked.namespace, asked.plural = found["namespace"], found["plural"]
    asked.name, asked.sub = found["name"] or "", found["sub"] or ""
    asked.group_version = found["core"] or f"{found['group']}/{found['version']}"
    if asked.plural == "selfsubjectaccessreviews":
        return _review(fake, asked)
    if asked.plural == "selfsubjectrulesreviews":
        return {**asked.body, "status": {"resourceRules": fake.rules, "nonResourceRules": [], "incomplete": fake.rules_incomplete}}
    served = KINDS.get(asked.plural, ("", ""))[0]
    if served != asked.group_version or not fake.serves(served):
        raise Refused(404, "the server could not find the requested resource")
    if (asked.verb, asked.resource) in fake.forbidden:
        where = f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
        group = asked.group_version.rpartition("/")[0]
        named = f' "{asked.name}"' if asked.name else ""
        kind = asked.plural + (f"/{asked.sub}" if asked.sub else "")
        who = 'User "system:serviceaccount:plumbline:launcher"'
        said = f'{asked.plural}{named} is forbidden: {who} cannot {asked.verb} resource "{kind}" in API group "{group}"{where}'
        raise Refused(403, said, name=asked.name, kind=asked.plural)
    return _sub(fake, asked) if asked.sub else _object(fake, asked)


def _review(fake: FakeKubernetes, asked: Asked) -> Any:
    wanted = asked.body["spec"]["resourceAttributes"]
    group, sub = wanted.get("group") or "", wanted.get("subresource") or ""
    resource = wanted["resource"] + (f".{group}" if group else "") + (f"/{sub}" if sub else "")
    return {**asked.body, "status": {"allowed": (wanted["verb"], resource) not in fake.forbidden}}


def _object(fake: FakeKubernetes, asked: Asked) -> Any:
    store, plural, name, query = fake.store, asked.plural, asked.name, asked.query
    space = "" if plural in CLUSTER_SCOPED else asked.namespace
    if asked.verb == "watch":
        return ""
    if asked.verb == "list":
        return _listed(fake, asked, space)
    if asked.verb == "create":
        return store.create(plural, space or "", asked.body, dry_run=query.get("dryRun") == "All")
    options = {**(asked.body or {}), **query} if asked.method == "DELETE" else {}
    grace = None if options.get("gracePeriodSeconds") is None else int(options["gracePeriodSeconds"])
    told = {"grace": grace, "propagation": options.get("propagationPolicy") or ""}
    if asked.verb == "deletecollection":
        rows = store.list(plural, space, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        for row in rows:
            store.delete(plural, row["metadata"].get("namespace", ""), row["metadata"]["name"], **told)
        return _list_row(plural, rows)
    if asked.verb == "delete":
        uid = (options.get("preconditions") or {}).get("uid") or ""
        return store.delete(plural, space or "", name, uid=uid, **told)
    if asked.verb == "patch":
        if not isinstance(asked.body, dict):
            raise Refused(415, "the body of the request was in an unknown format - only merge patches are understood here")
        return store.patch(plural, space or "", name, asked.body)
    if asked.verb == "update":
        return store.put(plural, {**asked.body, "metadata": {**store.get(plural, space or "", name)["metadata"], **asked.body["metadata"]}})
    with store.lock:
        return json.loads(json.dumps(_quota(fake, store.get(plural, space or "", name))))


def _listed(fake: FakeKubernetes, asked: Asked, space: str | None) -> Any:
    query = asked.query
    rows = fake.store.list(asked.plural, space, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    if "as=PartialObjectMetadataList" in asked.accept:
        rows = [{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": row["metadata"]} for row in rows]
    first, most = int(query.get("continue") or 0), int(query.get("limit") or 0)
    if not most or query.get("resourceVersion") == "0":
        return _list_row(asked.plural, [_quota(fake, row) for row in rows])
    left = len(rows) - first - most
    more = {"continue": str(first + most), "remainingItemCount": left} if left > 0 else {}
    return _list_row(asked.plural, [_quota(fake, row) for row in rows[first : first + most]], **more)


def _list_row(plural: str, rows: list[Any], **metadata: Any) -> Any:
    version, kind = KINDS[plural]
    return {"apiVersion": version, "kind": f"{kind}List", "metadata": {"resourceVersion": "1", **metadata}, "items": rows}


def _quota(fake: FakeKubernetes, row: Any) -> Any:
    if row["kind"] != "ResourceQuota":
        return row
    hard = row["spec"]["hard"]
    used = fake.store.quota_used(row["metadata"]["namespace"], hard)
    return {**row, "status": {"hard": hard, "used": {key: f"{value:g}" for key, value in used.items()}}}


def _sub(fake: FakeKubernetes, asked: Asked) -> Any:
    if (asked.plural, asked.sub, asked.method) == ("serviceaccounts", "token", "POST"):
        fake.store.get(asked.plural, asked.namespace or "", asked.name)
        granted = min(asked.body["spec"]["expirationSeconds"], fake.longest_token_s)
        ends = datetime.now(timezone.utc) + timedelta(seconds=granted)
        return {**asked.body, "metadata": {}, "status": {"token": fake.token, "expirationTimestamp": seconds(ends)}}
    pod = fake.store.get(asked.plural, asked.namespace or "", asked.name)
    if asked.plural == "pods" and asked.sub == "log":
        return log(fake, asked, pod)
    if asked.sub == "status" and asked.method == "GET":
        return pod
    raise not_found(f"{asked.plural}/{asked.sub}", asked.name)
