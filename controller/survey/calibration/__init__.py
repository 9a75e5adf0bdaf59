"""Calibration: measure what a run needs to know of its site, with uncertainties.

`plan` divides the time, `walking` measures, the other modules estimate from arrays alone.
"""
