"""A request of the dashboard to a daemon."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from pathlib import Path

import pytest

from macontrol.config.model.errors import RequestError
from macontrol.control.messages import WRONG_PARAMETERS
from macontrol.dashboard.connection import Connection


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_refused_before_it_is_sent(value: float) -> None:
    """JSON of a browser cannot have it, but Python reads NaN and 1e999."""

    async def attempt(path: Path) -> None:
        connection = Connection()
        await connection.open(path)
        try:
            await connection.request("goto", {"position": value})
        finally:
            connection.close()

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as daemon:
        path = Path(folder, "daemon.sock")
        daemon.bind(str(path))
        daemon.listen(1)
        with pytest.raises(RequestError) as found:
            asyncio.run(attempt(path))
        client, _ = daemon.accept()
        with client:
            assert client.recv(10) == b""
    assert found.value.code == WRONG_PARAMETERS
