"""Draw the figures of drawing.md into docs/figures, the page in headless Chromium: ``python docs/screenshots.py``.

Needs RDKit, selenium, chromium and chromedriver. The attribution is drawn by ``dgn draw`` with a model: ``dgn fit
logp.csv --ensemble-size 2 --epochs 40 --split random`` on RDKit's log P of the first 600 molecules of Tox21.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from dgn.plot.page import write_page
from dgn.plot.picture import draw_picture
from dgn.plot.sources import read_scene

FOLDER = Path(__file__).parent / "figures"
ASPIRIN, CAFFEINE = "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C"
SET = """for (const [id, value] of Object.entries(arguments[0])) {
  const control = document.getElementById(id);
  control.value = value;
  control.dispatchEvent(new Event("input", { bubbles: true }));
}"""
SETTLED = "setTimeout(arguments[0], 400)"  # the summary is debounced


def open_browser() -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def photograph(browser: Any, path: Path, size: tuple[int, int], controls: dict[str, str]) -> None:
    screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.execute_script(SET, controls)
    browser.execute_async_script(SETTLED)
    browser.save_screenshot(str(path))
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    draw_picture(read_scene(ASPIRIN), FOLDER / "draw_molecule.png")
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        page = Path(folder) / "page.html"
        write_page([read_scene(smiles) for smiles in (ASPIRIN, CAFFEINE)], page, k=4)
        browser.get(page.as_uri())
        shown = {"theme": "light", "operator": "derivative", "signal": "atomic number"}
        photograph(browser, FOLDER / "draw_page.png", (1200, 1290), shown)
        rotated = {"theme": "dark", "graph": "1", "operator": "absolute", "hardening": "soft", "angle": "40"}
        photograph(browser, FOLDER / "draw_page_phone.png", (400, 820), rotated)


if __name__ == "__main__":
    main()
