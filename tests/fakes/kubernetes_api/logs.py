"""The log of a pod: a part of it, or all of it as it comes."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from tests.fakes.kubernetes_api.asked import Asked
from tests.fakes.kubernetes_api.refusals import Refused

if TYPE_CHECKING:
    from tests.fakes.fake_kubernetes import FakeKubernetes


def log(fake: FakeKubernetes, asked: Asked, pod: Any) -> Any:
    names = [container["name"] for container in pod["spec"]["containers"]]
    container = asked.query.get("container") or names[0]
    if container not in names:
        raise Refused(400, f"container {container} is not valid for pod {asked.name}")
    states = {held["name"]: held["state"] for held in pod["status"].get("containerStatuses", [])}
    state = states.get(container, {"waiting": {"reason": "ContainerCreating"}})
    if "waiting" in state:
        raise Refused(400, f'container "{container}" in pod "{asked.name}" is waiting to start: {state["waiting"]["reason"]}')
    if asked.query.get("follow", "").lower() in ("true", "1"):
        return LogStream(fake, asked)
    return log_text(fake.runs[asked.namespace or "", asked.name].lines, asked.query)


class LogStream:
    """A followed log: what there is, then what comes, until the pod has ended."""

    def __init__(self, fake: FakeKubernetes, asked: Asked) -> None:
        self._fake, self._asked = fake, asked

    def pieces(self) -> Any:
        sent = 0
        while True:
            run = self._fake.runs.get((str(self._asked.namespace), self._asked.name))
            if run is None:
                return
            over = run.pod["status"].get("phase") in ("Succeeded", "Failed") or run.stopping.is_set()
            text = log_text(run.lines, self._asked.query)
            if len(text) > sent:
                yield text[sent:].encode()
                sent = len(text)
            if over:
                return
            time.sleep(0.02)


def log_text(lines: list[tuple[datetime, str]], query: dict[str, str]) -> str:
    """A log as asked for: tailLines, sinceSeconds, sinceTime, timestamps, limitBytes."""
    since = None
    if "sinceSeconds" in query:
        since = datetime.now(timezone.utc) - timedelta(seconds=int(query["sinceSeconds"]))
    elif "sinceTime" in query:
        since = datetime.fromisoformat(query["sinceTime"].replace("Z", "+00:00"))
    kept = [(at, line) for at, line in list(lines) if since is None or at >= since]
    if "tailLines" in query:
        kept = kept[len(kept) - int(query["tailLines"]) :] if int(query["tailLines"]) < len(kept) else kept
    stamped = query.get("timestamps", "").lower() in ("true", "1")
    text = "".join((at.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ") if stamped else "") + line + "\n" for at, line in kept)
    return text[: int(query["limitBytes"])] if "limitBytes" in query else text
