"""Contract suites for stages, probes and policies, and a scripted serial line.

A plug-in runs them in its own tests: a subclass of `StageContract`, `SerialStageContract`,
`ProbeContract` or `PolicyContract` inherits one test per rule of the protocol. macontrol's own
drivers and policies run the same suites. docs/test-a-plug-in.md shows how.

This package needs pytest and hypothesis.
"""

try:
    import hypothesis  # noqa: F401 - the suite of policies uses it
    import pytest
except ImportError as error:
    raise ImportError(
        f"macontrol.testing needs pytest and hypothesis ({error}): "
        "run pip install pytest hypothesis"
    ) from error

# Before these are imported, so that a failed rule shows the values it compared.
for _module in (
    "contract",
    "policy_contract",
    "probe_contract",
    "scripted_line",
    "serial_contract",
    "stage_bench",
    "stage_contract",
    "stage_subject",
):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")

from macontrol.testing.policy_contract import PolicyContract  # noqa: E402
from macontrol.testing.probe_contract import ProbeContract  # noqa: E402
from macontrol.testing.scripted_line import (  # noqa: E402
    UNPLUGGED,
    Answer,
    Exchange,
    ScriptedLine,
    StageDesk,
)
from macontrol.testing.serial_contract import SerialStageContract  # noqa: E402
from macontrol.testing.stage_bench import StageBench, emulated_bench  # noqa: E402
from macontrol.testing.stage_contract import StageContract  # noqa: E402

__all__ = [
    "UNPLUGGED",
    "Answer",
    "Exchange",
    "PolicyContract",
    "ProbeContract",
    "ScriptedLine",
    "SerialStageContract",
    "StageBench",
    "StageContract",
    "StageDesk",
    "emulated_bench",
]
