"""The other nodes as node 0 sees them; they speak over real connections."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.fakes.trials import a_trial

from plumbline.harness.gang.channel import Channel, Message, PeerDisconnected, connect
from plumbline.harness.gang.topology import Address, Topology
from plumbline.harness.gpu_monitor import NODE_GPUS, GpuWindow, MonitoredGpus
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.job.coordinator import Coordinator, gang_identity
from plumbline.results import GpuCounter

TRIAL = a_trial("training")


@pytest.fixture
def place() -> Topology:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Topology(0, 3, 1, Address("127.0.0.1", server.getsockname()[1]))


@pytest.fixture
def nodes(place: Topology) -> Iterator[Callable[..., Channel]]:
    """Connects as a node would, and joins unless told otherwise."""
    links: list[Channel] = []

    def join(node: int, *, joined: bool = True, trial: object = None) -> Channel:
        assert place.rendezvous is not None
        link = connect(place.rendezvous, 5, lambda why: None)
        links.append(link)
        link.send("hello", node=node, name=f"gang-{node}", trial=trial or gang_identity(TRIAL))
        if joined:
            link.send("joined", data="d" * 64, port=29)
        return link

    yield join
    for link in links:
        link.close()


def said(link: Channel) -> Message:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if news := link.news():
            return news[0]
    raise AssertionError("nothing was said")


def gathered(team: Coordinator, patience_s: float = 10.0) -> list[str]:
    notes: list[str] = []
    team.gather(patience_s, "d" * 64, notes.append)
    return notes


def until(team: Coordinator, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        team.receive()


def test_a_run_from_joining_to_the_end(place: Topology, nodes: Callable[..., Channel]) -> None:
    with Coordinator(TRIAL, place) as team:
        one, two = nodes(1), nodes(2)
        note = gathered(team)[0]
        assert "nodes 1, 2" in note and note.endswith(str(place.rendezvous))
        assert team.interface_address == "127.0.0.1"
        team.start("run", Address("127.0.0.1", 4711), resume=False)
        assert said(one) == said(two) == {"kind": "start", "run": "run", "port": 4711, "resume": False}
        one.send("ended", logs={"1": []})
        until(team, lambda: team.logs)
        assert not team.all_ended
        two.send("ended", logs={"2": []})
        until(team, lambda: team.all_ended)
        assert sorted(team.logs) == [1, 2]
        team.start("fault", Address("127.0.0.1", 4711), resume=True)
        assert not team.all_ended and not team.logs, "of the new run"
        for link in (one, two):
            link.send("ended", logs={})
        team.stop(10, lambda: None)
        for link in (one, two):
            link.close()
    assert set(team.causes) == {1, 2}, "who hung up at the end is no concern of the trial any more"


def test_at_the_end_everybody_is_told_how_it_went(place: Topology, nodes: Callable[..., Channel]) -> None:
    heard: list[Message] = []
    why = "the disk is full"

    def listen(link: Channel) -> None:
        heard.append(said(link))
        link.close()

    with pytest.raises(TrialFailed), Coordinator(TRIAL, place) as team:
        one, two = nodes(1), nodes(2)
        gathered(team)
        two.close()
        listener = threading.Thread(target=listen, args=[one])
        listener.start()
        raise TrialFailed("harness_error", why)
    listener.join()
    assert heard == [{"kind": "end", "because": why}]


def test_a_node_hands_its_gpus_over_as_its_last_word(place: Topology, nodes: Callable[..., Channel]) -> None:
    heard: list[Message] = []
    reading = MonitoredGpus(
        1, {"steady": GpuWindow(1500.0, 3.0, 30)}, (GpuCounter(node=1, gpu=0, counter="pcie_replays", before=1, after=1),), ()
    )

    def follow(link: Channel) -> None:
        while not heard or heard[-1]["kind"] != "end":
            heard.extend(link.news())
        link.send("gpus", reading=NODE_GPUS.dump_python(reading, mode="json"))
        link.close()

    with Coordinator(TRIAL, place) as team:
        one, two = nodes(1), nodes(2)
        gathered(team)
        team.enter("steady")
        team.enter(None)
        listener = threading.Thread(target=follow, args=[one])
        listener.start()
        two.close()
    listener.join()
    assert heard[:-1] == [{"kind": "phase", "name": "steady"}, {"kind": "phase", "name": None}]
    assert team.gpus == {1: reading, 2: None}


@pytest.mark.fault("a node of a gang goes away", ends="interrupted", keeps="what node 0 measured")
def test_a_node_that_is_gone_was_interrupted(place: Topology, nodes: Callable[..., Channel]) -> None:
    with Coordinator(TRIAL, place) as team:
        one, two = nodes(1), nodes(2)
        gathered(team)
        one.close()
        until(team, lambda: team.causes)
        cause = team.causes[1]
        assert (cause.failure_class, cause.certain) == ("interrupted", True)
        assert cause.detail.startswith("node 1 (gang-1) ")
        two.close()


def test_a_node_that_says_why_it_failed_is_believed(place: Topology, nodes: Callable[..., Channel]) -> None:
    with Coordinator(TRIAL, place) as team:
        one, two = nodes(1), nodes(2, joined=False)
        two.send("failed", failure_class="wrong_hardware", detail="7 GPUs", certain=True, passing=False)
        with pytest.raises(TrialFailed) as caught:
            gathered(team)
        assert caught.value.failure_class == "wrong_hardware" and caught.value.detail.endswith("(gang-2): 7 GPUs")
        two.close()
        until(team, lambda: not [link for link in team.sources if link is two])
        assert team.causes[2].failure_class == "wrong_hardware", "its going away afterwards explains nothing"
        one.close()


def test_what_may_pass_is_forgotten_with_the_next_run(place: Topology, nodes: Callable[..., Channel]) -> None:
    with Coordinator(TRIAL, place) as team:
        one, two = nodes(1), nodes(2)
        gathered(team)
        team.start("run", Address("127.0.0.1", 1), resume=False)
        one.send("failed", failure_class="interrupted", detail="a rank was killed", certain=True, passing=True)
        until(team, lambda: team.causes)
        for link in (one, two):
            link.send("ended", logs={})
        team.stop(10, lambda: None)
        assert team.causes[1].passing
        team.start("run-2", Address("127.0.0.1", 1), resume=True)
        assert team.causes == {}
        two.close()
        until(team, lambda: team.causes)
        team.start("run-3", Address("127.0.0.1", 1), resume=True)
        assert list(team.causes) == [2], "a node that is gone stays so"
        one.close()


def test_a_node_that_is_gone_after_its_ranks_broke_off_is_gone(place: Topology, nodes: Callable[..., Channel]) -> None:
    with Coordinator(TRIAL, place) as team:
        one, two = nodes(1), nodes(2)
        gathered(team)
        team.start("run", Address("127.0.0.1", 1), resume=False)
        one.send("failed", failure_class="harness_error", detail="signal 11", certain=True, passing=True)
        one.close()
        until(team, lambda: 1 in team.causes and not team.causes[1].passing)
        with pytest.raises(TrialFailed, match=r"^interrupted: node 1"):
            team.stop(10, lambda: None)
        two.close()


def test_strangers_are_hung_up_on_and_disturb_nobody(place: Topology, nodes: Callable[..., Channel]) -> None:
    assert place.rendezvous is not None
    with Coordinator(TRIAL, place) as team:
        scanner = socket.create_connection((place.rendezvous.host, place.rendezvous.port))
        scanner.sendall(b"GET / HTTP/1.1\r\n\r\n")
        other_gang, outside = nodes(1, trial=["another", 1, "x"]), nodes(7)
        one, two = nodes(1), nodes(2)
        gathered(team)
        assert team.causes == {}
        for link in (other_gang, outside):
            with pytest.raises(PeerDisconnected):
                said(link)
        team.start("run", Address("127.0.0.1", 1), resume=False)
        assert said(one)["kind"] == said(two)["kind"] == "start"
        for end in (scanner, one, two):
            end.close()


def test_who_does_not_come_is_named(place: Topology, nodes: Callable[..., Channel]) -> None:
    with Coordinator(TRIAL, place) as team:
        one = nodes(1)
        with pytest.raises(TrialFailed, match=str(place.rendezvous)) as caught:
            gathered(team, 1.0)
        assert caught.value.failure_class == "launch_timeout" and caught.value.detail.startswith("node 2 ")
        one.close()


def test_other_data_is_refused(place: Topology, nodes: Callable[..., Channel]) -> None:
    with Coordinator(TRIAL, place) as team:
        links = [nodes(1), nodes(2)]
        with pytest.raises(TrialFailed, match=r"^harness_error: node 1"):
            team.gather(10, "e" * 64, lambda note: None)
        for link in links:
            link.close()


def test_a_node_that_does_not_stop_is_not_waited_for_for_ever(place: Topology, nodes: Callable[..., Channel]) -> None:
    with Coordinator(TRIAL, place) as team:
        links = [nodes(1), nodes(2)]
        gathered(team)
        with pytest.raises(TrialFailed, match=r"^harness_error: .*\b0 s"):
            team.stop(0.2, lambda: None)
        for link in links:
            link.close()


def test_a_port_that_is_taken(place: Topology) -> None:
    assert place.rendezvous is not None
    with (
        socket.create_server((place.rendezvous.host, place.rendezvous.port)),
        pytest.raises(TrialFailed, match=f"{place.rendezvous}: {os.strerror(errno.EADDRINUSE)}"),
        Coordinator(TRIAL, place),
    ):
        pass


def test_who_a_gang_is_survives_the_connection() -> None:
    assert json.loads(json.dumps(gang_identity(TRIAL))) == gang_identity(TRIAL)
