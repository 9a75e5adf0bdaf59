"""Positions a movable antenna on a linear stage with a kernelized bandit (MoveUCB).

This package is the namespace. The rooms `config`, `controller`, `hal` and `sim` are folders at the
top of the repository and install as `macontrol.<room>`; the command line wires them together.
"""

import os

# Before anything can import numpy: BLAS reads these once, when it is loaded. The matrices here
# are about 30x30, where extra threads save no time and only add jitter to the slots.
# Results are bit-identical either way. A value the user has set is kept.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

__version__ = "0.1.0"
