"""What Grafana makes of a PostgreSQL query before it sends it: macros and variables, as its documentation says.

Only what the dashboard in `k8s/grafana/` uses; anything else that is left with a `$` is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def expand(sql: str, variables: Mapping[str, str | Sequence[str]], since: datetime, until: datetime, interval: str = "1d") -> str:
    """The query as it reaches the database. KeyError for a variable that nobody declared, ValueError for a macro that is not known here."""
    sql = re.sub(r"\$\{(\w+):sqlstring\}", lambda m: _sqlstring(variables[m[1]]), sql)
    sql = sql.replace("$__interval", f"'{interval}'")
    sql = re.sub(r"\$__timeGroupAlias\(([\w.]+), ?'([^']+)'\)", lambda m: f'{_group(m[1], m[2])} AS "time"', sql)
    sql = re.sub(r"\$__timeFilter\(([\w.]+)\)", lambda m: f"{m[1]} BETWEEN {_instant(since)} AND {_instant(until)}", sql)
    if "$" in sql:
        raise ValueError(f"not expanded: {sql[sql.index('$') : sql.index('$') + 40]}")
    return sql


def used_variables(text: str) -> set[str]:
    """Names of the variables that a text refers to; macros, which begin with two underscores, are none."""
    return {a or b for a, b in re.findall(r"\$(?:\{(\w+)[^}]*\}|(\w+))", text) if not (a or b).startswith("__")}


def _sqlstring(value: str | Sequence[str]) -> str:
    values = [value] if isinstance(value, str) else value
    return ",".join("'" + v.replace("'", "''") + "'" for v in values)


def _group(column: str, interval: str) -> str:
    seconds = int(interval[:-1]) * _SECONDS[interval[-1]]
    return f"floor(extract(epoch from {column})/{seconds})*{seconds}"


def _instant(moment: datetime) -> str:
    return f"'{moment.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}'"
