"""Great Expectations without what it computes again and again: half of the time of a suite over a small table.

For each expectation the library makes its object, its configuration, the hashes of its arguments and the rows it is about anew for each
of some dozen metrics. Here each is made once; results and pages stay as they are.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from great_expectations.core.id_dict import IDDict
from great_expectations.data_context import AbstractDataContext
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

_PLAIN = frozenset((str, int, float, bool, type(None)))
_MOST_HASHES = 10_000


class _Made(threading.local):
    """What was made last in this thread: each object that something was made from, its fields at the time, and what was made."""

    def __init__(self) -> None:
        self.of: deque[tuple[Any, dict[str, Any], Any]] = deque(maxlen=4)


def _made_once(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`make`, which is called for one expectation many times, with one made from it in between, and for the next only after that."""
    made = _Made()

    def remembering(source: Any) -> Any:
        fields = vars(source)
        for known, before, result in made.of:
            if known is source and before == fields:
                return result
        result = make(source)
        # Copied, as the library adds arguments to them.
        made.of.appendleft((source, {name: dict(value) if type(value) is dict else value for name, value in fields.items()}, result))
        return result

    return remembering


_hash = IDDict.to_id
_hashes: dict[tuple[object, ...], Any] = {}


def _to_id(self: IDDict, id_keys: Any = None, id_ignore_keys: Any = None) -> Any:
    types = tuple(map(type, self.values()))
    if id_keys is not None or id_ignore_keys is not None or not _PLAIN.issuperset(types):
        return _hash(self, id_keys, id_ignore_keys)
    key = (*self.items(), types)  # True equals 1, and has another hash
    if key not in _hashes:
        if len(_hashes) >= _MOST_HASHES:
            _hashes.clear()
        _hashes[key] = _hash(self)
    return _hashes[key]


_records = PandasExecutionEngine.get_domain_records
_FILTERS = ("batch_id", "row_condition", "condition_parser", "column_A", "column_B", "column_list", "ignore_row_if")


def _get_domain_records(self: PandasExecutionEngine, domain_kwargs: dict[str, Any]) -> Any:
    """The rows, kept in the engine, which lives as long as one suite's check."""
    if domain_kwargs.get("table") or domain_kwargs.get("batch_id") is None:
        return _records(self, domain_kwargs)
    known = vars(self).setdefault("_records_of", {})
    key = repr([(name in domain_kwargs, domain_kwargs.get(name)) for name in _FILTERS])
    if key not in known:
        known[key] = _records(self, domain_kwargs)
    return known[key]


def install() -> None:
    """For all checks of this process."""
    Expectation.configuration = property(_made_once(Expectation.configuration.fget))
    ExpectationConfiguration.to_domain_obj = _made_once(ExpectationConfiguration.to_domain_obj)
    IDDict.to_id = _to_id
    PandasExecutionEngine.get_domain_records = _get_domain_records


def keep_nothing(context: AbstractDataContext) -> None:
    """A context in memory would write its configuration as YAML, for no reader, whenever it changes."""
    context._save_project_config = lambda: None
