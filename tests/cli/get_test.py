"""`fedgrab data get` against a web server of its own, which can fail as real ones do."""
import gzip
import hashlib
import http.server
import io
import random
import resource
import signal
import tarfile
import threading
import unittest

from harness import Case, start

CONTENT = random.Random(1).randbytes(300_000)


class Server(http.server.BaseHTTPRequestHandler):
    """Serves `files`; `cuts` says after how many bytes the next answers break off."""
    files, cuts, ranges, asked = {}, [], True, []

    def do_GET(self):
        content = self.files.get(self.path)
        if content is None:
            return self.send_error(404)
        first = 0
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        if wanted and self.ranges:
            first = int(wanted.removeprefix("bytes=").split("-")[0])
            if first >= len(content):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        end = first + self.cuts.pop(0) if self.cuts else len(content)
        self.wfile.write(content[first:end])

    def log_message(self, *_):
        pass


class Get(Case):
    def setUp(self):
        super().setUp()
        Server.files, Server.cuts, Server.ranges, Server.asked = {"/set.bin": CONTENT}, [], True, []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.address = f"http://127.0.0.1:{server.server_port}"

    def flags(self, name="set.bin", content=CONTENT):
        return ["data", "get", f"{self.address}/{name}", "--into", "in", "--sha256", hashlib.sha256(content).hexdigest()]

    def there(self):
        return {path.name: path.read_bytes() for path in (self.folder / "in").iterdir()}

    def test_once(self):
        self.fedgrab(*self.flags())
        self.assertEqual({"set.bin": CONTENT}, self.there())
        self.fedgrab(*self.flags())
        self.assertEqual(1, len(Server.asked), "what is there is not asked for again")

    def test_cut_connections(self):
        Server.cuts = [100_000, 50_000]
        self.fedgrab(*self.flags())
        self.assertEqual({"set.bin": CONTENT}, self.there())
        self.assertEqual([None, "bytes=100000-", "bytes=150000-"], Server.asked)

    def test_an_earlier_try_is_continued(self):
        Server.cuts = [100_000] + [0] * 10
        err = self.fedgrab(*self.flags(), code=3)
        self.assertIn("100000 bytes are kept", err)
        self.assertEqual({"set.bin.partial": CONTENT[:100_000]}, self.there())
        Server.cuts, Server.asked[:] = [], []
        self.fedgrab(*self.flags())
        self.assertEqual(["bytes=100000-"], Server.asked)
        self.assertEqual({"set.bin": CONTENT}, self.there())

    def test_a_server_without_ranges(self):
        Server.ranges, Server.cuts = False, [100_000]
        self.fedgrab(*self.flags())
        self.assertEqual({"set.bin": CONTENT}, self.there())

    def test_wrong_checksum(self):
        err = self.fedgrab(*self.flags(content=b"other"), code=3)
        self.assertIn("SHA-256", err)
        self.assertEqual({}, self.there())

    def test_no_such_file(self):
        self.assertIn("404", self.fedgrab(*self.flags("nothing"), code=3))
        self.assertIn("--sha256", self.fedgrab("data", "get", f"{self.address}/set.bin", code=2))
        self.assertIn("cifar100", self.fedgrab("data", "get", "imagenet", code=2))

    def test_full_disk(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        process = start(*self.flags(), folder=self.folder, preexec_fn=limit)
        _, err = process.communicate()
        self.assertEqual(1, process.returncode, err)
        self.assertIn("set.bin.partial: cannot write", err)
        self.fedgrab(*self.flags())
        self.assertEqual({"set.bin": CONTENT}, self.there())

    def test_archives_are_unpacked(self):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in (("inner/a.bin", b"a" * 700), ("inner/b.bin", b"")):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        Server.files["/set.tar.gz"] = packed.getvalue()
        self.fedgrab(*self.flags("set.tar.gz", packed.getvalue()))
        self.assertEqual(b"a" * 700, (self.folder / "in" / "inner" / "a.bin").read_bytes())
        self.assertEqual(b"", (self.folder / "in" / "inner" / "b.bin").read_bytes())
        outside = gzip.compress(b"../evil".ljust(100, b"\0") + b"\0" * 24 + b"00000000000\0" + b"\0" * 20 + b"0" + b"\0" * 355)
        Server.files["/evil.tar.gz"] = outside
        self.assertIn("outside", self.fedgrab(*self.flags("evil.tar.gz", outside), code=3))

    def test_unpacking_takes_no_memory(self):
        size = 1 << 30
        folder = b"inner".ljust(124, b"\0") + b"%011o\0" % size + b"\0" * 20 + b"5" + b"\0" * 355
        archive = gzip.compress(folder) + gzip.compress(b"\0" * (1 << 24)) * (size >> 24)
        Server.files["/set.tar.gz"] = archive
        self.fedgrab(*self.flags("set.tar.gz", archive))
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10, size)


if __name__ == "__main__":
    unittest.main()
