"""Options that several commands share, defined once."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

from macontrol.config import Config, Loaded, load_config, load_with_origins, preset_names
from macontrol.config.layers import DEFAULT
from macontrol.config.model.errors import UsageError
from macontrol.config.model.registry import Registry, is_reference
from macontrol.config.model.suggestion import did_you_mean, pip_install, shortened
from macontrol.config.policies import POLICIES
from macontrol.config.sections.run import LARGEST_HORIZON, LARGEST_SEED
from macontrol.hal.registry import PROBES, STAGES

PLOT_ENDINGS = (".png", ".svg", ".pdf")
BY_BACKEND = "paper; of a serial bench without --config its stage's lab preset"


def add_config_arguments(
    parser: argparse.ArgumentParser, *, policy: bool = False, preset: str = "paper"
) -> None:
    """--config, --preset, --set and, where it makes sense, --policy."""
    group = parser.add_argument_group("configuration")
    group.add_argument("--config", type=Path, metavar="FILE", help="a TOML file of settings")
    group.add_argument(
        "--preset",
        metavar="NAME",
        help=f"the settings to start from: {', '.join(preset_names())} (default: {preset})",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="change one setting, as in algorithm.beta=2; can be repeated",
    )
    if policy:
        group.add_argument(
            "--policy",
            type=named(POLICIES),
            metavar=_choices(POLICIES),
            help="the policy (default: the config's)",
        )


def add_bench_arguments(parser: argparse.ArgumentParser, *, consent: bool = True) -> None:
    """--stage, --port, --probe, --traffic and, where the stage moves, --yes."""
    bench = parser.add_argument_group("serial bench")
    add_stage_argument(bench)
    bench.add_argument("--port", metavar="PORT", help="the stage's port, as in /dev/ttyUSB0")
    bench.add_argument(
        "--probe",
        metavar="PROBE",
        help=f"{_probe_forms()} (default: the config's)",
    )
    bench.add_argument(
        "--traffic",
        type=Path,
        metavar="FILE",
        help="log the traffic on the serial line to this file",
    )
    if consent:
        bench.add_argument(
            "--yes", action="store_true", help="home the stage without asking: the rail is clear"
        )


def add_hand_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """The options of a command that moves a bench by hand."""
    parser.add_argument(
        "--backend",
        choices=("sim", "serial"),
        required=required,
        help="move a simulated bench, or a stage with a probe"
        + ("" if required else ", if no daemon has it"),
    )
    parser.add_argument("--seed", type=seed_number, metavar="N", help="seed of the simulated world")
    add_bench_arguments(parser)
    add_config_arguments(parser, preset=BY_BACKEND)


def add_stage_argument(parser: argparse._ActionsContainer) -> None:
    """--stage, with the names of all drivers; none of them is imported."""
    parser.add_argument(
        "--stage", type=named(STAGES), metavar=_choices(STAGES), help="default: the config's"
    )


def _choices(registry: Registry[Any]) -> str:
    return f"{{{','.join(registry.names())},MODULE:NAME}}"


def named(registry: Registry[Any]) -> Callable[[str], str]:
    """The type of an argument that names a driver or a policy."""

    def name(text: str) -> str:
        if text not in registry:
            hint = did_you_mean(text, [*registry.names(), "MODULE:NAME"])
            raise argparse.ArgumentTypeError(f"no choice {shortened(text)}; {hint}")
        return text

    return name


def _probe_forms() -> str:
    """What --probe takes. Plug-ins are listed by name, as their forms are known to them alone."""
    built_in = PROBES.built_in_names()
    others = [name for name in PROBES.names() if name not in built_in]
    return ", or ".join([*(PROBES[name].option for name in built_in), *others, "MODULE:NAME"])


def refuse_bench_arguments(arguments: argparse.Namespace) -> None:
    """Refuse options of the serial bench with another backend."""
    for option in ("stage", "port", "probe", "traffic", "yes"):
        if getattr(arguments, option, None):
            raise UsageError(f"--{option} needs --backend serial")


def _bench_assignments(arguments: argparse.Namespace) -> list[str]:
    """The settings that the options of the serial bench set."""
    chosen = {}
    if arguments.port is not None:
        chosen["stage.port"] = arguments.port
    if arguments.stage is not None:
        chosen["stage.driver"] = arguments.stage
    if arguments.probe is not None:
        chosen |= parse_probe_option(arguments.probe)
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in chosen.items()]


def config_from(arguments: argparse.Namespace, *extra: str, base: Config | None = None) -> Config:
    """The config that the options describe; `extra` assignments come last.

    Without --preset, the values of `base` replace those of the default preset.
    """
    return loaded_from(arguments, *extra, base=base).config


def loaded_from(arguments: argparse.Namespace, *extra: str, base: Config | None = None) -> Loaded:
    """As `config_from`, with the origin of each value."""
    assignments = [*_assignments(arguments), *extra]
    return load_with_origins(arguments.config, assignments, preset=arguments.preset, base=base)


def _assignments(arguments: argparse.Namespace) -> list[str]:
    """What --set, --policy and --seed assign."""
    found = list(arguments.set)
    if policy := getattr(arguments, "policy", None):
        found.append(f'algorithm.policy="{policy}"')
    if (seed := getattr(arguments, "seed", None)) is not None:
        found.append(f"run.seed={seed}")
    return found


def choose_lab_preset(arguments: argparse.Namespace) -> bool:
    """Without --preset and --config, choose the stage's lab preset; return whether it did."""
    if arguments.preset is not None or arguments.config is not None:
        return False
    arguments.preset = lab_preset(getattr(arguments, "stage", None))
    return True


def lab_preset(stage: str | None = None) -> str:
    """The preset of a serial bench where neither a preset nor a file is given, by its stage."""
    return STAGES[stage or load_config().stage.driver].preset


def parse_probe_option(text: str) -> dict[str, str]:
    """The settings that `--probe` stands for."""
    built_in = PROBES.built_in_names()
    if is_reference(text) or (text in PROBES and text not in built_in):
        return {"probe.driver": text}
    for driver in PROBES.working():
        try:
            own = driver.parse(text)
        except ValueError as error:
            raise UsageError(f"--probe: {error}") from None
        if own is not None:
            keys = {f"probe.{driver.name}.{key}": value for key, value in own.items()}
            return {"probe.driver": driver.name, **keys}
    raise UsageError(f"--probe {shortened(text)}: no probe of this form", f"give {_probe_forms()}")


def bench_config_from(arguments: argparse.Namespace, *extra: str) -> Config:
    """The config of a command with --backend and the options of the serial bench."""
    return bench_loaded_from(arguments, *extra).config


def bench_loaded_from(arguments: argparse.Namespace, *extra: str) -> Loaded:
    """As `bench_config_from`, with the origin of each value."""
    if arguments.backend == "serial":
        if choose_lab_preset(arguments):
            print(
                f"macontrol: using preset {arguments.preset}; --preset or --config chooses another",
                file=sys.stderr,
            )
    else:
        refuse_bench_arguments(arguments)
    loaded = loaded_from(arguments, *extra, *_bench_assignments(arguments))
    key = "physical.slot_duration_s"
    is_of_paper = arguments.preset is None and loaded.origin(key) == DEFAULT
    if arguments.backend == "serial" and is_of_paper:
        config = loaded.config
        print(
            f"macontrol: {key} is not in --config: it is that of the paper, "
            f"{config.physical.slot_duration_s * 1e3:g} ms; for the settings of such a bench add "
            f'--preset {STAGES[config.stage.driver].preset}, or the line preset = "…" at the top',
            file=sys.stderr,
        )
    return loaded


def config_words(arguments: argparse.Namespace) -> list[str]:
    """The config options as words for another command."""
    words = []
    if arguments.config is not None:
        words += ["--config", str(arguments.config)]
    if arguments.preset is not None:
        words += ["--preset", arguments.preset]
    for assignment in _assignments(arguments):
        words += ["--set", assignment]
    return words


@contextmanager
def plotting() -> Iterator[None]:
    """Turn a failed import of plotting code into an error that says how to install matplotlib."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"--plot needs matplotlib, and {error.name} is not installed",
            pip_install("matplotlib"),
        ) from error


def plot_file(text: str) -> Path:
    """An argument that names a plot file; its ending gives the format."""
    if Path(text).suffix.lower() not in PLOT_ENDINGS:
        endings = ", ".join(PLOT_ENDINGS)
        raise argparse.ArgumentTypeError(f"{shortened(text)} does not end with {endings}")
    return Path(text)


def refuse_input_as_output(option: str, output: Path | None, source: Path, what: str) -> None:
    """Refuse to overwrite the input, even under another name."""
    try:
        is_same = output is not None and output.samefile(source)
    except (OSError, ValueError):  # one of them does not exist, or has a NUL in its name
        return
    if is_same:
        raise UsageError(f"{option} {output}: is the {what} itself", "choose another name")


def positive_int(text: str) -> int:
    """An argument that is a count."""
    return _whole_number(text, least=1, most=LARGEST_HORIZON)


def number(text: str) -> float:
    """An argument that is any quantity."""
    value = _finite(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number")
    return value


def positive_number(text: str) -> float:
    """An argument that is a positive quantity."""
    value = _finite(text)
    if value is None or value <= 0:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number above 0")
    return value


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def seed_number(text: str) -> int:
    """An argument that is a random seed."""
    return _whole_number(text, least=0, most=LARGEST_SEED)


def _whole_number(text: str, *, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is not a whole number of at least {least}"
        )
    if value > most:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is more than {most}")
    return value
