#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The page of `cachalot report` and `cachalot tune` in a real browser: what it shows is what the replay did, by keyboard too.

Usage: browser_test.py PROGRAM LIBRARY SCREENSHOTS [unittest arguments]. Screenshots are written into that folder, to be
looked at. CACHALOT_TEST_SEED sets the seed of the made-up recordings.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import debian_python  # noqa: E402

debian_python.need("selenium", "python3-selenium, chromium, chromium-driver")

import made_trace  # noqa: E402
from browser import Browser  # noqa: E402
from library import Library  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

PROGRAM = LIBRARY = SCREENSHOTS = ""
SEED = int(os.environ.get("CACHALOT_TEST_SEED", "1"))
TRACES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "traces")
MIB = 1 << 20
MOMENT = "return report.moments[0].value"
VIEW = "return report.state.view"


class Page(unittest.TestCase):
    """One browser and one page for all tests of a class."""

    COMMAND = "report"
    ARGUMENTS = ()
    WIDTH = 1280

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = os.path.join(cls.folder.name, "page.html")
        subprocess.run([PROGRAM, cls.COMMAND, *cls.arguments(), "-o", cls.path], check=True, stdout=subprocess.DEVNULL)
        cls.change_page()
        cls.browser = Browser(cls.WIDTH)
        cls.addClassCleanup(cls.browser.quit)
        cls.ready_ms = cls.browser.open(cls.path)
        print(f"\n{cls.__name__}: {os.path.getsize(cls.path) / MIB:.2f} MiB, charts after {cls.ready_ms} ms")

    @classmethod
    def arguments(cls):
        return cls.ARGUMENTS

    @classmethod
    def change_page(cls):
        pass

    # Every test begins with the same page, and no test may leave a complaint or a request behind.
    def setUp(self):
        self.browser.open(self.path)

    def tearDown(self):
        self.assertEqual(self.browser.problems(), [])
        self.assertEqual({url for url in self.browser.requests() if not url.startswith("blob:")}, {"file://" + self.path})

    def made(self, **options):
        path = os.path.join(self.folder.name, "made.trace")
        with open(path, "w", encoding="utf-8") as out:
            out.write(made_trace.trace(SEED, **options))
        return path

    def press(self, selector, *keys):
        self.browser.find(selector).send_keys(*keys)
        self.browser.frame()

    def choose(self, label, value):
        for box in self.browser.all("label.choice"):
            if box.text.split("\n")[0].strip().startswith(label):
                Select(box.find_element("css selector", "select")).select_by_value(value)
                return self.browser.frame()
        self.fail(f"no choice {label}")

    def sums(self, place=0):
        self.browser.frame()
        return self.browser.run("return {...document.querySelectorAll('.sums .table')[arguments[0]].dataset}", place)

    def shoot(self, name, *sections):
        """The whole page, and those sections that docs/report.md and docs/tuning.md show."""
        self.browser.frame()
        self.browser.screenshot(os.path.join(SCREENSHOTS, name + ".png"))
        for section in sections:
            self.browser.screenshot(os.path.join(SCREENSHOTS, f"{name}-{section}.png"), "#" + section)


def real(name):
    return os.path.join(TRACES, name + ".csv.xz")


class LargeRun(Page):
    ARGUMENTS = (real("kv_server"),)

    def test_its_figures_are_those_of_the_replay(self):
        figures = self.browser.run("return report.runs[0].facts.figures")
        out = subprocess.run([PROGRAM, "replay", real("kv_server")], capture_output=True, check=True).stdout.decode()
        shown = self.browser.find("#figures .table").text
        for name, number in [("peak_requested", "488,376,320"), ("peak_allocated", "492,063,744")]:
            self.assertEqual(f"{figures[name]:,}", number)
            self.assertIn(number, out)
        self.assertIn("451,221", shown)

    def test_the_chart_of_the_whole_run_has_its_peaks(self):
        most = self.browser.run("return report.charts[0].plot.data.slice(1).map((line) => Math.max(...line))")
        peaks = self.browser.run("return report.runs[0].facts.peaks")
        self.assertEqual(most, [peaks[name]["bytes"] for name in ("reserved", "allocated", "requested")])

    def test_what_is_seen_closely_is_exact(self):
        self.browser.run("report.state.setView(700000, 700400)")
        equal = self.browser.run("""
            const [x, reserved, allocated, requested] = report.charts[0].plot.data;
            const {totals} = report.runs[0];
            return x.length === 401 && x.every((event, i) => event === 700000 + i && reserved[i] === totals.reserved[event] &&
              allocated[i] === totals.allocated[event] && requested[i] === totals.requested[event])""")
        self.assertTrue(equal)

    def test_it_is_seen_in_light_and_in_dark(self):
        colours = []
        for scheme in ["light", "dark"]:
            self.browser.prefer(scheme)
            self.browser.open(self.path)
            colours.append(self.browser.run("return getComputedStyle(document.body).backgroundColor"))
            self.shoot(f"kv_server-{scheme}")
        self.assertEqual(colours, ["rgb(255, 255, 255)", "rgb(20, 24, 31)"])
        self.browser.prefer("light")
        Select(self.browser.find("#theme")).select_by_value("dark")
        self.assertEqual(self.browser.run("return getComputedStyle(document.body).backgroundColor"), colours[1])


class Moments(Page):
    """A run of which every part of the page has something to show."""

    CAPACITY = 600 * MIB

    @classmethod
    def arguments(cls):
        return cls.made(cls, events=3000, devices=2), "--capacity", str(cls.CAPACITY)

    def test_the_sums_of_a_moment_are_those_of_the_librarys_snapshot(self):
        library = Library(LIBRARY)
        trace = library.read(made_trace.trace(SEED, events=3000, devices=2))
        for moment in [0, 1, 777, 1500, 2998, 2999]:
            self.browser.run("const slider = document.querySelector('input[type=range]'); slider.value = arguments[0];"
                             "slider.dispatchEvent(new Event('input'))", moment)
            shown = {name: int(value) for name, value in self.sums().items()}
            expected = library.sums(trace, moment, self.CAPACITY)
            with self.subTest(seed=SEED, moment=moment):
                self.assertEqual([shown["requested"], shown["live"], shown["pending"], shown["reserved"], shown["liveBlocks"]],
                                 [expected.requested, expected.live, expected.pending, expected.reserved, expected.blocks])
                self.assertEqual(shown["live"] + shown["pending"] + shown["cached"], shown["reserved"])
        library.destroy(trace)

    def test_stacks_have_the_height_of_the_sum(self):
        for grouping in ["label", "stream", "pool", "device"]:
            self.choose("Show", grouping)
            for measure in ["requested", "allocated"] + (["reserved"] if grouping != "label" else []):
                self.choose("of", measure)
                tops = self.browser.run("const {plot} = report.charts[0]; const top = plot.data[plot.data.length - 1];"
                                        "return plot.data[0].map((event, i) => [event, top[i]])")
                totals = self.browser.run("return Array.from(report.runs[0].totals[arguments[0]])", measure)
                with self.subTest(grouping=grouping, measure=measure):
                    self.assertTrue(all(abs(totals[event] - top) < 1 for event, top in tops))
            self.shoot(f"made-by-{grouping}")

    def test_the_axis_shows_events_or_time(self):
        last = self.browser.run("return report.runs[0].seconds[2999]")
        self.choose("over", "time")
        self.assertAlmostEqual(self.browser.run("return report.charts[0].plot.scales.x.max"), last)
        self.choose("over", "event")
        self.assertEqual(self.browser.run("return report.charts[0].plot.scales.x.max"), 2999)

    def test_keys_choose_the_moment_and_what_is_seen(self):
        peak = self.browser.run("return report.runs[0].facts.peaks.reserved.event")
        self.press(".chart", "r")
        self.assertEqual(self.browser.run(MOMENT), peak)
        self.assertIn(f"{peak:,}", self.browser.find(".moment").text)
        for key, expected in [(Keys.HOME, 0), (Keys.ARROW_RIGHT, 15), (Keys.ARROW_LEFT, 0), (Keys.ARROW_LEFT, 0), (Keys.END, 2999)]:
            self.press(".chart", key)
            self.assertEqual(self.browser.run(MOMENT), expected)
        self.press(".chart", "+")
        self.assertEqual(self.browser.run(VIEW), [1499, 2999])
        self.press(".chart", Keys.ARROW_LEFT)
        self.assertEqual(self.browser.run(MOMENT), 2991, "smaller steps where less is seen")
        self.press(".chart", "0")
        self.assertEqual(self.browser.run(VIEW), [0, 2999])

    def test_a_click_chooses_the_moment_and_a_drag_what_is_seen(self):
        plot = self.browser.find(".u-over")
        ActionChains(self.browser.driver).move_to_element(plot).click().perform()
        self.assertAlmostEqual(self.browser.run(MOMENT), 1500, delta=6)
        ActionChains(self.browser.driver).move_to_element(plot).click_and_hold().move_by_offset(200, 0).release().perform()
        self.browser.frame()
        begin, end = self.browser.run(VIEW)
        self.assertAlmostEqual(begin, 1500, delta=8)
        self.assertLess(end, 2200)
        self.assertAlmostEqual(self.browser.run(MOMENT), 1500, delta=6)

    def test_keys_go_through_the_blocks(self):
        self.press("canvas.blocks", Keys.ARROW_RIGHT)
        first = self.browser.find(".moment-panel .details").text
        self.assertRegex(first, r"^(Live|Cached|Freed, pending): 0x[0-9a-f]+, .*device \d, stream ")
        self.press("canvas.blocks", Keys.ARROW_RIGHT)
        self.assertNotEqual(self.browser.find(".moment-panel .details").text, first)
        self.press("canvas.blocks", Keys.ARROW_LEFT)
        self.assertEqual(self.browser.find(".moment-panel .details").text, first)
        self.press("canvas.blocks", Keys.END)
        last = self.browser.find(".moment-panel .details").text
        self.press("canvas.blocks", Keys.ARROW_RIGHT)
        self.assertEqual(self.browser.find(".moment-panel .details").text, last)

    def test_the_flame_graph_holds_what_is_live_and_goes_closer_by_enter(self):
        most = self.browser.run("return Math.max(...report.runs[0].totals.requested)")
        self.assertIn(f"{most:,} B", self.browser.find(".flame-panel .moment").text)
        bars = self.browser.all(".flame g.frame")
        self.assertGreater(len(bars), 5)
        narrow = bars[-1]
        before = narrow.size["width"]
        self.browser.run("arguments[0].focus()", narrow)
        self.assertRegex(self.browser.find(".flame-panel .details").text, r" blocks?$")
        narrow.send_keys(Keys.ENTER)
        self.browser.wait(f"return document.activeElement.getBoundingClientRect().width > {before} + 20")
        self.shoot("made-flame")

    def test_a_miss_and_a_failure_say_why(self):
        for section in ["misses", "failures"]:
            # Those of private pools have no report.
            row = self.browser.run("const {facts} = report.runs[0];"
                                   "return facts[arguments[0]].findIndex((row) => facts.reports[row.report])", section)
            self.browser.all(f"#{section} button.why")[row].send_keys(Keys.ENTER)
            self.assertIn("A request of", self.browser.find(f"#{section} .explanation").text)
            event = self.browser.all(f"#{section} th button.link")[row]
            event.send_keys(Keys.ENTER)
            self.assertEqual(f"{self.browser.run(MOMENT):,}", event.text)
        self.shoot("made")

    def test_texts_of_the_recording_stay_texts(self):
        self.assertEqual(self.browser.all("img"), [])
        self.assertIn("memory report", self.browser.driver.title)
        self.assertIn(made_trace.HOSTILE, self.browser.find("#figures").text)
        self.choose("Colours by", "label")
        self.assertEqual(self.browser.all("img"), [])

    def test_tab_reaches_everything_that_acts_and_shows_where_it_is(self):
        reached = set()
        body = self.browser.find("body")
        for _ in range(400):
            body = self.browser.driver.switch_to.active_element
            body.send_keys(Keys.TAB)
            place = self.browser.run("""
                const at = document.activeElement;
                if (at === document.body) return null;
                const shown = at.matches("g") ? at.querySelector("rect") : at;
                const style = getComputedStyle(shown);
                const seen = at.matches("g") ? style.strokeWidth !== "0px" : style.outlineStyle !== "none";
                return [at.tagName + "." + (at.getAttribute("class") ?? at.id), seen]""")
            if place is None:
                break
            name, is_seen = place
            self.assertTrue(is_seen, f"{name} does not show that it has the focus")
            reached.add(name.split(".")[0].lower() + "." + name.split(".")[1])
        for name in ["select.theme", "div.chart", "canvas.blocks", "g.frame", "button.link", "div.table"]:
            self.assertIn(name, reached)

    def test_controls_have_names(self):
        unnamed = self.browser.run("""
            return Array.from(document.querySelectorAll("select, input, button, canvas, [tabindex]"))
              .filter((at) => !at.closest("[aria-hidden]") && !(at.labels?.length || at.getAttribute("aria-label") || at.textContent.trim())).map((at) => at.outerHTML)""")
        self.assertEqual(unnamed, [])


class Labels(Page):
    @classmethod
    def arguments(cls):
        return (cls.made(cls, events=3000, contexts=made_trace.labels),)

    def test_memory_is_told_by_label(self):
        self.choose("Show", "label")
        names = {item.text for item in self.browser.all(".legend li")}
        self.assertEqual(names, {"model-a/weights", "model-a/kv-cache", "model-b/weights", "model-b", made_trace.HOSTILE, "no label"})
        self.assertEqual(self.browser.all("img"), [])
        self.shoot("made-labels", "memory", "flame")

    def test_labels_within_a_label_hang_from_it_in_the_flame_graph(self):
        bars = [(bar.get_attribute("name"), bar.rect) for bar in self.browser.all(".flame g.frame")]
        outer = next(rect for name, rect in bars if name == "model-a")
        inner = {name: rect["width"] for name, rect in bars
                 if rect["y"] > outer["y"] and outer["x"] - 2 <= rect["x"] < outer["x"] + outer["width"] - 2}
        self.assertEqual(set(inner), {"kv-cache", "weights"})
        self.assertAlmostEqual(outer["width"], sum(inner.values()), delta=4)


class ManyStreams(Page):
    ARGUMENTS = (real("many_streams"),)

    def test_segments_lie_under_their_streams(self):
        self.choose("Show", "stream")
        self.choose("of", "reserved")
        self.assertEqual(len(self.browser.all(".legend li")), 10, "nine streams and the others")
        rows = self.browser.all("#moment tbody tr")
        self.assertGreater(len(rows), 30)
        colours = self.browser.run("return Array.from(document.querySelectorAll('.legend .swatch'), (at) => at.style.background)")
        self.assertEqual(len(set(colours)), 10)
        self.shoot("many_streams", "memory", "moment", "flame")

    def test_what_is_drawn_is_not_blank(self):
        for selector in [".u-wrap canvas", "canvas.blocks"]:
            colours = self.browser.run("""
                const canvas = document.querySelector(arguments[0]);
                const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                return new Set(new Uint32Array(data.buffer)).size""", selector)
            self.assertGreater(colours, 4, selector)


class Pair(Page):
    ARGUMENTS = (real("gnn_train"), "--against-config", "expandable_segments:True")
    WIDTH = 1800

    def test_runs_are_side_by_side_with_the_same_axes(self):
        places = [box.rect for box in self.browser.all(".chart")]
        self.assertEqual(len(places), 2)
        self.assertEqual(places[0]["y"], places[1]["y"])
        scales = self.browser.run("return report.charts.map(({plot}) => [plot.scales.x.max, plot.scales.y.max])")
        self.assertEqual(scales[0], scales[1])
        self.shoot("gnn_train-pair", "memory", "reasons")

    def test_their_moments_are_one(self):
        self.press(".chart", Keys.END)
        self.assertEqual(self.browser.run("return report.moments.map((moment) => moment.value)"), [37379, 37379])
        reserved = [int(self.sums(i)["reserved"]) for i in (0, 1)]
        self.assertGreater(reserved[0], reserved[1])

    def test_their_figures_are_compared(self):
        row = next(row for row in self.browser.all("#figures tr") if row.text.startswith("peak of reserved"))
        self.assertRegex(row.text, r"33\.2 GiB 9\.\d+ GiB −23\.\d GiB \(−7\d\.\d %\)")


TUNE = "report.document.tune"


class Tune(Page):
    """The answer for a run of which the search finds more than is usual."""

    COMMAND = "tune"
    ARGUMENTS = (real("detect_expandable"), "--capacity", "24GiB", "--reserve", "600MiB")
    WIDTH = 1280
    CHOSEN = "return [...document.querySelectorAll('#tune tr.chosen')].map((row) => row.querySelector('code').textContent)"

    def test_the_chart_has_a_point_for_each_string_and_a_line_through_the_front(self):
        points, rows = self.browser.run("""
            const [x, y, front] = report.answers[0].chart.plot.data;
            return [x.map((mebibytes, i) => [mebibytes * 2 ** 20, y[i], front[i] !== null]), report.document.tune.runs[0].results]""")
        self.assertGreater(len(rows), 8)
        self.assertEqual(sorted(points), sorted([row["fits_bytes"], row["cost_ms"], row["is_on_front"]] for row in rows))

    def test_the_table_says_what_the_answer_says(self):
        rows = self.browser.run(f"return {TUNE}.runs[0].results")
        lines = self.browser.all("#tune tbody tr")
        self.assertEqual(len(lines), len(rows))
        for line, row in zip(lines, rows, strict=True):
            cells = [cell.text for cell in line.find_elements("css selector", "th, td")]
            config = row["config"] or ("policy serving" if row["policy"] else "defaults")
            self.assertEqual(cells[0].removesuffix(" found by the search"), config)
            self.assertEqual(cells[0].endswith("search"), row["found_by_search"])
            self.assertEqual((cells[1], cells[3]), ("yes" if row["is_on_front"] else "", f"{row['fits_bytes'] / MIB:,.1f} MiB"))
        marked = self.browser.all("#tune tr.recommended code")
        self.assertEqual([code.text for code in marked], [self.browser.run(f"return {TUNE}.runs[0].recommended.config")])

    def test_the_string_to_take_can_be_copied(self):
        self.press(".recommendation button", Keys.ENTER)
        self.browser.wait("return document.querySelector('.recommendation button').textContent === 'Copied' || "
                          "getSelection().toString() === document.querySelector('.recommendation code').textContent")
        text = self.browser.find(".recommendation").text
        self.assertIn("0.823 of the 4,918.0 MiB of the defaults", text)
        self.assertIn("CUDA IPC", text)

    def test_keys_go_from_string_to_string(self):
        self.assertEqual(self.browser.find(".tip").text, "")
        recommended = self.browser.run(f"return {TUNE}.runs[0].recommended.config")
        self.press(".scatter", Keys.SHIFT)
        self.assertEqual(self.browser.run(self.CHOSEN), [recommended])
        self.assertTrue(self.browser.find(".tip").text.startswith(recommended))
        self.press(".scatter", Keys.HOME)
        self.assertRegex(self.browser.find(".tip").text, r"^policy serving\n3,960\.6 MiB, \d+\.\d\d ms$")
        seen = set()
        for _ in self.browser.run(f"return {TUNE}.runs[0].results"):
            seen.update(self.browser.run(self.CHOSEN))
            self.press(".scatter", Keys.ARROW_RIGHT)
        self.assertEqual(len(seen), self.browser.run(f"return {TUNE}.runs[0].results.length"))
        self.assertEqual(self.browser.run(self.CHOSEN), ["roundup_power2_divisions:4"])
        self.assertNotEqual(self.browser.run("return getComputedStyle(document.activeElement).outlineStyle"), "none")
        self.press(".scatter", Keys.TAB)
        self.assertEqual((self.browser.run(self.CHOSEN), self.browser.find(".tip").text), ([], ""))

    def test_a_point_that_is_pointed_at_has_its_string_beside_it(self):
        plot = self.browser.find(".scatter .u-over")
        x, y = self.browser.run("""
            const {chart} = report.answers[0];
            return chart.place(chart.plot, chart.rows.find((row) => row.config === "" && row.policy === ""), false)""")
        move = ActionChains(self.browser.driver)
        move.move_to_element_with_offset(plot, round(x - plot.size["width"] / 2) + 6, round(y - plot.size["height"] / 2)).perform()
        self.assertRegex(self.browser.find(".tip").text, r"^defaults\n4,918\.0 MiB")
        self.assertEqual(self.browser.run(self.CHOSEN), ["defaults"])
        move.move_to_element(self.browser.find("h1")).perform()
        self.assertEqual(self.browser.run(self.CHOSEN), [])

    def test_the_run_is_shown_under_the_defaults_and_under_the_string_to_take(self):
        self.assertEqual(self.browser.run("return document.querySelector('main section').id"), "tune")
        shown = self.browser.run("return report.runs.map(({facts}) => [facts.config, facts.capacity])")
        usable = (24 << 30) - 600 * MIB
        self.assertEqual(shown, [["", usable], ["expandable_segments:True,large_segment_size_mb:12", usable]])

    def test_it_is_seen_in_light_and_in_dark(self):
        for scheme in ["dark", "light"]:
            self.browser.prefer(scheme)
            self.browser.open(self.path)
            colours = self.browser.run("""
                const canvas = document.querySelector(".scatter canvas");
                const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                return new Set(new Uint32Array(data.buffer)).size""")
            self.assertGreater(colours, 4)
            self.shoot(f"tune-{scheme}", "tune", "memory")


class MadeTune(Page):
    """What a real answer seldom has: requests that fail, a stop, hostile texts, several recordings, one of them without a row."""

    ARGUMENTS = (real("gnn_train"),)

    @classmethod
    def change_page(cls):
        row = {"config": made_trace.HOSTILE, "policy": "", "release": "2.11", "found_by_search": False, "fits_bytes": 900 * MIB,
               "fails_bytes": 896 * MIB, "out_of_memory": 0, "retries": 0, "driver_calls": 3, "cost_ms": 2, "left_bytes": 5,
               "is_on_front": True}
        failing = row | {"config": "", "fits_bytes": 90_000 * MIB, "out_of_memory": 7, "cost_ms": 0, "is_on_front": False}
        tuned = {"requested_bytes": 880 * MIB, "device_bytes": 1 << 30, "usable_bytes": 1000 * MIB, "strings_tried": 0,
                 "results": [row, failing],
                 "recommended": {"config": made_trace.HOSTILE, "policy": "", "reason": made_trace.HOSTILE,
                                 "warnings": [made_trace.HOSTILE], "varied_runs": 0, "varied_runs_finished": 0,
                                 "varied_runs_finished_by_defaults": 0}}
        empty = tuned | {"file": "empty.csv", "events": 0, "results": [], "recommended": None}
        answer = {"runs": [empty, tuned | {"file": made_trace.HOSTILE, "events": 5}], "together": tuned,
                  "held_back": [{"file": made_trace.HOSTILE, "requested_bytes": 1, "fits_bytes": 2, "fits_bytes_of_defaults": 3}],
                  "costs": made_trace.HOSTILE, "is_complete": False}
        with open(cls.path, encoding="utf-8") as page:
            text = page.read()
        with open(cls.path, "w", encoding="utf-8") as page:
            page.write(text.replace('"runs":[', f'"tune":{json.dumps(answer)},'.replace("<", "\\u003c") + '"runs":[', 1))

    def test_all_together_are_first(self):
        titles = [heading.text.split(":")[0] for heading in self.browser.all("#tune h3")]
        self.assertEqual(titles[:2], ["All 2 recordings together", "empty.csv"])
        self.assertIn("No string was looked at.", self.browser.all("#tune .answer")[1].text)

    def test_texts_of_an_answer_stay_texts(self):
        self.assertEqual(self.browser.all("img"), [])
        text = self.browser.find("#tune").text
        self.assertEqual(text.count(made_trace.HOSTILE.rpartition("/")[2]), 11)
        self.press(".scatter", Keys.HOME)
        self.assertEqual(self.browser.find(".tip b").text, made_trace.HOSTILE)

    def test_a_string_whose_requests_fail_has_a_point_of_its_own_kind(self):
        self.press(".scatter", Keys.END)
        self.assertEqual(self.browser.find(".tip").text, "defaults\n90,000.0 MiB, 7 fail")
        self.assertIn("requests fail on the device asked for", self.browser.find("#tune .legend").text)
        self.assertEqual(self.browser.run("return report.answers[0].chart.plot.scales.x.distr"), 3, "a wide axis is logarithmic")
        self.shoot("made-tune", "tune")

    def test_a_stop_is_told(self):
        self.assertIn("strings are missing", self.browser.find("#tune .problem").text)


class Nothing(Page):
    @classmethod
    def arguments(cls):
        path = os.path.join(cls.folder.name, "nothing.csv")
        with open(path, "w", encoding="utf-8") as out:
            out.write('# {"warm_up": 0}\n')
        return (path,)

    def test_a_run_of_nothing_is_shown(self):
        self.assertIn("No request failed.", self.browser.find("#failures").text)
        self.press(".chart", Keys.ARROW_RIGHT, "+", "r")
        self.assertEqual(self.browser.run(MOMENT), 0)


if __name__ == "__main__":
    PROGRAM, LIBRARY, SCREENSHOTS = sys.argv[1:4]
    os.makedirs(SCREENSHOTS, exist_ok=True)
    print(f"CACHALOT_TEST_SEED={SEED}")
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
