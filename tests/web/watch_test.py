"""`fedgrab watch`: a page that follows training, and a server that is hard to annoy."""
import gzip
import http.client
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from browser import PROGRAM, Browser, Page
from harness import TINY, Case, start
from runs import write_run

SCREENSHOTS = pathlib.Path(os.environ.get("SCREENSHOTS") or "screenshots")


class Watch(Case):
    def setUp(self):
        super().setUp()
        self.runs = self.folder / "runs"
        self.runs.mkdir()
        self.server = start("watch", "runs", "--port", 0, folder=self.folder)
        self.addCleanup(self.end)
        line = self.server.stdout.readline()
        self.address = re.match(r"(http://127\.0\.0\.1:(\d+)/) ", line)[1]
        self.port = int(self.address.split(":")[-1].strip("/"))

    def end(self):
        self.server.send_signal(signal.SIGINT)
        self.server.communicate()
        self.assertEqual(130, self.server.returncode)

    def ask(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    def data(self):
        return json.loads(self.ask("/data.json")[1])["runs"]

    def until(self, condition):
        """The server looks at the disk once a second."""
        while not condition(self.data()):
            pass

    def test_answers_only_its_own_paths(self):
        write_run(self.runs / "one")
        (self.folder / "secret").write_text("secret")
        self.assertEqual(200, self.ask("/")[0].status)
        for path in ("/secret", "/../secret", "/%2e%2e/secret", "/..%2fsecret", "//etc/passwd", "/runs/one/config.toml", "/data.json/", "/index.html"):
            answer, body = self.ask(path)
            self.assertEqual(404, answer.status, path)
            self.assertNotIn(b"secret", body)
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(405, self.ask("/data.json", method)[0].status)

    def test_refuses_a_foreign_host(self):
        for host in ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", ""):
            self.assertEqual(403, self.ask("/data.json", Host=host)[0].status, host)
        for host in (f"localhost:{self.port}", "127.0.0.1", "[::1]:1"):
            self.assertEqual(200, self.ask("/data.json", Host=host)[0].status, host)

    def test_says_when_nothing_has_changed(self):
        write_run(self.runs / "one")
        self.until(lambda runs: len(runs) == 1)
        version = self.ask("/data.json")[0].headers["ETag"]
        answer, body = self.ask("/data.json", **{"If-None-Match": version})
        self.assertEqual((304, b""), (answer.status, body))

    def test_runs_come_and_go(self):
        self.assertEqual([], self.data())
        write_run(self.runs / "one", rounds=3)
        write_run(self.runs / "empty", rounds=0, wanted=5, finished=False)
        (self.runs / "no-run").mkdir()
        self.until(lambda runs: [run["name"] for run in runs] == ["empty", "one"])
        (self.runs / "one" / "metrics.jsonl").write_text("nonsense\n")
        self.until(lambda runs: [run["name"] for run in runs] == ["empty"])
        self.assertIn("one/metrics.jsonl", json.loads(self.ask("/data.json")[1])["left_out"][0])
        shutil.rmtree(self.runs)
        self.until(lambda runs: runs == [])

    def memory(self):
        """The most it ever held, in bytes."""
        return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{self.server.pid}/status").read_text())[1]) * 1024

    def connect(self, count):
        allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed < count + 100:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 100, most), most))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (allowed, most))
        connections = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]
        for connection in connections:
            self.addCleanup(connection.close)
        return connections

    def test_a_flood_of_connections_that_say_nothing_or_half_a_request(self):
        flood = self.connect(400)
        for half in flood[::4]:
            half.sendall(b"GET / HTTP/1.1\r\nHost: local")
        self.assertEqual(200, self.ask("/")[0].status)
        for connection in flood:
            connection.close()
        self.assertEqual(200, self.ask("/data.json")[0].status)

    def test_more_half_requests_than_it_keeps(self):
        for half in self.connect(900):
            half.sendall(b"GET / HTTP/1.1\r\nHost: local")
        for path in ("/", "/data.json"):
            self.assertEqual(200, self.ask(path)[0].status)

    def test_hangs_up_on_a_sender_that_takes_its_time(self):
        drip, = self.connect(1)
        drip.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        sent = 0
        while not select.select([drip], [], [], 0.05)[0]:  # readable: the server has hung up
            drip.sendall(b"a")
            sent += 1
        self.assertLess(sent, 1000, "the length of what was sent ended it, not the time it took")
        self.assertEqual(200, self.ask("/data.json")[0].status)

    def test_headers_without_end_take_no_memory(self):
        self.ask("/")
        before = self.memory()
        for header in (b"X: a\r\n", b"a"):
            flood, = self.connect(1)
            try:
                flood.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
                for _ in range(20):
                    flood.sendall(header * (1_000_000 // len(header)))
            except OSError:
                pass  # it hung up
        self.assertEqual(200, self.ask("/data.json")[0].status)
        self.assertLess(self.memory() - before, 8_000_000)

    def test_says_that_the_head_is_too_long(self):
        self.assertEqual(431, self.ask("/", **{"X": "a" * 9000})[0].status)
        self.assertEqual(200, self.ask("/", **{"X": "a" * 7000})[0].status)

    def test_sends_the_page_compressed_to_whoever_takes_it(self):
        write_run(self.runs / "one")
        self.until(lambda runs: len(runs) == 1)
        for path in ("/", "/data.json"):
            plain, packed = (self.ask(path, **{"Accept-Encoding": accepted}) for accepted in ("identity", "br, gzip"))
            self.assertEqual((None, "gzip"), (plain[0].headers["Content-Encoding"], packed[0].headers["Content-Encoding"]))
            self.assertEqual(plain[1], gzip.decompress(packed[1]))
            self.assertLess(len(packed[1]), len(plain[1]) / 2)

    def test_lets_no_other_page_frame_it(self):
        for path, headers in (("/", {}), ("/data.json", {}), ("/nothing", {}), ("/", {"Host": "evil.example"})):
            policy = self.ask(path, **headers)[0].headers["Content-Security-Policy"]
            for rule in ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"):
                self.assertIn(rule, policy)
        for rule in (b"base-uri 'none'", b"form-action 'none'"):  # the file of `report`, too
            self.assertIn(rule, self.ask("/")[1])

    def test_gives_no_parts(self):
        whole = len(self.ask("/")[1])
        answer, body = self.ask("/", Range="bytes=" + ",".join(["0-"] * 500))
        self.assertEqual((200, whole), (answer.status, len(body)))

    def test_ends_on_a_signal_as_soon_as_it_has_begun(self):
        for _ in range(3):
            server = start("watch", "runs", "--port", 0, folder=self.folder)
            server.stdout.readline()
            server.terminate()
            server.communicate()
            self.assertEqual(130, server.returncode)

    def test_a_port_that_is_taken(self):
        self.assertIn("cannot listen there", self.fedgrab("watch", "runs", "--port", self.port, code=1))

    @unittest.skipIf(PROGRAM is None, "there is no Chromium here (Debian: chromium)")
    def test_the_page_gains_rounds_while_a_run_trains(self):
        browser = Browser()
        self.addCleanup(browser.close)
        pages = [Page(browser, self.address) for _ in range(2)]
        run = start("run", *TINY, "--rounds", 4000, "--out", "runs/live", "--quiet", folder=self.folder)
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        done = "Number(document.querySelector('.chip progress')?.value ?? 0)"
        for page in pages:
            page.wait_for(f"{done} > 1")
            page.draw_everything()
            before = page.run(done)
            page.wait_for(f"{done} > {before}")
            self.assertRegex(page.run("document.querySelector('.chip').textContent"), r"running \d+/4000 · .* left")
        pages[0].screenshot(SCREENSHOTS / "live.png")
        run.send_signal(signal.SIGINT)
        run.communicate()
        pages[0].wait_for("document.querySelector('.chip').textContent.includes('stopped')")
        for page in pages:
            self.assertEqual([], page.complaints())


if __name__ == "__main__":
    unittest.main()
