"""The dashboard in a real browser, on a real daemon on the simulated bench."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import JavascriptException, WebDriverException
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from support.driven_browser import LOW_CONTRAST, MISSING, REASON, open_browser
from support.sample_run import write_run
from support.waiting import wait_until

pytestmark = [pytest.mark.skipif(MISSING, reason=REASON), pytest.mark.any_user]
MACONTROL = [sys.executable, "-m", "macontrol"]
CONTROLS = "a[href], button, input, canvas[tabindex], [tabindex='0'], summary"


class Bench:
    """A folder of its own for locks, sockets and runs; a daemon and a dashboard in it."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "state" / "macontrol"
        self.runs.mkdir(parents=True)
        self.environment = os.environ | {
            "RUNTIME_DIRECTORY": str(folder / "run"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        (folder / "run").mkdir()
        self.daemon: subprocess.Popen[str] | None = None
        self.dashboard: subprocess.Popen[str] | None = None
        self.address = self.base = ""

    def start_daemon(self) -> None:
        self.daemon = self._start("--backend", "sim", "--preset", "demo", "--log", "text")

    def start_dashboard(self, listen: str = "127.0.0.1:0") -> None:
        self.dashboard = self._start("dashboard", "--listen", listen)
        assert self.dashboard.stdout is not None
        line = self.dashboard.stdout.readline()
        found = re.search(r"(http://[^/]+)(/\?token=\S+)", line)
        assert found, line
        self.base, self.address = found[1], found[1] + found[2]

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*MACONTROL, *words],
            env=self.environment,
            stdout=subprocess.PIPE if words[0] == "dashboard" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def close(self) -> None:
        for process in (self.daemon, self.dashboard):
            if process is not None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.wait(20)
                if process.stdout is not None:
                    process.stdout.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("bench"))
    write_run(bench.runs / "sim-20250101T000000Z.sqlite", range(1, 200))
    write_run(bench.runs / "sim-20250102T000000Z.sqlite", range(1, 100))
    bench.start_daemon()
    bench.start_dashboard()
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    with open_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def page(bench: Bench, driver: WebDriver) -> Iterator[Page]:
    page = Page(driver, bench)
    yield page
    assert page.problems() == []
    assert page.foreign_requests() == []


class Page:
    """The page, as a person uses it."""

    def __init__(self, driver: WebDriver, bench: Bench) -> None:
        self.driver = driver
        self.bench = bench
        self.expected: list[str] = []
        """Parts of messages of the console that the test itself causes."""
        self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        self.driver.get_log("performance")  # type: ignore[no-untyped-call]

    def open(self, place: str = "", *, token: bool = True) -> None:
        if not token:
            self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.driver.get("about:blank")
        self.driver.get((self.bench.address if token else self.bench.base + "/") + place)

    def open_live(self) -> None:
        self.open()
        self.wait(lambda: self.state == "Running" and self.frames >= 3)

    def part(self, name: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, f"[data-part='{name}']")

    def text(self, name: str) -> str:
        return str(self.part(name).text)

    @property
    def state(self) -> str:
        return self.text("state")

    @property
    def frames(self) -> int:
        return int(self.script("return window.macontrol?.frames ?? 0"))

    def script(self, text: str, *values: object) -> Any:
        return self.driver.execute_script(text, *values)

    def wait(self, condition: Callable[[], object], timeout_s: float = 40.0) -> None:
        """Until the condition holds; the page may be under construction meanwhile."""

        def holds() -> bool:
            try:
                return bool(condition())
            except WebDriverException:
                return False

        wait_until(holds, timeout_s, every_s=0.05)

    def snapshot(self, *keys: str) -> Any:
        path = "".join(f"?.{key}" for key in keys)
        return self.script(f"return window.macontrol.board?.snapshot{path}")

    def problems(self) -> list[str]:
        entries: list[dict[str, str]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        found = [entry["message"] for entry in entries]
        return [m for m in found if not any(part in m for part in self.expected)]

    def foreign_requests(self) -> list[str]:
        entries = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        urls = [
            m["params"]["request"]["url"]
            for m in messages
            if m["method"] == "Network.requestWillBeSent"
        ]
        own = (self.bench.base, "about:", "data:", "chrome")
        return [url for url in urls if not url.startswith(own)]


def test_curves_move(page: Page) -> None:
    page.open_live()
    # What is drawn, not only what has arrived.
    picture = "return [...document.querySelectorAll('.plot canvas')].map((c) => c.toDataURL())"
    first, slot = page.script(picture), page.snapshot("slot")
    assert len(set(first)) == 3
    page.wait(lambda: page.snapshot("slot") > slot + 5)
    page.wait(lambda: all(a != b for a, b in zip(first, page.script(picture), strict=True)))
    assert "token" not in page.driver.current_url


def test_the_oracle_of_the_slots_so_far_is_drawn(page: Page) -> None:
    page.open_live()
    page.wait(lambda: "Computed every 2.00 s" in page.text("oracle-text"))
    known = "return window.macontrol.board.model.series.{}.filter((v) => v !== null).length"
    page.wait(lambda: page.script(known.format("oracle")) > 10)
    assert page.script(known.format("best")) > 10
    slot = page.script("return window.macontrol.board.model.oracle.slot")
    page.wait(lambda: page.script("return window.macontrol.board.model.oracle.slot") > slot)
    assert "oracle" in page.part("reward-legend").text


def test_hold_is_one_click_and_so_is_resume(page: Page) -> None:
    page.open_live()
    hold = page.part("hold")
    hold.click()
    page.wait(lambda: page.state == "Holding" and hold.text == "Resume")
    at, slot = page.snapshot("position"), page.snapshot("slot")
    page.wait(lambda: page.snapshot("slot") > slot + 5)
    assert page.snapshot("position") == at
    hold.click()
    page.wait(lambda: page.state == "Running" and hold.text == "Hold")


def test_a_click_on_the_rail_moves_the_antenna_there(page: Page) -> None:
    page.open_live()
    rail, question = page.part("rail"), page.part("goto")
    ActionChains(page.driver).move_to_element_with_offset(rail, 100, 0).click().perform()
    assert question.is_displayed()
    position = page.script("return window.macontrol.board.chosen")
    assert f"{position:.2f} λ" in question.text
    page.part("goto-no").click()
    assert not question.is_displayed()
    assert page.state == "Running"
    ActionChains(page.driver).move_to_element_with_offset(rail, 100, 0).click().perform()
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.wait(lambda: page.state == "Holding")
    page.wait(lambda: abs(page.snapshot("position") - position) < 0.011)
    page.part("hold").click()
    page.wait(lambda: page.state == "Running")


def test_a_setting_changes_and_a_wrong_one_is_explained(page: Page) -> None:
    page.open_live()
    page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".settings input"))
    (beta,) = [
        label.find_element(By.TAG_NAME, "input")
        for label in page.driver.find_elements(By.CSS_SELECTOR, ".settings label")
        if label.text.startswith("beta")
    ]
    beta.send_keys(Keys.CONTROL, "a")
    beta.send_keys("2.25", Keys.ENTER)
    page.wait(lambda: page.snapshot("settings")["algorithm.beta"]["value"] == 2.25)
    page.expected = ["400"]
    beta.send_keys(Keys.CONTROL, "a")
    beta.send_keys("-1", Keys.ENTER)
    page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".toasts .bad"))
    assert page.snapshot("settings")["algorithm.beta"]["value"] == 2.25


def test_a_survey_is_asked_for_and_walks_the_rail(page: Page) -> None:
    page.open_live()
    button = page.part("resurvey")
    button.click()
    page.wait(lambda: "walks along the whole rail" in page.driver.find_element(By.ID, "ask").text)
    page.driver.find_element(By.ID, "ask-no").click()
    assert page.state == "Running"
    button.click()
    page.driver.find_element(By.ID, "ask-yes").click()
    page.wait(lambda: page.state == "Surveying" and not button.is_enabled())
    page.part("hold").click()
    page.wait(lambda: page.state == "Holding" and not button.is_enabled())
    page.part("hold").click()
    page.wait(lambda: page.state == "Running" and button.is_enabled(), 120)
    assert page.snapshot("events", "survey") == 2
    assert not page.part("floor").is_displayed()  # a simulated probe has no noise floor


@pytest.mark.parametrize("by_command", [False, True])
def test_the_noise_floor_needs_the_transmitter_off(page: Page, *, by_command: bool) -> None:
    """The page shows a probe with a noise floor; the actions are noted, not performed."""
    page.open_live()
    page.script(
        "const { board } = window.macontrol; window.sent = [];"
        "board.actions.act = async (method) => { window.sent.push(method); return true; };"
        "const show = board.showFrame.bind(board);"
        "board.showFrame = (frame) => { Object.assign(frame.snapshot.probe,"
        " { noise_floor: -60, transmitter_by_command: arguments[0] }); show(frame); };",
        by_command,
    )
    button = page.part("floor")
    page.wait(lambda: button.is_displayed() and button.is_enabled())
    button.click()
    page.wait(lambda: page.driver.find_element(By.ID, "ask").is_displayed())
    asked = page.driver.find_element(By.ID, "ask").text
    assert ("Is the transmitter off?" in asked) is not by_command
    assert page.script("return window.sent") == []
    page.driver.find_element(By.ID, "ask-yes").click()
    page.wait(lambda: page.script("return window.sent") == ["noise_floor"])
    toasts = page.driver.find_element(By.ID, "toasts").text
    assert ("Switch the transmitter on again" in toasts) is not by_command


def test_without_the_token_nothing_can_be_moved(page: Page) -> None:
    page.open(token=False)
    page.wait(lambda: page.state == "Running" and page.frames >= 3)
    assert not page.part("hold").is_enabled()
    assert not page.part("stop").is_enabled()
    ActionChains(page.driver).move_to_element(page.part("rail")).click().perform()
    assert not page.part("goto").is_displayed()
    page.expected = ["401"]
    status = page.driver.execute_async_script(
        "const done = arguments[0]; fetch('api/daemons/sim/hold', {method: 'POST', body: '{}',"
        " headers: {'Content-Type': 'application/json'}}).then((a) => done(a.status))"
    )
    assert status == 401
    assert page.state == "Running"


def test_an_injected_script_does_not_run(page: Page) -> None:
    page.open_live()
    page.expected = ["Content Security Policy", "Trusted"]
    for text in (
        "const s = document.createElement('script'); s.textContent = 'window.injected = 1';"
        "document.body.append(s)",
        "document.body.innerHTML += '<img src=x onerror=window.injected=1>'",
        "const i = document.createElement('img'); i.setAttribute('onerror', 'window.injected=1');"
        "i.src = 'x:'; document.body.append(i)",
    ):
        with suppress(JavascriptException):
            page.script(text)
    assert page.script("return window.injected ?? null") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_a_contrast_and_a_place_in_the_order(page: Page, scheme: str) -> None:
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    for place in ("", "#/runs"):
        page.open(place)
        page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".run a, .settings input"))
        assert page.script(LOW_CONTRAST) == []
    page.open_live()
    page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".settings input"))
    controls = [c for c in page.driver.find_elements(By.CSS_SELECTOR, CONTROLS) if c.is_displayed()]
    assert len(controls) > 10
    assert [c.get_attribute("outerHTML") for c in controls if not c.accessible_name] == []
    assert page.part("rail").aria_role == "slider"
    levels = [int(h.tag_name[1]) for h in page.driver.find_elements(By.CSS_SELECTOR, "h2, h3")]
    assert levels
    # The order of Tab is that of the page, and each stop is visible.
    page.script("document.activeElement.blur(); window.scrollTo(0, 0)")
    places = []
    for _ in range(len(controls)):
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        places.append(
            page.script(
                "const e = document.activeElement;"
                "return [[...document.querySelectorAll('*')].indexOf(e),"
                " getComputedStyle(e).outlineStyle]"
            )
        )
    order = [index for index, _ in places if index > 10]
    assert order[: len(set(order))] == sorted(set(order))
    assert {style for index, style in places if index > 10} == {"solid"}


def test_plots_and_legends_follow_the_colours_of_the_system(page: Page) -> None:
    page.open("#/runs")
    page.wait(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".run a")) >= 2)
    page.driver.find_elements(By.CSS_SELECTOR, ".run a")[-1].click()
    page.wait(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".legend li")) > 8)
    picture = (
        "return [...document.querySelectorAll('.rail-plot canvas, .rail-panel .head:first-child "
        ".legend canvas, .reward-panel canvas')].map((c) => c.toDataURL())"
    )
    schemes = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        page.driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )
        schemes.append(page.script(picture))
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(schemes[0]) > 8
    assert all(light != dark for light, dark in zip(*schemes, strict=True))


@pytest.mark.parametrize("width", [390, 1920])
def test_nothing_is_wider_than_the_screen(page: Page, width: int) -> None:
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    try:
        for place in ("", "#/runs"):
            page.open(place)
            page.wait(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".run a, .phases td"))
            assert page.script("return document.documentElement.scrollWidth") <= width
            hold = page.driver.find_elements(By.CSS_SELECTOR, ".hold")
            assert all(h.is_displayed() for h in hold)
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_finished_run_is_drawn_and_compared(page: Page) -> None:
    page.open("#/runs")
    page.wait(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".run a")) >= 3)
    boxes = page.driver.find_elements(By.CSS_SELECTOR, ".pick input")
    old = [box for box in boxes if "2025" in (box.get_attribute("aria-label") or "")]
    for box in old:
        box.click()
    page.driver.find_element(By.CSS_SELECTOR, ".head button").click()
    page.wait(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".pairs tbody tr")) > 5)
    cells = page.driver.find_elements(By.CSS_SELECTOR, ".pairs tbody tr:first-child td")
    assert sorted(cell.text for cell in cells[:2]) == ["199", "99"]
    assert cells[2].text in ("+100", "−100")
    page.driver.find_element(By.CSS_SELECTOR, ".compare h2 a").click()
    page.wait(lambda: page.part("cursor").is_displayed())
    before = page.text("cursor-text")
    page.part("cursor").send_keys(Keys.ARROW_LEFT)
    page.wait(lambda: page.text("cursor-text") != before)


def test_a_lost_dashboard_shows_and_comes_back(page: Page) -> None:
    page.open_live()
    dashboard = page.bench.dashboard
    assert dashboard is not None
    page.expected = ["WebSocket", "net::ERR_"]  # of requests while there is no server
    dashboard.send_signal(signal.SIGSTOP)  # as a lost network: nothing arrives, nothing is closed
    page.wait(lambda: "lost" in page.driver.find_element(By.ID, "link").text)
    assert not page.part("hold").is_enabled()
    dashboard.send_signal(signal.SIGCONT)
    page.wait(lambda: page.driver.find_element(By.ID, "link").text == "connected")
    page.wait(lambda: page.part("hold").is_enabled())
    dashboard.kill()
    dashboard.wait()
    assert dashboard.stdout is not None
    dashboard.stdout.close()
    page.wait(lambda: "lost" in page.driver.find_element(By.ID, "link").text)
    page.bench.start_dashboard(page.bench.base.partition("//")[2])
    frames = page.frames
    page.wait(lambda: page.driver.find_element(By.ID, "link").text == "connected")
    page.wait(lambda: page.frames > frames + 3 and page.state == "Running")


def test_a_stalled_daemon_shows_and_comes_back(page: Page) -> None:
    """Its server is a process of its own, and still answers."""
    page.open_live()
    daemon = page.bench.daemon
    assert daemon is not None
    daemon.send_signal(signal.SIGSTOP)
    page.wait(lambda: page.state == "Not answering" and not page.part("hold").is_enabled())
    page.wait(lambda: "does not answer" in page.driver.find_element(By.ID, "notice").text)
    daemon.send_signal(signal.SIGCONT)
    page.wait(lambda: page.state == "Running" and page.part("hold").is_enabled())


def test_a_killed_daemon_shows_and_comes_back(page: Page) -> None:
    page.open_live()
    daemon = page.bench.daemon
    assert daemon is not None
    daemon.kill()
    daemon.wait()
    page.wait(lambda: page.state == "Ended")
    assert page.part("ended").is_displayed()
    page.wait(lambda: "--backend sim" in page.text("ended-command"))
    page.bench.start_daemon()
    page.wait(lambda: page.state == "Running")
    assert not page.part("ended").is_displayed()


def test_stop_asks_and_the_page_says_what_happened(page: Page) -> None:
    """The last test: the daemon ends."""
    page.open_live()
    page.part("stop").click()
    page.wait(lambda: page.driver.find_element(By.ID, "ask").is_displayed())
    page.driver.find_element(By.ID, "ask-no").click()
    page.wait(lambda: not page.driver.find_element(By.ID, "ask").is_displayed())
    assert page.state == "Running"
    page.part("stop").click()
    page.driver.find_element(By.ID, "ask-yes").click()
    page.wait(lambda: page.state == "Ended")
    page.wait(lambda: page.text("ended-text"))
    daemon = page.bench.daemon
    assert daemon is not None
    assert daemon.wait(30) == 0
