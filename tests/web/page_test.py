"""The report's page as its readers meet it: in a browser, from the disk."""
import json
import os
import pathlib
import re
import sys
import time
import unittest
from xml.etree import ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from browser import PATIENCE, PROGRAM, Browser, Page
from harness import Case, new_folder, train
from runs import write_run

SCREENSHOTS = pathlib.Path(os.environ.get("SCREENSHOTS") or "screenshots")
HOSTILE = ["</script><script>window.pwned = 1</script>", '"><img src=x onerror="window.pwned=1">', "שלום <b>עולם</b>", "it's \"quoted\" & {a|b}"]
COLUMN = "[...document.querySelectorAll('#summary tbody tr')].map((row) => row.cells[{}].textContent)"
# Pixels that differ from the corner of their chart.
INK = """[...document.querySelectorAll('figure:not([hidden]):has(.chart)')].map((figure) => [...figure.querySelectorAll('canvas')].reduce((ink, canvas) => {
  const all = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return ink + all.reduce((count, pixel) => count + (pixel !== all[0]), 0);
}, 0))"""
NOTES = """Object.fromEntries([...document.querySelectorAll('figure:not([hidden])')].map((figure) =>
  [figure.querySelector('h3').textContent, figure.querySelector('.note').textContent]))"""
TITLES = "[...document.querySelectorAll('figure:not([hidden]):has(.chart) h3')].map((title) => title.textContent)"

FIGURE = "[...document.querySelectorAll('figure')].find((figure) => figure.querySelector('h3').textContent === '{}')"


@unittest.skipIf(PROGRAM is None, "there is no Chromium here (Debian: chromium)")
class InABrowser(Case):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.runs = new_folder(cls)

    def open(self, *runs, alter=None, flags=(), **looks):
        """`alter` makes of the report's runs what the program would not let through."""
        self.fedgrab("report", *runs, "-o", self.folder / "report.html", *flags, folder=self.runs)
        if alter:
            before, data, after = re.split(r'(?<=type="application/json">)(.*?)(?=</script>)', (self.folder / "report.html").read_text(), maxsplit=1)
            data = json.loads(data)
            alter(*data["runs"])
            (self.folder / "report.html").write_text(before + json.dumps(data).replace("<", "\\u003c") + after)
        self.size = (self.folder / "report.html").stat().st_size
        page = Page(self.browser, (self.folder / "report.html").as_uri(), **looks)
        page.draw_everything()
        return page

    def enter(self, page, box, text):
        page.run(f"{{ const box = document.querySelector({json.dumps(box)}); box.value = {json.dumps(text)}; box.dispatchEvent(new Event('input')); }}")

    def press(self, page, button, title=None):
        """A button of the card with that title, or of the page."""
        within = f"{FIGURE.format(title)}" if title else "document"
        page.run(f"[...{within}.querySelectorAll('button')].find((each) => each.textContent === '{button}').click()")

    def saved(self, page, press, count=1):
        """What the page lets its reader download, once it has arrived."""
        folder = new_folder(type(self))
        page.save_downloads_in(folder)
        press()
        end = time.monotonic() + PATIENCE
        complete = lambda: [path for path in folder.iterdir() if path.suffix in (".svg", ".png")]
        while len(complete()) < count:
            self.assertLess(time.monotonic(), end, list(folder.iterdir()))
            time.sleep(0.05)
        return {path.name: path.read_bytes() for path in complete()}

    def texts(self, page, title):
        """The texts in the chart with that title, as its SVG has them."""
        ((_, svg),) = self.saved(page, lambda: self.press(page, "SVG", title)).items()
        return [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]

    def assert_clean(self, page):
        self.assertEqual([], page.complaints())
        self.assertTrue(all(url.startswith(("file:", "data:")) for url in page.requests()), page.requests())


class OneRun(InABrowser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        train(cls.runs, "--method", "fedgrab", "--out", "real")

    def test_every_chart_is_drawn(self):
        page = self.open("real")
        page.screenshot(SCREENSHOTS / "run.png")
        titles = page.run(TITLES)
        self.assertLessEqual({"Accuracy by round", "Accuracy of a class against its size", "Confusion matrix", "Client × class", "Balancer of a class over time",
                              "Balancer of all classes over time", "Prior against the truth", "Rounds to a target", "Bytes sent", "Time by phase"}, set(titles))
        ink = page.run(INK)
        self.assertEqual(len(titles), len(ink))
        self.assertGreater(min(ink), 300, dict(zip(titles, ink)))
        self.assert_clean(page)

    def test_on_a_phone(self):
        page = self.open("real", width=390, height=844)
        page.screenshot(SCREENSHOTS / "phone.png")
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 390, "no sideways scrolling")
        few = "[...document.querySelectorAll('#summary th')].find((cell) => cell.textContent === 'Few').getBoundingClientRect().right"
        self.assertLess(page.run(few), 390)
        self.assert_clean(page)

    def test_what_is_not_recorded_is_absent(self):
        write_run(self.folder / "plain", method="fedavg")
        titles = self.open(self.folder / "plain").run(TITLES)
        self.assertFalse([title for title in titles if "Balancer" in title or "Prior" in title])

    def test_a_run_without_a_round(self):
        write_run(self.folder / "empty", rounds=0, wanted=10, finished=False)
        page = self.open(self.folder / "empty")
        self.assertEqual(["0/10"], page.run(COLUMN.format(3)))
        self.assert_clean(page)

    def test_how_many_evaluations_the_mean_is_of(self):
        few, many = write_run(self.folder / "few", rounds=5), write_run(self.folder / "many", rounds=30)
        chosen = "document.querySelector('#summary select').selectedOptions[0].textContent"
        self.assertEqual("mean of the last 5 evaluations", self.open(few).run(chosen))
        self.assertEqual("mean of the last ten evaluations", self.open(many).run(chosen))
        self.assertEqual("mean of the last ten evaluations, or of all where there are fewer", self.open(few, many).run(chosen))

    def test_a_target_that_is_no_accuracy(self):
        page = self.open(write_run(self.folder / "run"))
        note = f"{NOTES}['Rounds to a target']"
        for text in ("", "55", "-1"):
            self.enter(page, "input[type=number]", text)
            self.assertEqual("Give an accuracy between 0 and 1.", page.run(note), text)
        self.enter(page, "input[type=number]", "0.1")
        self.assertEqual("First evaluated round that reached the target.", page.run(note))
        page.draw_everything()
        self.assertGreater(dict(zip(page.run(TITLES), page.run(INK)))["Rounds to a target"], 300)
        self.assert_clean(page)

    def test_which_classes_are_few(self):
        page = self.open(write_run(self.folder / "run", classes=60))
        self.assertRegex(page.run("document.querySelector('#classes').innerText"), r"Many: class 0, .* and 8 more · Med: class 20, .* · Few: class 40, class 41, .* and 8 more\n")


    def test_a_chart_is_zoomed_by_dragging_and_reset(self):
        page = self.open(write_run(self.folder / "run", rounds=200))
        for title in ("Accuracy by round", "Confusion matrix", "Accuracy of a class against its size"):
            reset = f"[...{FIGURE.format(title)}.querySelectorAll('button')].find((each) => each.textContent === 'Reset zoom').hidden"
            self.assertTrue(page.run(reset))
            whole = self.texts(page, title)
            page.run(f"{FIGURE.format(title)}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
            page.drag(f"{FIGURE.format(title)}.querySelector('.chart')", (0.5, 0.3), (0.8, 0.6))
            page.wait_for(f"!{reset}")
            self.assertNotEqual(whole, self.texts(page, title), title)
            self.press(page, "Reset zoom", title)
            self.assertTrue(page.run(reset))
            self.assertEqual(whole, self.texts(page, title))
        self.assert_clean(page)

    def test_axes_fit_the_data(self):
        def alter(run):
            run["curves"]["all"] = [0.71 + 0.001 * (i % 30) for i in range(len(run["curves"]["all"]))]
            for group in ("many", "med", "few"):
                del run["curves"][group]
        texts = self.texts(self.open(write_run(self.folder / "run"), alter=alter), "Accuracy by round")
        numbers = [float(text) for text in texts if re.fullmatch(r"0\.\d+|0|1", text)]
        self.assertGreater(min(numbers), 0.7, texts)
        self.assertLess(max(number for number in numbers if number != 1), 0.76, "1 is the first round")
        self.assertIn("0.739", texts, "the best value")

    def test_charts_are_saved_as_files(self):
        page = self.open(write_run(self.folder / "run"), dark=True)
        texts = self.texts(page, "Accuracy by round")
        self.assertLessEqual({"Accuracy by round: run", "All", "Many", "Med", "Few", "accuracy", "round"}, set(texts))
        ((name, png),) = self.saved(page, lambda: self.press(page, "PNG", "Confusion matrix")).items()
        self.assertEqual(("Confusion-matrix-run.png", b"\x89PNG\r\n\x1a\n"), (name, png[:8]))
        self.assertEqual("dark", page.run("document.documentElement.dataset.theme"))
        charts = page.run("document.querySelectorAll('figure:not([hidden]) .chart').length")
        saved = self.saved(page, lambda: page.run("document.querySelector('#save').click()"), charts)
        self.assertEqual(charts, len(saved), "each under a name of its own")
        for name, svg in saved.items():
            self.assertEqual("{http://www.w3.org/2000/svg}svg", ElementTree.fromstring(svg).tag, name)
        self.assert_clean(page)

    def test_names_with_a_common_beginning_are_told_apart(self):
        names = [f"dermatoscopic_finding_of_the_{part}" for part in ("nose", "cheek", "chin", "brow", "ear", "neck", "lip", "scalp", "temple", "lid")]
        page = self.open(write_run(self.folder / "run", names=names))
        texts = self.texts(page, "Confusion matrix")
        for part in ("nose", "cheek", "temple"):
            self.assertEqual(2, texts.count(f"…{part}"), texts)

    def test_121_classes(self):
        words = ("superficial", "deep", "left", "right", "upper", "lower", "anterior", "posterior", "benign", "malignant", "atypical")
        page = self.open(write_run(self.folder / "run", rounds=120, names=[f"dermatoscopic_finding_{a}_{b}" for a in words for b in words], samples=24))
        self.assertGreater(min(page.run(INK)), 300)
        self.assertTrue(page.run(f"""[...{FIGURE.format("Confusion matrix")}.querySelectorAll('canvas')].some((canvas) => {{
          const {{ width, height }} = canvas;
          const copy = new OffscreenCanvas(width, height).getContext('2d');
          copy.drawImage(canvas, 0, 0);
          const below = copy.getImageData(0.6 * width, 0.65 * height, 0.3 * width, 0.15 * height).data;
          return below.every((value, i) => i % 4 !== 3 || value > 0);
        }})"""), "the map is drawn to its end")
        page.screenshot(SCREENSHOTS / "classes.png")
        self.assert_clean(page)

    def test_the_confusion_matrix_and_images_of_an_interrupted_run(self):
        write_run(self.folder / "cut", rounds=26, wanted=50, finished=False, samples=8)
        page = self.open(self.folder / "cut")
        self.assertIn("in round 26", page.run(NOTES)["Confusion matrix"])
        confident = page.run("[...document.querySelectorAll('.samples .wrong')].map((item) => Number(item.textContent.match(/confidence ([0-9.]+)/)[1]))")
        self.assertEqual(sorted(confident, reverse=True), confident)
        self.assertGreater(len(confident), 1)
        self.assertEqual(8, page.run("[...document.querySelectorAll('.samples img')].filter((image) => image.naturalWidth === 32).length"))
        self.assert_clean(page)
        page = self.open(self.folder / "cut", flags=["--no-samples"])
        self.assertEqual(0, page.run("document.querySelectorAll('img').length"))
        self.assertNotIn("iVBOR", (self.folder / "report.html").read_text(), "no PNG in the file")


class FiveSeeds(InABrowser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for seed in range(1, 6):
            write_run(cls.runs / "five" / f"skin-lesions-of-four-clinics-fedgrab-seed{seed}", rounds=500 if seed != 3 else 262, wanted=500, finished=seed != 3, seed=seed, noise=0.12, samples=4)

    def test_noise_is_smoothed_for_all_charts_at_once(self):
        page = self.open("five")
        page.screenshot(SCREENSHOTS / "five-seeds.png")
        picture = f"{FIGURE.format('Few: accuracy by round')}.querySelector('canvas').toDataURL()"
        recorded = page.run(picture)
        self.enter(page, "#smoothing", "0.9")
        page.draw_everything()
        self.assertNotEqual(recorded, page.run(picture))
        self.assertIn("Smoothed; faint: as recorded.", page.run(NOTES)["Test loss"])
        page.screenshot(SCREENSHOTS / "five-seeds-smoothed.png")
        self.enter(page, "#smoothing", "0")
        page.draw_everything()
        self.assertEqual(recorded, page.run(picture))
        self.assert_clean(page)

    def test_a_run_that_ended_early_is_marked(self):
        page = self.open("five")
        note = "skin-lesions-of-four-clinics-fedgrab-seed3 has 262 of 500 rounds."
        self.assertIn(f"over seeds (4), those that have ended. {note}", page.run(NOTES)["Macro F1"])
        page.run("document.querySelector('#seeds').click()")
        page.draw_everything()
        self.assertEqual(["262/500"], page.run("[...document.querySelectorAll('#summary .short')].map((cell) => cell.textContent)"))
        self.assertEqual("only 262 of 500 rounds", page.run("document.querySelector('#summary .short').title"))
        self.assertIn("262 of 500 rounds", self.texts(page, "All: accuracy by round"))
        self.assertEqual(["…seed1", "…seed2", "…seed3", "…seed4", "…seed5"], page.run("[...document.querySelectorAll('.chip .label')].map((label) => label.textContent)"))

    def test_the_best_of_several_runs_is_marked(self):
        page = self.open("five")
        page.run("document.querySelector('#seeds').click()")
        few = [float(text) for text in page.run(COLUMN.format(7))]
        best = page.run("[...document.querySelectorAll('#summary tbody tr')].findIndex((row) => row.cells[7].classList.contains('best'))")
        self.assertEqual(max(few), few[best])


class ManyRuns(InABrowser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for i in range(12):
            method = ("fedavg", "fedgrab", "creff")[i % 3]
            write_run(cls.runs / "all" / f"{method}-seed{i // 3 + 1}", rounds=500, classes=100, clients=40, method=method, seed=i + 1)

    def test_twelve_runs(self):
        page = self.open("all")
        self.assertLess(self.size, 5e6)
        self.assert_clean(page)
        self.assertGreater(min(page.run(INK)), 300)
        self.assertIn("Thinned: every", page.run("document.body.innerText"))
        page.screenshot(SCREENSHOTS / "comparison.png")

        with self.subTest("seeds"):
            self.assertEqual(["creff", "fedavg", "fedgrab"], page.run(COLUMN.format(0)))
            self.assertIn("over seeds", page.run("document.body.innerText"))
            self.assertRegex(page.run(COLUMN.format(4))[0], r"^0\.\d+ ±\s0\.\d+$")
            page.run("document.querySelector('#seeds').click()")
            self.assertEqual(12, len(page.run(COLUMN.format(0))))
            page.draw_everything()
            self.assertNotIn("over seeds", page.run("document.body.innerText"))
            page.screenshot(SCREENSHOTS / "seeds-apart.png")

        with self.subTest("sorting"):
            before = page.run(COLUMN.format(0))
            page.run("[...document.querySelectorAll('#summary th button')].find((button) => button.textContent.startsWith('Few')).click()")
            few = page.run(COLUMN.format(7))
            self.assertEqual(sorted(few, reverse=True), few)
            self.assertNotEqual(before, page.run(COLUMN.format(0)))
            self.assertEqual("descending", page.run("document.querySelector('th[aria-sort]:not([aria-sort=none])').ariaSort"))

        with self.subTest("filtering"):
            for text, rows in (("creff", 4), ("no such run", 0)):
                self.enter(page, "#filter", text)
                page.wait_for(f"{COLUMN.format(0)}.length === {rows}")
            self.assertEqual("No run's name contains “no such run”.", page.run("document.querySelector('#page').innerText").strip())
            self.enter(page, "#filter", "")
            page.wait_for(f"{COLUMN.format(0)}.length === 12")
            page.run("document.querySelector('.chip input').click()")
            self.assertEqual(11, len(page.run(COLUMN.format(0))))

        with self.subTest("theme"):
            ground = "getComputedStyle(document.body).backgroundColor"
            light = page.run(ground)
            page.run("document.querySelector('#theme').click()")
            self.assertNotEqual(light, page.run(ground))
            page.draw_everything()
            page.screenshot(SCREENSHOTS / "comparison-dark.png")

        with self.subTest("differences of the configuration"):
            keys = page.run("[...document.querySelectorAll('#configuration .card > div:first-child tbody th')].map((cell) => cell.textContent)")
            self.assertEqual(["method.name", "train.seed"], keys)
        self.assert_clean(page)

    def test_opens_quickly(self):
        self.fedgrab("report", "all", "-o", self.folder / "report.html", folder=self.runs)
        drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
        times = []
        while len(times) < 6 and min(times, default=2000) >= 2000:  # other programs may be busy
            times.append(Page(self.browser, (self.folder / "report.html").as_uri()).run(drawn))
        print(f"12 runs of 500 rounds and 100 classes: open after {min(times):.0f} ms", file=sys.stderr)
        self.assertLess(min(times), 2000)

    def test_dark_by_preference(self):
        page = self.open("all/fedgrab-seed1", dark=True)
        self.assertEqual("dark", page.run("document.documentElement.dataset.theme"))
        page.screenshot(SCREENSHOTS / "run-dark.png")

    def test_opens_by_keyboard(self):
        page = self.open("all")
        seen = []
        for _ in range(40):
            page.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
            seen.append(page.run("document.activeElement.id || document.activeElement.className || document.activeElement.tagName"))
        for what in ("skip", "theme", "filter", "copy", "scroll"):
            self.assertIn(what, seen)


class Damaged(InABrowser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_run(cls.runs / "x" / "good")
        write_run(cls.runs / "x" / "odd", method="fedgrab+")

    def failures(self, page):
        self.assertEqual(["good", "odd"], page.run(COLUMN.format(0)))
        self.assertIn("method.name", page.run("document.querySelector('#configuration').innerText"))
        self.assert_clean(page)
        failed = {title for title, note in page.run(NOTES).items() if note.startswith("cannot be drawn: ")}
        for title, ink in zip(page.run(TITLES), page.run(INK)):
            if title not in failed:
                self.assertGreater(ink, 300, title)
        return failed

    def test_a_card_that_cannot_be_drawn_stops_no_other(self):
        def alter(good, odd):
            del odd["confusion"]["counts"][3:]
            del odd["diagnostics"]["delta"]["mean"][3:]
        page = self.open("x", alter=alter)
        self.assertEqual({"Confusion matrix", "Balancer of a class over time", "Balancer of all classes over time"}, self.failures(page))
        page.run("{ const list = document.querySelector('#detail select'); list.value = 'good'; list.dispatchEvent(new Event('change')); }")
        page.draw_everything()
        self.assertEqual(set(), self.failures(page))

    def test_a_run_without_classes(self):
        def alter(good, odd):
            odd["classes"] = {"names": [], "counts": [], "group": []}
        self.failures(self.open("x", alter=alter))


class Hostile(InABrowser):
    def test_names_are_shown_and_never_executed(self):
        write_run(self.runs / "x" / '<img src=x onerror="window.pwned=1">', names=HOSTILE * 3)
        write_run(self.runs / "x" / "שלום & <script>window.pwned=1<\u2044script>", names=HOSTILE * 3, config="[data]\nname = '</script><script>window.pwned=1</script>'\n")
        page = self.open("x")
        page.screenshot(SCREENSHOTS / "hostile.png")
        self.assertIsNone(page.run("window.pwned"))
        shown = page.run(COLUMN.format(0))
        self.assertEqual(sorted(path.name for path in (self.runs / "x").iterdir()), sorted(shown))
        self.assertEqual(0, page.run("document.querySelectorAll('img, b').length"))
        self.assertIn(HOSTILE[0], page.run("[...document.querySelectorAll('option')].map((option) => option.textContent)"))
        self.assert_clean(page)

    def test_names_turn_no_text_around_and_are_no_formulas(self):
        for name in ("=1+1", "left\u202etfel"):
            write_run(self.runs / "y" / name, method=name)
        page = self.open("y")
        self.assertEqual(["=1+1", "left[U+202E]tfel"], page.run(COLUMN.format(0)))
        self.assertNotIn("\u202e", page.run("document.body.innerText"))
        copied = page.run("new Promise((done) => { navigator.clipboard.writeText = async (text) => done(text); document.querySelector('#copy').click(); })")
        self.assertEqual(["run", "'=1+1", "left[U+202E]tfel"], [line.split(",")[0] for line in copied.splitlines()])


if __name__ == "__main__":
    unittest.main()
