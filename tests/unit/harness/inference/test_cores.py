from __future__ import annotations

from plumbline.harness.inference.server.listening import divide_cores


def test_few_cores_are_shared_and_that_is_told() -> None:
    found = divide_cores([0, 1], 2)
    assert (found.client, found.server, found.server_count) == (None, None, 2)
    assert "too few" in found.description


def test_from_four_cores_on_the_client_has_the_last_ones() -> None:
    assert (divide_cores([2, 3, 6, 7], 4).client, divide_cores([2, 3, 6, 7], 4).server) == ((7,), (2, 3, 6))
    many = divide_cores(range(32), 32)
    assert many.client == (28, 29, 30, 31)
    assert many.server == tuple(range(28))
    assert many.server_count == 28


def test_a_share_of_a_nodes_time_is_no_core_of_ones_own() -> None:
    found = divide_cores(range(64), 8)
    assert (found.client, found.server, found.server_count) == (None, None, 8)
    assert "8 cores" in found.description and "64 cores" in found.description


def test_servers_that_are_kept_apart_have_distinct_cores_and_as_many_each() -> None:
    assert divide_cores([4, 5], 2, claimed=2).each(2) == [(4,), (5,)], "two cores are too few to give the client one"
    apart = divide_cores(range(8), 8, claimed=6)
    assert apart.client == (7,) and apart.each(3) == [(0, 1), (2, 3), (4, 5)]
    whole = divide_cores(range(8), 8, claimed=8)
    assert whole.client is None and whole.each(8) == [(k,) for k in range(8)], "the servers were promised all of them"


def test_without_cores_of_ones_own_servers_are_not_kept_apart() -> None:
    assert divide_cores(range(64), 8, claimed=8).each(8) is None
    assert divide_cores([0], 1, claimed=2).each(2) is None, "fewer cores than servers"
