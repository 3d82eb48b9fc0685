"""The page in Chromium: it loads, every control has its effect, and its numbers equal those of dgn."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dgn
from dgn.plot.page import write_page
from dgn.plot.scene import Scene
from dgn.plot.sources import read_scene

pytest.importorskip("rdkit", reason="RDKit is optional")
webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver (Debian: chromium-driver)"),
]
MOLECULES = ("CC(=O)Oc1ccccc1C(=O)O", "c1ccc(cc1)CN.Cl", "C1CCC1", "O", "C" * 50)
PLAIN = {
    "direction": 1, "partner": 2, "operator": "smoothing", "hardening": "none", "temperature": 8, "angle": 0.0,
    "strength": 0.0, "draw": 1,
}  # fmt: skip
SET = """const [id, value] = arguments, control = document.getElementById(id);
if (control.type === "checkbox") control.checked = value; else control.value = value;
control.dispatchEvent(new Event("input", { bubbles: true }));"""
LOOK = """const of = (id) => document.getElementById(id).innerHTML;
return { field: of("field"), before: of("before"), after: of("after"), matrix: of("matrix"), nodes: of("nodes"),
  edges: of("edges"), name: document.querySelector(".name").textContent, state: Page.state() };"""


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [read_scene(smiles) for smiles in MOLECULES]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER)) as driver:
        driver.set_window_size(1280, 1400)
        yield driver


@pytest.fixture
def page(browser: Any, scenes: list[Scene], tmp_path: Path) -> Iterator[Any]:
    """The page just opened; whatever a test does, the console stays empty."""
    write_page(scenes, tmp_path / "page.html", 3)
    browser.get((tmp_path / "page.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def doubles(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def expected(scene: Scene, settings: dict[str, Any], noise: list[float]) -> tuple[torch.Tensor, dgn.Operator]:
    """The field and the operator by dgn itself."""
    potential, edges, n = scene.directions(3).potential, scene.edge_index, scene.num_nodes
    fields = dgn.gradient(potential, edges)
    field = fields[:, settings["direction"] - 1]
    field = field + settings["strength"] * field.abs().mean() * doubles(noise)
    if settings["partner"]:
        other = fields[:, settings["partner"] - 1]
        field = dgn.rotate(field, other, settings["angle"], edges, n, collinear="keep")[0]
    field = shaped = dgn.normalize(field, edges, n)
    if settings["operator"] in ("forward", "backward"):
        shaped = getattr(dgn, f"{settings['operator']}_field")(field)
    if settings["hardening"] != "none":
        temperature = None if settings["hardening"] == "hard" else settings["temperature"]
        shaped = dgn.harden(shaped, edges, n, temperature)
    slope = settings["operator"] in ("derivative", "absolute")
    return field, (dgn.derivative if slope else dgn.smoothing)(shaped, edges, n)


@pytest.mark.parametrize(
    "changes", [{}, {"angle": 0.7}, {"strength": 1.3, "draw": 5}, {"direction": 2, "partner": 3, "angle": -2.5}]
)
def test_weights_are_those_of_dgn(page: Any, scenes: list[Scene], changes: dict[str, Any]) -> None:
    for index, scene in enumerate(scenes[:3]):
        noise = page.execute_script("return Field.noise(Page.scenes[arguments[0]], arguments[1])", index, 5)
        signal = torch.arange(scene.num_nodes, dtype=torch.float64) ** 2
        for operator in ("smoothing", "derivative", "absolute", "forward", "backward"):
            for hardening in ("none", "soft", "hard"):
                settings = {**PLAIN, **changes, "operator": operator, "hardening": hardening}
                compute = "return Field.compute(Page.scenes[arguments[0]], arguments[1], arguments[2])"
                actual = page.execute_script(compute, index, settings, signal.tolist())
                field, weights = expected(scene, settings, noise)
                result = weights(signal)[:, 0]
                result = result.abs() if operator == "absolute" else result
                close = {"rtol": 0.0, "atol": 1e-12}
                torch.testing.assert_close(doubles(actual["field"]), field, **close)
                torch.testing.assert_close(doubles(actual["edge"]), weights.edge_weight[:, 0], **close)
                torch.testing.assert_close(doubles(actual["self"]), weights.self_weight[:, 0], **close)
                torch.testing.assert_close(doubles(actual["result"]), result, rtol=0, atol=1e-10)


def test_noise_is_antisymmetric_and_bounded(page: Any, scenes: list[Scene]) -> None:
    one, two = (page.execute_script("return Field.noise(Page.scenes[0], arguments[0])", seed) for seed in (1, 2))
    assert one != two
    assert max(map(abs, one)) < 1
    matrix = torch.zeros(scenes[0].num_nodes, scenes[0].num_nodes)
    matrix[scenes[0].edge_index[1], scenes[0].edge_index[0]] = torch.tensor(one)
    assert torch.equal(matrix, -matrix.T)
    assert matrix.ne(0).sum() == scenes[0].edge_index.size(1)


@pytest.mark.parametrize(
    ("before", "control", "value", "changed", "unchanged"),
    [
        ({}, "graph", "1", "field before after matrix nodes edges", "name"),
        ({}, "direction", "2", "field after matrix nodes edges name", "before"),
        ({}, "operator", "derivative", "field after matrix nodes edges name", "before"),
        ({"operator": "derivative"}, "operator", "absolute", "after nodes name", "field matrix edges before"),
        ({}, "operator", "forward", "field after matrix edges name", "before"),
        ({"operator": "forward"}, "operator", "backward", "field after matrix edges name", "before"),
        ({}, "hardening", "hard", "field after matrix edges name", "before"),
        ({"hardening": "soft"}, "temperature", "20", "field after matrix edges name", "before"),
        ({}, "angle", "40", "field matrix edges", "before name"),
        ({}, "strength", "1.5", "field matrix edges", "before name"),
        ({"strength": "1.5"}, "draw", "2", "field matrix edges", "before name"),
        ({}, "signal", "atomic number", "before after nodes", "edges matrix name"),
        ({}, "node", "4", "before after nodes", "edges matrix name"),
        ({}, "numbers", False, "field before after", "matrix nodes edges name"),
    ],
)
def test_every_control_changes_its_outputs_only(
    page: Any, before: dict[str, str], control: str, value: Any, changed: str, unchanged: str
) -> None:
    start = {"signal": "one"} if control == "node" else {"signal": "degree"}
    for name, setting in {**start, **before}.items():
        page.execute_script(SET, name, setting)
    old = page.execute_script(LOOK)
    assert page.execute_script(f"return !document.getElementById('{control}').disabled")
    page.execute_script(SET, control, value)
    new = page.execute_script(LOOK)
    assert [part for part in changed.split() if old[part] == new[part]] == []
    assert [part for part in unchanged.split() if old[part] != new[part]] == []
    page.find_element("id", "reset").click()
    page.execute_script(SET, "graph", "0")
    assert page.execute_script(LOOK)["state"]["settings"] == {**PLAIN, "angle": 0, "strength": 0}


def test_the_page_works_by_keyboard_and_screen_reader(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    summary = page.find_element("id", "summary")
    assert summary.get_attribute("aria-live") == "polite"
    WebDriverWait(page, 5).until(lambda _: "aggregator av1" in summary.text)
    page.find_element("css selector", "#field .node[tabindex='0']").send_keys(Keys.ARROW_RIGHT)
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("aria-pressed") == "true"
    assert page.switch_to.active_element.get_attribute("aria-label") == "O2, potential 0.46, signal 1.00"
    assert page.find_element("id", "node").get_attribute("value") == "2"
    assert len(page.find_elements("css selector", "#field .node[tabindex='0']")) == 1
    WebDriverWait(page, 5).until(lambda _: "strongest at C1" in summary.text)
    named = "return [...document.querySelectorAll('#controls input, #controls select')].every((c) => c.labels.length)"
    assert page.execute_script(named)


def test_the_tab_key_stops_once_at_the_drawing(page: Any) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    for back in (False, True):
        page.find_element("css selector", "#field .node[tabindex='0']").send_keys(Keys.ARROW_DOWN)
        page.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        keys = ActionChains(page)
        (
            keys.key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT) if back else keys.send_keys(Keys.TAB)
        ).perform()
        assert not page.execute_script("return document.getElementById('field').contains(document.activeElement)")


def test_colours_follow_the_theme_and_a_phone_does_not_scroll_sideways(page: Any) -> None:
    paper = "return getComputedStyle(document.body).backgroundColor"
    page.execute_script(SET, "theme", "dark")
    dark = page.execute_script(paper)
    page.execute_script(SET, "theme", "light")
    assert page.execute_script(paper) != dark
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    page.execute_script(SET, "graph", "4")
    try:
        assert page.execute_script(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
        below = (
            "return document.getElementById('field-card').compareDocumentPosition(document.getElementById('controls'))"
        )
        assert page.execute_script(below) == 4  # the controls follow the drawing
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_tall_drawing_fits_on_a_phone(browser: Any, tmp_path: Path) -> None:
    place = np.array([(x, y) for x in range(9) for y in range(9)], dtype=float)
    near = np.linalg.norm(place[:, None] - place[None], axis=2) == 1
    ends = torch.from_numpy(np.array(near.nonzero()))
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        open_scene(browser, Scene("grid", ends, place, tuple(map(str, range(81)))), tmp_path)
        wide = """return [document.querySelector('#field').parentElement, document.documentElement]
          .map((part) => part.scrollWidth - part.clientWidth)"""
        assert browser.execute_script(wide) == [0, 0]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_single_atom_has_no_direction_to_rotate(page: Any) -> None:
    page.execute_script(SET, "graph", "3")
    state = page.execute_script(LOOK)["state"]
    assert state["result"] == [0]
    assert page.execute_script("return document.getElementById('angle').disabled")


def test_a_sentence_replaces_empty_drawings(page: Any) -> None:
    shown = "return [...document.querySelectorAll('section, details, .pair')].filter((p) => p.checkVisibility()).length"
    enabled = "return [...document.querySelectorAll('#controls input, #controls select')].filter((c) => !c.disabled)"
    summary, total = page.find_element("id", "summary"), page.execute_script(shown)
    page.execute_script(SET, "graph", "3")
    assert summary.text == "O: no two atoms are joined, so there is no direction, no field and no weight."
    assert page.find_element("id", "field-title").text == "The graph"
    assert page.execute_script(shown) == 1
    assert [control.get_attribute("id") for control in page.execute_script(enabled)] == ["graph"]
    page.find_element("css selector", "#field .node").click()
    page.find_element("id", "reset").click()
    assert page.find_elements("css selector", "#field [role='button']") == []
    page.execute_script(SET, "graph", "0")
    assert page.execute_script(shown) == total > 1
    assert page.find_element("id", "field-title").text == "Potential, field and weights of av1"
    assert not page.execute_script("return document.getElementById('angle').disabled")


def open_scene(browser: Any, scene: Scene, path: Path) -> None:
    write_page([scene], path / "page.html")
    browser.get((path / "page.html").as_uri())


def path_scene(labels: tuple[str, ...], **signals: list[float]) -> Scene:
    ends = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    place = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.5]])
    return Scene("path", ends, place, labels, {name: doubles(values) for name, values in signals.items()})


def test_matrix_labels_are_complete_or_truncated(browser: Any, tmp_path: Path) -> None:
    open_scene(browser, path_scene(("Birmingham", "MANCHESTER WEST", "Llanfairpwllgwyngyll")), tmp_path)
    shown = "return [...document.querySelectorAll('#matrix > text')].map((text) => text.textContent)"
    assert browser.execute_script(shown)[::2] == ["Birmingham", "MANCHESTER WEST", "Llanfairpwllgwyng\u2026"]
    cut = """const sheet = document.getElementById('matrix').getBoundingClientRect();
    return [...document.querySelectorAll('#matrix > text')].map((text) => text.getBoundingClientRect())
      .filter((box) => box.left < sheet.left || box.top < sheet.top).length"""
    assert browser.execute_script(cut) == 0


def test_rounding_errors_are_shown_as_zero(browser: Any, tmp_path: Path) -> None:
    open_scene(browser, read_scene("C12C3C4C1C5C2C3C45"), tmp_path)
    for control, value in (("operator", "derivative"), ("signal", "degree")):
        browser.execute_script(SET, control, value)
    assert browser.execute_script("return Page.state().result") == [0] * 8  # the degree is the same everywhere


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1.0, -0.25, 0.004], ["1.00", "\u22120.25", "0"]),
        ([12345678.9, -98765.4, 0.0], ["1.23e7", "\u22129.88e4", "0"]),
        ([1234.5, -3.0, 0.25], ["1235", "\u22123", "0"]),
        ([0.0004, -0.00025, 1e-7], ["4.00e\u22124", "\u22122.50e\u22124", "0"]),
        ([0.06, -0.0123, 0.0], ["0.060", "\u22120.012", "0"]),
    ],
)
def test_numbers_of_any_magnitude_are_formatted_and_fit(
    browser: Any, tmp_path: Path, values: list[float], shown: list[str]
) -> None:
    open_scene(browser, path_scene(("a", "b", "c"), heat=values), tmp_path)
    browser.execute_script(SET, "signal", "heat")
    written = "return [...document.querySelectorAll('#before .node')].map((node) => node.children[2].textContent)"
    assert browser.execute_script(written) == shown
    table = "return [...document.querySelectorAll('#nodes tr')].map((row) => row.children[3].textContent)"
    assert browser.execute_script(table) == shown
    wide = "return [...document.querySelectorAll('#before .node')].map((node) => node.children[2].getBBox().width)"
    assert max(browser.execute_script(wide)) < 36


def test_a_signal_may_be_called_one(browser: Any, tmp_path: Path) -> None:
    open_scene(browser, path_scene(("a", "b", "c"), one=[3.0, 4.0, 5.0]), tmp_path)
    choose = """const list = document.getElementById('signal');
    list.selectedIndex = [...list.options].map((option) => option.text).indexOf('one');
    list.dispatchEvent(new Event('input', { bubbles: true }));
    return Page.state().signal"""
    assert browser.execute_script(choose) == [3, 4, 5]


CONTRAST = """const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const light = (color) => {
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  const linear = [...canvas.getImageData(0, 0, 1, 1).data].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.05 + 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
return [...document.querySelectorAll('#before .node')].map((node) => {
  const [one, other] = [node.children[0], node.children[1]].map((part) => light(getComputedStyle(part).fill));
  return Math.max(one, other) / Math.min(one, other);
});"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_labels_have_contrast_on_every_colour(browser: Any, tmp_path: Path, theme: str) -> None:
    values = np.linspace(-1, 1, 41)
    ends = torch.stack([torch.arange(40), torch.arange(1, 41)])
    place = np.stack([np.arange(41.0), np.zeros(41)], axis=1)
    scene = Scene("row", ends, place, tuple(map(str, range(41))), {"heat": torch.from_numpy(values)})
    open_scene(browser, scene, tmp_path)
    browser.execute_script(SET, "signal", "heat")
    browser.execute_script(SET, "theme", theme)
    contrasts = browser.execute_script(CONTRAST)
    assert len(contrasts) == 41
    assert min(contrasts) > 3.6
