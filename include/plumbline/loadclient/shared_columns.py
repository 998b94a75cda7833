"""The columns of a phase's log in memory that several processes share."""

from __future__ import annotations

import mmap
import os
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from plumbline.loadclient.engine import LoadCommand
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog

_ALIGNED = 64
_ORDERS: tuple[LoadCommand, ...] = ("go_on", "stop", "server_ended")


class SharedColumns:
    """The columns of one phase's log, the phase's begin and the current order. Opening the same file for the same load shows the same columns;
    open all before the phase begins, because opening empties them."""

    def __init__(self, load: PhaseLoad, stages: tuple[str, ...], fd: int | None = None) -> None:
        size = _ColumnSizes()
        RequestLog.of(load, size.zeros, stages)
        self.fd = os.memfd_create("plumbline-requests") if fd is None else fd
        os.ftruncate(self.fd, size.used)
        self._memory = mmap.mmap(self.fd, size.used)
        self._used = 0
        self._control = self._zeros((2,), np.float64)
        if fd is None:
            self._control[:] = np.nan, 0
        self.log = RequestLog.of(load, self._zeros, stages)

    @property
    def began(self) -> float:
        """Monotonic second at which the phase begins; NaN: not known yet."""
        return float(self._control[0])

    @began.setter
    def began(self, moment: float) -> None:
        self._control[0] = moment

    @property
    def order(self) -> LoadCommand:
        return _ORDERS[int(self._control[1])]

    @order.setter
    def order(self, order: Literal["go_on", "stop", "server_ended"]) -> None:
        self._control[1] = _ORDERS.index(order)

    def close(self) -> None:
        os.close(self.fd)

    def _zeros(self, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
        count = int(np.prod(shape))
        column: NDArray[Any] = np.frombuffer(self._memory, kind, count, self._used).reshape(shape)
        self._used += _aligned(column.nbytes)
        return column


class _ColumnSizes:
    def __init__(self) -> None:
        self.used = _ALIGNED

    def zeros(self, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
        column = np.zeros(shape, kind)
        self.used += _aligned(column.nbytes)
        return column


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
