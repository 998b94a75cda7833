"""The rules that new fields get by themselves: what each goes over, counted by the walk that its tests use.

`python -m tests.data.rules` prints the table of docs/measurements/rules.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.unit.cli.test_locked_archive import EVERY_READER
from tests.unit.dashboard import test_planted_money as money
from tests.unit.declarations import test_limits as limits
from tests.unit.declarations import test_secret_texts as secret
from tests.unit.house import test_bounds as bounds

from plumbline.archive.columns import PrintableJson, PrintableText
from plumbline.archive.schema import Base
from plumbline.dashboard.money_fields import money_fields


class Rule(NamedTuple):
    """A row of the table. `toy`: the test in which a field that no list names is covered."""

    says: str
    place: str
    over: str
    toy: str


def rules() -> Iterator[Rule]:
    fields = [sum(len(money_fields(each)) for each in kinds) for kinds in (money.MODELS, money.RECORDS, money.TABLES)]
    yield Rule(
        "an amount reaches no reader without access to costs",
        "dashboard.money_fields",
        f"{len(money.MODELS)} models with {fields[0]} fields of money, {len(money.RECORDS)} records with {fields[1]}, "
        f"{len(money.TABLES)} tables with {fields[2]}",
        "test_planted_money.py: a_page_with_a_new_field_is_covered_without_an_edit",
    )
    yield Rule(
        "no declared text holds a secret",
        "declarations.secret_texts",
        f"{sum(len(secret.paths(model, 'text')) for model in secret.MODELS)} paths to a text in {len(secret.MODELS)} kinds of files",
        "test_secret_texts.py: a_new_field_is_covered_by_itself",
    )
    columns = [column for table in Base.metadata.tables.values() for column in table.columns]
    texts = [column for column in columns if isinstance(column.type, PrintableText | PrintableJson)]
    yield Rule(
        "stored text moves no terminal's cursor, and is looked through for secrets",
        "archive.columns, archive.stored_secrets",
        f"{len(texts)} columns of text or JSON of {len(columns)}",
        "test_terminal.py: every_column_of_text_stores_none; test_stored_secrets.py: every_text_of_every_table_is_looked_at",
    )
    sources = list(bounds.sources())
    yield Rule(
        "nothing is read whole or inflated without a bound; numbers of others come from one place; declared patterns are tried",
        "formats.reading.foreign_number, formats.reading.pattern",
        f"{len(sources)} source files, of which {len(bounds.EXEMPT_BODIES) + len(bounds.EXEMPT_NUMBERS)} are exempt with a reason; "
        f"{len(bounds.patterns(bounds.declared_models()))} declared patterns",
        "test_bounds.py: a_new_reader_without_a_bound_is_found, a_new_field_is_covered_by_its_type",
    )
    yield Rule(
        "what stops or limits counts at once, while another file is broken",
        "declarations.limits",
        f"{len(limits.marked())} fields of a provider",
        "test_limits.py: a_new_field_of_the_kind_is_covered_by_itself",
    )
    yield Rule(
        "a held archive is one sentence",
        "cli.guard",
        f"{len(EVERY_READER)} command lines, compared with the list of all commands",
        "test_missing_archive.py: every_command_is_covered",
    )


if __name__ == "__main__":
    lines = ["| rule | written in | goes over | a new one is covered |", "|---|---|---|---|"]
    lines += [f"| {rule.says} | `{rule.place}` | {rule.over} | {rule.toy} |" for rule in rules()]
    sys.stdout.write("\n".join(lines) + "\n")
