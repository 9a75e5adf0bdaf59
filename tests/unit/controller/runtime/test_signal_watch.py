"""Loss of signal is not a fade, is not learned, and ends when the signal is back."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.config.model.errors import HardwareError
from macontrol.config.model.reward import Reward
from macontrol.controller.recording.records import EventKind, LateReward
from macontrol.controller.recording.runfile import RunFileRecorder, RunHeader, read_run
from macontrol.controller.runtime.observation import Observation
from macontrol.controller.runtime.signal_watch import SignalWatch
from macontrol.hal import Measurement
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import simulate_map
from support.scripted_bench import Kept, ScriptedBench, ScriptedClock, ScriptedProbe

SLOTS = 8  # the preset's probe.no_signal_slots
STRONG, WEAK = 50.0, 2.0


def seen(slot: int, above: float, reason: str = "no-signal") -> Observation:
    at_floor = above < 1
    return Observation(
        slot, 0.0 if at_floor else 1.5, True, 0.01, reason if at_floor else "", above, "a hint"
    )


class Watched:
    """A watch, what it withdrew, and what it reported."""

    def __init__(self, config: Config) -> None:
        self.withdrawn: list[int] = []
        self.kept = Kept()
        self.watch = SignalWatch(
            config,
            ScriptedClock(),
            self.kept,
            lambda lost: self.withdrawn.extend(each.slot for each in lost),
        )

    def see(self, slot: int, above: float, position: float = 3.0, **how: str) -> Observation:
        (judged,) = self.watch.judge([(seen(slot, above, **how), position)])
        return judged


@pytest.fixture
def watched(paper: Config) -> Watched:
    return Watched(paper)


def test_a_signal_that_vanishes_at_once_is_lost_after_the_set_number_of_slots(
    watched: Watched,
) -> None:
    watched.see(1, STRONG)
    judged = [watched.see(slot, 0.1) for slot in range(2, 2 + SLOTS)]
    assert [each.valid for each in judged] == [True] * (SLOTS - 1) + [False]
    assert (judged[-1].reason, isnan(judged[-1].reward)) == ("no-signal", True)
    assert watched.withdrawn == list(range(1, 1 + SLOTS)), "from where it vanished within a slot"
    (event,) = watched.kept.events(EventKind.NO_SIGNAL)
    assert (event.slot, event.value) == (1 + SLOTS, SLOTS)
    assert event.detail.endswith("; a hint")
    assert not watched.see(2 + SLOTS, 0.5).valid
    assert len(watched.kept.events()) == 1


def test_a_transmitter_that_stops_within_a_slot_is_sudden_too(watched: Watched) -> None:
    watched.see(1, STRONG)
    watched.see(2, WEAK)
    assert not [watched.see(slot, 0.0) for slot in range(3, 3 + SLOTS)][-1].valid
    assert watched.withdrawn == list(range(2, 2 + SLOTS)), "slot 2 has a part of its power"


@pytest.mark.fault("deep-fade")
def test_a_fade_that_is_entered_gradually_is_learned(watched: Watched) -> None:
    for slot, above in enumerate((STRONG, 12.0, 6.0, WEAK), start=1):
        watched.see(slot, above)
    assert all(watched.see(slot, 0.5).valid for slot in range(5, 205))
    assert watched.withdrawn == []


@pytest.mark.fault("deep-fade")
def test_the_floor_on_most_of_the_rail_is_loss_of_signal(watched: Watched) -> None:
    """Entered gradually, as above; then the antenna travels and finds nothing anywhere."""
    watched.see(1, WEAK)
    watched.see(2, WEAK)
    step, judged = 0.06, [watched.see(3, 0.2, 2.0)]
    while judged[-1].valid and len(judged) < 65:
        judged.append(watched.see(3 + len(judged), 0.2, 2.0 + step * len(judged)))
    assert step * (len(judged) - 1) == pytest.approx(0.6 * 6.0, abs=step)
    assert watched.withdrawn == list(range(2, 2 + len(judged)))


def test_one_slot_above_the_floor_begins_the_count_again(watched: Watched) -> None:
    watched.see(1, STRONG)
    for slot in range(2, 2 + 3 * SLOTS):
        assert watched.see(slot, STRONG if slot % SLOTS == 0 else 0.0).valid


def test_a_slot_without_a_measurement_does_not_begin_the_count_again(watched: Watched) -> None:
    watched.see(1, STRONG)
    for slot in range(2, 1 + SLOTS):
        watched.see(slot, 0.0)
    watched.watch.judge([(Observation(50, float("nan"), False, reason="gap"), 3.0)])
    assert not watched.see(51, 0.0).valid


def test_slots_without_a_measurement_count_in_the_row(watched: Watched) -> None:
    """A late stage leaves slots without a measurement; the loss is detected as early."""
    watched.see(1, STRONG)
    at_floor = range(2, 2 + SLOTS + 1, 2)
    judged = [watched.see(slot, 0.0) for slot in at_floor]
    assert [each.valid for each in judged] == [True] * (SLOTS // 2) + [False]
    assert watched.withdrawn == [1, *at_floor[:-1]]
    (event,) = watched.kept.events(EventKind.NO_SIGNAL)
    assert event.value == SLOTS + 1


def test_a_few_measurements_far_apart_prove_nothing(watched: Watched) -> None:
    watched.see(1, STRONG)
    assert all(watched.see(slot, 0.0).valid for slot in (2, 30, 60)), "fewer than half of SLOTS"
    assert not watched.see(90, 0.0).valid


def test_the_signal_comes_back_by_itself_with_an_event(watched: Watched) -> None:
    watched.see(1, STRONG)
    for slot in range(2, 2 + SLOTS):
        watched.see(slot, 0.0)
    begun = watched.see(30, WEAK)
    assert (begun.valid, begun.reason) == (False, "no-signal"), "it may have begun within the slot"
    back = watched.see(31, WEAK)
    assert (back.valid, back.reward) == (True, 1.5)
    assert [event.kind for event in watched.kept.events()] == [
        EventKind.NO_SIGNAL,
        EventKind.RECOVERY,
    ]
    assert watched.see(32, 0.0).valid, "and the count begins again"


@pytest.mark.fault("tone-lost")
def test_a_tone_in_another_band_is_lost(watched: Watched) -> None:
    watched.see(1, WEAK)
    judged = [watched.see(slot, 0.0, reason="tone-lost") for slot in range(2, 2 + SLOTS)]
    assert (judged[-1].valid, judged[-1].reason) == (False, "tone-lost")


def test_a_noise_floor_measurement_means_that_the_transmitter_is_off(
    watched: Watched,
) -> None:
    """Slots at the floor before, and after it, are too few to be lost by their number."""
    measuring = Observation(4, float("nan"), False, reason="noise-floor")
    watched.see(1, STRONG)
    for slot in (2, 3):
        assert watched.see(slot, 0.0).valid
    watched.watch.judge([(measuring, 3.0)])
    assert watched.withdrawn == [1, 2, 3]
    assert not watched.see(5, 0.0).valid
    assert not watched.see(6, WEAK).valid
    assert watched.see(7, WEAK).valid
    assert watched.see(8, 0.0).valid
    watched.watch.judge([(replace(measuring, slot=9), 3.0)])
    watched.see(10, STRONG)
    watched.see(11, STRONG)
    assert watched.see(12, 0.0).valid, "the transmitter was on, or is on again"


def test_it_can_be_switched_off(paper: Config) -> None:
    watched = Watched(paper.replace(probe__no_signal_slots="off"))
    watched.see(1, STRONG)
    watched.watch.judge([(Observation(2, float("nan"), False, reason="noise-floor"), 3.0)])
    assert all(watched.see(slot, 0.0).valid for slot in range(3, 500))


def test_a_probe_without_a_noise_floor_never_loses_its_signal(watched: Watched) -> None:
    judged = watched.watch.judge(
        (Observation(slot, -0.1, True), 3.0) for slot in range(1, 5 * SLOTS)
    )
    assert all(each.valid for each in judged)


@pytest.mark.parametrize("policy", ["moveucb", "fixed"])
def test_the_fades_of_a_weak_link_are_not_loss_of_signal(policy: str) -> None:
    """At a mean SNR of 0 dB a blocked link is at the noise floor again and again."""
    words = [f"algorithm.policy={policy}", "reward.snr_db=0.0"]
    config = load_config(preset="lab-2g4-grbl", assignments=words)
    watched, episode = Watched(config), play(config, simulate_map(config, 5, 1500))
    share, at_floor = config.physical.transmission_share, 0
    holding = episode.observed / episode.weight
    for slot, (x, reward) in enumerate(
        zip(episode.trajectory.position, holding, strict=True), start=1
    ):
        above = (2 ** (max(float(reward), 0.0) / share) - 1) / (10**0.05 - 1)
        at_floor += above < 1
        assert watched.see(slot, above, float(x)).valid
    assert at_floor > 10 * SLOTS


def mute(bench: ScriptedBench, slots: range, *, together: bool = False) -> None:
    """Switch the transmitter off in some slots; the signal is strong in all others."""
    later: list[Measurement] = []

    def collect(_: ScriptedProbe, ready: list[Measurement]) -> list[Measurement]:
        found = [
            replace(each, value=Reward(0.0), reason="no-signal", above_floor=0.0, hint="a hint")
            if each.slot in slots
            else replace(each, above_floor=STRONG)
            for each in ready
        ]
        if together and found[0].slot in slots[:-1]:
            later.extend(found)
            return []
        found, later[:] = [*found, *later], []
        return found

    for number in range(1, 200):
        bench.probe.collects[number] = collect


OFF = range(21, 41)
DOUBTFUL = range(20, 42)
"""The transmitter stops and starts within a slot, which has only a part of the power."""
ON = [slot for slot in range(1, 61) if slot not in DOUBTFUL]


class TestLoop:
    @pytest.mark.fault("transmitter-stops")
    def test_rewards_without_a_signal_are_withdrawn_everywhere(self, paper: Config) -> None:
        bench = ScriptedBench(paper)
        mute(bench, OFF)
        kept = bench.run(60)
        assert [slot for slot, _, _ in bench.policy.seen] == ON
        assert (bench.tally.rewards, bench.tally.invalid) == (len(ON), len(DOUBTFUL))
        assert bench.tally.mean_reward == pytest.approx(sum(ON) / 1000 / len(ON))
        withdrawn = [item for item in kept.items if isinstance(item, LateReward)]
        assert [item[:4] for item in withdrawn] == [
            (s, None, None, "no-signal") for s in DOUBTFUL[:SLOTS]
        ]
        assert [item.withdrawn for item in withdrawn] == [DOUBTFUL[0] / 1000, *(SLOTS - 1) * [0.0]]
        assert {kept.slot(s).invalid for s in DOUBTFUL[SLOTS:]} == {"no-signal"}
        assert [event.kind for event in kept.events(EventKind.NO_SIGNAL, EventKind.RECOVERY)] == [
            EventKind.NO_SIGNAL,
            EventKind.RECOVERY,
        ]

    def test_rewards_without_a_signal_that_arrive_together_are_withdrawn(
        self, paper: Config
    ) -> None:
        bench = ScriptedBench(paper)
        mute(bench, OFF, together=True)
        kept = bench.run(60)
        assert [slot for slot, _, _ in bench.policy.seen] == ON
        assert (bench.tally.rewards, bench.tally.invalid) == (len(ON), len(DOUBTFUL))
        late = {item.slot: item[1:4] for item in kept.items if isinstance(item, LateReward)}
        assert late == dict.fromkeys(DOUBTFUL[:-2], (None, None, "no-signal"))

    @pytest.mark.fault("transmitter-stays-off")
    def test_an_outage_ends_the_run_when_the_patience_does(self, paper: Config) -> None:
        patience_s = 0.102
        bench = ScriptedBench(paper.replace(timing__fault_patience_s=patience_s))
        mute(bench, range(21, 200))
        with pytest.raises(HardwareError, match=r": no-signal; a hint$"):
            bench.run(190)
        blind = bench.tally.slots - 20 - (SLOTS - 1)
        assert blind * bench.slot_s == pytest.approx(patience_s + bench.slot_s, abs=bench.slot_s)

    @pytest.mark.fault("transmitter-stops")
    def test_a_resumed_run_does_not_use_withdrawn_rewards(
        self, paper: Config, tmp_path: Path
    ) -> None:
        bench = ScriptedBench(paper)
        mute(bench, OFF)
        header = RunHeader.of(
            paper,
            backend="serial",
            stage="lab",
            survey=None,
            sigma_f2=None,
            started_wall_s=1e9,
            started_clock_s=1000.0,
        )
        file = RunFileRecorder(tmp_path / "run.sqlite", header)
        file.start()
        for item in bench.run(60).items:
            file.submit(item)
        file.close()
        slots = read_run(file.path).slots
        assert [int(s) for s in slots["slot"][~np.isnan(slots["reward"])]] == ON
        assert set(slots["invalid"][DOUBTFUL.start - 1 : DOUBTFUL.stop - 1]) == {"no-signal"}
