"""The file of a calibrated site: a config that says what was measured, for --config."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from macontrol.config import Config, load_config
from macontrol.config.checks.site import bench_text
from macontrol.config.loading import values_of
from macontrol.controller.survey.calibration.result import Calibration

_COMMENT_WIDTH = 96


def site_text(
    config: Config,
    preset: str,
    calibration: Calibration,
    identity: Mapping[str, str],
    *,
    now_s: float,
) -> str:
    """The TOML text: the preset, when and where, the settings of the bench, and those measured."""
    measured = {setting.path: setting for setting in calibration.advice.settings}
    moment = datetime.fromtimestamp(now_s, UTC).isoformat(timespec="seconds")
    site = {
        "site.measured": moment,
        "site.carrier_frequency_hz": config.physical.carrier_frequency_hz,
        "site.rail_mm": float(f"{config.physical.rail_mm:.6g}"),
        "site.bench": bench_text(identity),
        "site.max_age_days": config.site.max_age_days,
    }
    given = {path: value for path, value in _of_the_bench(config, preset) if path not in measured}
    lines = [
        *_comment(
            f"A site, as `macontrol calibrate` measured it in {calibration.duration_s / 60:.3g} "
            "minutes. A run takes this file with --config. In brackets: the interval that has "
            "the true value with a probability of 95 %."
        ),
        *_comments("WARNING: ", calibration.advice.warnings),
        *_comments("note: ", calibration.advice.notes),
        f"preset = {_toml(preset)}",
    ]
    every = {**site, **given, **{path: setting.value for path, setting in measured.items()}}
    sections = dict.fromkeys(path.rpartition(".")[0] for path in every)
    for section in sections:
        lines += ["", f"[{section}]"]
        for path, value in every.items():
            if path.rpartition(".")[0] != section:
                continue
            if path in measured:
                lines += _comment(measured[path].reason)
            elif path in given:
                lines += _comment("as it was set when the site was measured")
            lines.append(f"{path.rpartition('.')[2]} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _of_the_bench(config: Config, preset: str) -> Iterator[tuple[str, Any]]:
    """The settings in which the config differs from its preset, without kernel and site."""
    start = dict(values_of(load_config(preset=preset)))
    for path, value in values_of(config):
        section = path.partition(".")[0]
        if section not in ("kernel", "site") and start.get(path, _MISSING) != value:
            yield path, value


_MISSING = object()


def _comments(prefix: str, texts: tuple[str, ...]) -> Iterator[str]:
    for text in texts:
        yield from _comment(prefix + text)


def _comment(text: str) -> Iterator[str]:
    """A text as comment lines, without signs that would end one."""
    from textwrap import wrap

    for line in wrap(" ".join(text.split()), _COMMENT_WIDTH):
        yield f"# {line}"


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
