"""What becomes of a pod, step by step.

    Script().scheduled("node-1").pulling().pulled(seconds=3.2, size=10**9).running().log("hello").after(0.2).succeeded()

A script may stop anywhere: the pod then stays as it is until somebody deletes it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.fakes.kubernetes_api.podrun import Gone, PodRun, Step
from tests.fakes.kubernetes_api.store import seconds

NO_GPUS = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
EVICTED = "The node was low on resource: memory. Container harness was using 9Gi, which exceeds its request of 8Gi."
PULL_FAILED = 'failed to pull and unpack image "{image}": failed to resolve reference "{image}": not found'


@dataclass(frozen=True)
class Script:
    """Steps of a pod's life. Each method gives a longer script; none changes the one that it is called on."""

    steps: tuple[Step, ...] = ()

    def then(self, step: Step) -> Script:
        """Any step: it gets the PodRun."""
        return Script((*self.steps, step))

    def after(self, duration_s: float) -> Script:
        return self.then(lambda run: run.wait(duration_s))

    def call(self, function: Callable[[PodRun], None]) -> Script:
        """Something happens beside the pod, for example in a result store. An exception ends the pod with exit code 1."""
        return self.then(lambda run: _guarded(run, lambda: function(run)))

    def runs(self, function: Callable[[PodRun], int]) -> Script:
        """The container's process: it may take its time and print by `run.say`; what it returns is the exit code."""
        return self.then(lambda run: _guarded(run, lambda: run.end(function(run))))

    # What the scheduler does.

    def gated(self, gate: str = "kueue.x-k8s.io/admission") -> Script:
        """A scheduling gate holds the pod, as Kueue does it."""

        def step(run: PodRun) -> None:
            run.row["spec"]["schedulingGates"] = [{"name": gate}]
            run.condition("PodScheduled", "False", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")

        return self.then(step)

    def admitted(self, queue: str = "gpus") -> Script:
        def step(run: PodRun) -> None:
            run.row["spec"].pop("schedulingGates", None)
            run.event("Started", f"Admitted by clusterQueue {queue}", by="pod-kueue-controller")

        return self.then(step)

    def unschedulable(self, message: str = NO_GPUS) -> Script:
        """No node for it; it waits."""

        def step(run: PodRun) -> None:
            run.condition("PodScheduled", "False", "Unschedulable", message)
            run.event("FailedScheduling", message, kind="Warning", by="default-scheduler")

        return self.then(step)

    def scheduled(self, node: str = "node-1") -> Script:
        def step(run: PodRun) -> None:
            run.row["spec"]["nodeName"] = node
            run.condition("PodScheduled", "True")
            space, name = run.row["metadata"]["namespace"], run.row["metadata"]["name"]
            run.event("Scheduled", f"Successfully assigned {space}/{name} to {node}", by="default-scheduler")
            run.status(startTime=seconds(), hostIP="192.0.2.10")
            run.condition("Initialized", "True")
            run.condition("Ready", "False", "ContainersNotReady", "containers with unready status: [harness]")
            run.containers({"waiting": {"reason": "ContainerCreating"}})

        return self.then(step)

    # What the kubelet does.

    def pulling(self) -> Script:
        return self.then(lambda run: run.event("Pulling", f'Pulling image "{_image(run)}"'))

    def pulled(self, seconds: float = 0.0, size: int = 4_000_000_000, *, cached: bool = False) -> Script:
        """The image is there; `seconds` is what the kubelet says it took, not what the fake takes."""

        def step(run: PodRun) -> None:
            if cached:
                run.event("Pulled", f'Container image "{_image(run)}" already present on machine')
                return
            sized = f" ({seconds}s including waiting). Image size: {size} bytes." if run.cluster.minor >= 30 else ""
            run.event("Pulled", f'Successfully pulled image "{_image(run)}" in {seconds}s{sized}')

        return self.then(step)

    def running(self) -> Script:
        def step(run: PodRun) -> None:
            for container in run.row["spec"]["containers"]:
                run.event("Created", f"Created container {container['name']}")
                run.event("Started", f"Started container {container['name']}")
            run.containers({"running": {"startedAt": seconds()}})
            run.status(phase="Running", podIP="10.0.0.7")

        return self.then(step)

    def ready(self) -> Script:
        def step(run: PodRun) -> None:
            run.containers({"running": {"startedAt": run.started_at()}}, ready=True)
            run.condition("Ready", "True")
            run.condition("ContainersReady", "True")

        return self.then(step)

    def started(self, node: str = "node-1", *, cached: bool = False) -> Script:
        """All of it at once: scheduled, image pulled, running, ready."""
        there = self.scheduled(node)
        pulled = there.pulled(cached=True) if cached else there.pulling().pulled(seconds=1.5)
        return pulled.running().ready()

    def log(self, *lines: str) -> Script:
        return self.then(lambda run: run.say(*lines))

    def waiting(self, reason: str, message: str) -> Script:
        """The containers wait for a reason, such as CreateContainerConfigError."""

        def step(run: PodRun) -> None:
            run.containers({"waiting": {"reason": reason, "message": message}})
            run.event("Failed", f"Error: {message}", kind="Warning")

        return self.then(step)

    def image_pull_fails(self, back_off_after: float = 0.05) -> Script:
        """ErrImagePull, a little later ImagePullBackOff, for ever."""

        def fails(run: PodRun) -> None:
            message = PULL_FAILED.format(image=_image(run))
            run.event("Failed", f'Failed to pull image "{_image(run)}": rpc error: code = NotFound desc = {message}', kind="Warning")
            run.event("Failed", "Error: ErrImagePull", kind="Warning")
            run.containers({"waiting": {"reason": "ErrImagePull", "message": f"rpc error: code = NotFound desc = {message}"}})

        def backs_off(run: PodRun) -> None:
            run.event("BackOff", f'Back-off pulling image "{_image(run)}"')
            run.event("Failed", "Error: ImagePullBackOff", kind="Warning")
            run.containers({"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{_image(run)}"'}})

        return self.pulling().then(fails).after(back_off_after).then(backs_off)

    def invalid_image_name(self) -> Script:
        def step(run: PodRun) -> None:
            message = f'couldn\'t parse image reference "{_image(run)}": invalid reference format'
            run.event("InspectFailed", f'Failed to apply default image tag "{_image(run)}": {message}', kind="Warning")
            run.event("Failed", "Error: InvalidImageName", kind="Warning")
            run.containers({"waiting": {"reason": "InvalidImageName", "message": f"Failed to apply default image tag: {message}"}})

        return self.then(step)

    # How it ends.

    def succeeded(self) -> Script:
        return self.then(lambda run: run.end(0))

    def failed(self, exit_code: int = 1, said: str = "") -> Script:
        """`said`: the end of its log, which the kubelet puts into the pod's status."""
        return self.then(lambda run: run.end(exit_code, said=said))

    def oom_killed(self) -> Script:
        return self.then(lambda run: run.end(137, "OOMKilled"))

    def evicted(self, message: str = EVICTED) -> Script:
        """By the kubelet, under pressure: the pod object stays."""

        def step(run: PodRun) -> None:
            run.event("Evicted", message, kind="Warning")
            _disrupted(run, "TerminationByKubelet", message)
            run.end(137, phase="Failed", reason="Evicted", message=message)

        return self._killing(step)

    def preempted(self, by: str = "important") -> Script:
        """By the scheduler, for a pod of higher priority: the pod object is deleted."""

        def step(run: PodRun) -> None:
            _disrupted(run, "PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod")
            run.event("Preempted", f"Preempted by pod {by} on node {run.row['spec'].get('nodeName', '')}", by="default-scheduler")
            _delete(run)

        return self.then(step)

    def tainted(self) -> Script:
        """The node gets a NoExecute taint that the pod does not tolerate: the pod object is deleted."""

        def step(run: PodRun) -> None:
            _disrupted(run, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
            space, name = run.row["metadata"]["namespace"], run.row["metadata"]["name"]
            run.event("TaintManagerEviction", f"Marking for deletion Pod {space}/{name}", by="taint-eviction-controller")
            _delete(run)

        return self.then(step)

    def stuck(self) -> Script:
        """From now on the pod does not end when it is deleted, unless by force (grace 0)."""

        def step(run: PodRun) -> None:
            run.stuck = True

        return self.then(step)

    def vanishes(self) -> Script:
        """Somebody removes the object, without a trace."""
        return self.then(lambda run: run.cluster.store.remove("pods", run.row))

    def _killing(self, step: Step) -> Script:
        def killed(run: PodRun) -> None:
            step(run)
            run.stopping.set()

        return self.then(killed)


def _image(run: PodRun) -> str:
    return str(run.row["spec"]["containers"][0]["image"])


def _disrupted(run: PodRun, reason: str, message: str) -> None:
    if run.cluster.minor >= 26:
        run.condition("DisruptionTarget", "True", reason, message)


def _delete(run: PodRun) -> None:
    meta = run.row["metadata"]
    run.cluster.store.delete("pods", meta["namespace"], meta["name"])


def _guarded(run: PodRun, function: Callable[[], None]) -> None:
    try:
        function()
    except Gone:
        raise
    except Exception:  # noqa: BLE001  whatever a test's callable raises ends its pod, as it would a real process
        run.say(*traceback.format_exc().splitlines())
        run.end(1)
