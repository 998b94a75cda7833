"""What the archive and the declarations say, as values: read by pages, commands, reports and workflows, and written by none of them.

`from plumbline import answers` imports an answer when its name is first used.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plumbline.answers import campaign_bill, compare, current_results


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(name) from error
