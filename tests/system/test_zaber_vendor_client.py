"""The virtual Zaber device, driven by the client library of the vendor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from macontrol.controller.runtime.clock import WallClock
from macontrol.sim.bench.boards.zaber import MICROSTEP_MM, VirtualZaber
from support.waiting import wait_until

if TYPE_CHECKING:
    from zaber_motion.ascii import Axis, Connection

try:
    import zaber_motion
    import zaber_motion.ascii
except ImportError as error:  # no wheel for this machine, or not installed
    pytest.skip(f"zaber-motion is not installed: {error}", allow_module_level=True)

pytestmark = pytest.mark.any_user

CLOCK = WallClock()


@pytest.fixture(params=["bare", "checksums"])
def device(request: pytest.FixtureRequest) -> Iterator[VirtualZaber]:
    settings = {"comm.checksum": float(request.param == "checksums"), "limit.max": 100_000.0}
    with VirtualZaber(CLOCK, settings=settings, distance_mm=5.0) as device:
        yield device


@pytest.fixture
def connection(device: VirtualZaber) -> Iterator[Connection]:
    with zaber_motion.ascii.Connection.open_serial_port(device.port) as connection:
        yield connection


@pytest.fixture
def axis(connection: Connection) -> Axis:
    return connection.get_device(1).get_axis(1)


def test_the_device_is_found_on_the_chain(connection: Connection) -> None:
    (found,) = connection.detect_devices(identify_devices=False)
    assert found.device_address == 1


def test_settings_are_read_and_written(connection: Connection, axis: Axis) -> None:
    assert axis.settings.get("limit.max") == 100_000
    assert float(connection.get_device(1).generic_command("get version").data) == 7.38
    axis.settings.set("maxspeed", 100_000)
    assert axis.settings.get("maxspeed") == 100_000


def test_the_device_is_homed(device: VirtualZaber, axis: Axis) -> None:
    assert not axis.is_homed()
    assert axis.warnings.get_flags() == {"WR"}
    axis.home()
    assert axis.is_homed()
    assert axis.warnings.get_flags() == set()
    assert axis.get_position() == 0
    assert device.position_at(CLOCK.now()) == 0


def test_the_device_moves_and_reports_its_position(device: VirtualZaber, axis: Axis) -> None:
    axis.home()
    for target in (20_000, 20_001, 500):
        axis.move_absolute(target)
        assert axis.get_position() == target
        assert device.position_at(CLOCK.now()) == pytest.approx(target * MICROSTEP_MM)
    axis.move_relative(250)
    assert axis.get_position() == 750


def test_the_device_is_busy_in_motion_and_can_be_stopped(axis: Axis) -> None:
    axis.home()
    axis.move_absolute(100_000, wait_until_idle=False)
    assert axis.is_busy()
    axis.stop()
    assert not axis.is_busy()
    assert 0 < axis.get_position() < 100_000


def test_a_move_beyond_its_limits_is_rejected(axis: Axis) -> None:
    axis.home()
    with pytest.raises(zaber_motion.CommandFailedException) as refusal:
        axis.move_absolute(100_001)
    assert refusal.value.details.response_data == "BADDATA"
    with pytest.raises(zaber_motion.CommandFailedException) as refusal:
        axis.generic_command("dance")
    assert refusal.value.details.response_data == "BADCOMMAND"


def test_a_stall_is_a_failed_movement(device: VirtualZaber, axis: Axis) -> None:
    axis.home()
    axis.move_absolute(90_000, wait_until_idle=False)
    device.stall()
    with pytest.raises(zaber_motion.MotionLibException) as failure:
        axis.wait_until_idle()
    assert "FS" in str(failure.value)


def test_alerts_are_sent_when_they_are_switched_on(
    device: VirtualZaber, connection: Connection, axis: Axis
) -> None:
    axis.home()
    received: list[str] = []
    subscription = connection.alert.subscribe(lambda event: received.append(event.status))
    connection.enable_alerts()  # it does not wait for a reply
    wait_until(lambda: device.settings["comm.alert"] == 1)
    axis.generic_command("move abs 1000")
    wait_until(lambda: bool(received))
    subscription.dispose()
    assert received == ["IDLE"]


def test_a_device_that_lost_its_supply_is_not_homed(device: VirtualZaber, axis: Axis) -> None:
    axis.home()
    device.reset()
    assert not axis.is_homed()


def test_the_client_refuses_a_wrong_checksum() -> None:
    """So the checksums it does take, in all the tests above, are right."""

    class Spoilt(VirtualZaber):
        def _transmit(self, data: bytes, delay_s: float = 0.0) -> None:
            super()._transmit(data.replace(b"IDLE", b"IDLF"), delay_s)

    with (
        Spoilt(CLOCK, settings={"comm.checksum": 1.0}) as device,
        zaber_motion.ascii.Connection.open_serial_port(device.port) as connection,
    ):
        connection.default_request_timeout = 300
        with pytest.raises(zaber_motion.RequestTimeoutException):
            connection.generic_command("get pos", device=1, axis=1)
        assert "get pos" in device.lines
