"""Tables that do not fit the terminal become cards; columns of providers continue below."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from plumbline.cli import output, tables
from plumbline.cli.output import beside, fitted, table
from plumbline.cli.tables import ProviderTable, print_table

WORDS = ("provider-with-a-name", "training", "a-workload", "02:00, 10:00", "77", "122,781 tokens/s", "123.45 USD")


@pytest.fixture
def console(monkeypatch):
    made = output._Console(file=io.StringIO(), width=80)
    for module in (output, tables):
        monkeypatch.setattr(module, "out", made)
    return made


def printed(console: Console) -> list[str]:
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def wide(rows: int = 2):
    made = table("Title", "provider", "kind", "workload", "slots", "trials", "speed", "cost")
    for _ in range(rows):
        made.add_row(*WORDS)
    return made


def test_a_table_that_fits_stays_one(console):
    small = table("", "a", "b")
    small.add_row("1", "2")
    assert fitted(console, small) is small


def test_no_word_is_cut(console):
    console.print(wide())
    lines = printed(console)
    assert all(cell_len(line) <= 80 for line in lines)
    text = "\n".join(lines)
    assert all(text.count(word) == 2 for word in WORDS)


def test_the_first_ten_and_where_the_rest_is(console):
    print_table(wide(50), 10)
    lines = printed(console)
    assert sum(line.startswith(WORDS[0]) for line in lines) == 10
    assert "40" in lines[-1] and "--all" in lines[-1]


def test_columns_of_fifty_providers_continue_below(console):
    names = [f"provider-{n:02d}" for n in range(50)]
    made = ProviderTable("Title", ("metric",), names)
    made.add(("step time",), [f"{n} ms" for n in range(50)])
    made.print(right=True)
    lines = printed(console)
    assert all(cell_len(line) <= 80 for line in lines)
    assert all("\n".join(lines).count(name) == 1 for name in names)
    assert all(f" {n} ms" in "\n".join(lines) for n in range(50))


@pytest.mark.parametrize("width", [40, 60])
def test_what_does_not_fit_beside_a_label_goes_on_below_the_text(console, width):
    console.width = width
    words = [f"word-{n}" for n in range(20)]
    beside(Text("label  "), Text(" ".join(words)))
    first, *others = printed(console)
    assert first.startswith("label  word-0") and others
    assert all(line.startswith("       word-") and len(line) <= width for line in others)
    assert " ".join([first, *others]).split()[1:] == words


def test_a_piped_line_stays_one_for_grep(console):
    console.width = 140
    beside(Text("label  "), Text("word " * 50))
    assert len(printed(console)) == 1
