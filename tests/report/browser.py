# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real browser without a screen: Debian's Chromium, driven by its own driver."""
import base64
import json
import shutil
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic"]
PATIENCE = 60  # seconds


class Browser:
    def __init__(self, width=1280, height=1000):
        self.profile = tempfile.mkdtemp()
        options = Options()
        options.binary_location = shutil.which("chromium")
        for flag in [*FLAGS, f"--user-data-dir={self.profile}", f"--window-size={width},{height}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        # Tab behind the last element would leave the page for the browser's own controls.
        self.driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        self.driver.get("about:blank")  # the browser's own first page is no concern here
        self.problems()
        self.requests()

    def quit(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def prefer(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, path):
        """Returns after how many milliseconds the page showed its charts."""
        self.driver.get("file://" + path)
        return int(self.wait("return document.documentElement.dataset.ready"))

    def wait(self, script):
        """What the script gives as soon as that is something."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if result := self.run(script):
                return result
            time.sleep(0.02)
        raise TimeoutError(f"{script} gave nothing")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def frame(self):
        """Waits until what was asked for has been drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))")

    def problems(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """What was asked for by any scheme, but for the page's own data."""
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [message["params"]["request"]["url"] for message in messages
                if message["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path, selector="html"):
        """Of the whole page, or of an element."""
        box = self.run("""const box = document.querySelector(arguments[0]).getBoundingClientRect();
                          return [box.x + scrollX, box.y + scrollY, box.width, box.height]""", selector)
        clip = dict(zip(("x", "y", "width", "height"), box, strict=True), scale=1)
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        with open(path, "wb") as out:
            out.write(base64.b64decode(shot["data"]))
