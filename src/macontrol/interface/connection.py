"""A connection to a running daemon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.errors import UsageError
from macontrol.control.client import Client, open_client

_PROGRAM = "Python"


@dataclass(frozen=True, eq=False)
class Estimate:
    """The posterior along the rail at one moment. Rewards are in bit/s/Hz."""

    slot: int
    """The slot of the latest decision."""
    position: NDArray[np.float64]
    """Grid points in wavelengths."""
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    """The posterior standard deviation."""
    acquisition: NDArray[np.float64] | None
    """F_t; None for a policy without a surface."""
    position_now: float | None
    """Where the antenna is."""
    target: float | None
    """z_t."""


class Connection:
    """A running daemon: its state, and what an operator can do.

    An action that the daemon refuses raises MacontrolError. docs/control.md has the fields of a
    snapshot, and what each action does in which state.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; the daemon continues."""
        self._client.close()

    @property
    def name(self) -> str:
        """The name of the bench."""
        return str(self._client.about["name"])

    def status(self) -> dict[str, Any]:
        """Return a snapshot of the run."""
        return self._client.call("status")

    def snapshots(self, rate: float = 1.0) -> Iterator[dict[str, Any]]:
        """Yield snapshots, `rate` per second (0.1 to 10), until the daemon ends.

        Make other calls with another connection meanwhile.
        """
        yield from self._notified("snapshot", rate=rate, events=False)

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield events as they happen, until the daemon ends."""
        yield from self._notified("event", rate=0.0, events=True)

    def posterior(self) -> Estimate:
        """Return what the policy expects along the rail."""
        found = self._client.call("posterior")
        acquisition = found["acquisition"]
        return Estimate(
            slot=found["slot"],
            position=np.array(found["position"]),
            mean=np.array(found["mean"]),
            deviation=np.array(found["deviation"]),
            acquisition=None if acquisition is None else np.array(acquisition),
            position_now=found["position_now"],
            target=found["target"],
        )

    def hold(self) -> str:
        """Keep the antenna where it is; return "accepted" or "deferred", as each action does."""
        return self._act("hold")

    def resume(self) -> str:
        """Let the policy decide again."""
        return self._act("resume")

    def goto(self, position: float | None = None, *, mm: float | None = None) -> str:
        """Bring the antenna to a position, in wavelengths or in `mm`, and hold it there."""
        if (position is None) == (mm is None):
            raise UsageError("no position, or two", "give wavelengths, or mm=")
        if position is None:
            return self._act("goto", position_mm=mm)
        return self._act("goto", position=position)

    def set(self, key: str, value: float) -> str:
        """Change a setting of the policy, such as "algorithm.beta"."""
        return self._act("set", key=key, value=value)

    def resurvey(self) -> str:
        """Survey the rail again, and continue from the new survey."""
        return self._act("resurvey")

    def noise_floor(self) -> str:
        """Measure the noise floor again; an event has the result."""
        return self._act("noise_floor")

    def stop(self) -> str:
        """End the run after its slot."""
        return self._act("stop")

    def _act(self, method: str, **parameters: Any) -> str:
        return str(self._client.call(method, **parameters)["outcome"])

    def _notified(self, method: str, **wanted: Any) -> Iterator[dict[str, Any]]:
        self._client.call("subscribe", **wanted)
        for name, parameters in self._client.notifications():
            if name == method:
                yield parameters


def connect(name: str | None = None) -> Connection:
    """Connect to a running daemon: that of this name (or port), or the only one."""
    return Connection(open_client(name, _PROGRAM))
