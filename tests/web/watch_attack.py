"""`fedgrab watch` under 1,000 slow connections and 100 MB of headers: how long an honest client waits, and what the server
takes of memory and of processor time. For developers: FEDGRAB=build/release/src/cli/fedgrab tests/web/watch_attack.py"""
import http.client
import pathlib
import re
import resource
import socket
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from harness import start
from runs import write_run

SLOW, HEADER_BYTES, SENDERS, SECONDS = 1000, 100_000_000, 20, 15
LONGEST_WAIT, MOST_MEMORY = 1.0, 100_000_000


def keep_dripping(port, ended):
    """As many connections as ever, each sending a byte now and then; who is hung up on comes again."""
    connections = [None] * SLOW
    while not ended.is_set():
        for i, connection in enumerate(connections):
            try:
                if connection is None:
                    connection = connections[i] = socket.create_connection(("127.0.0.1", port))
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
                connection.sendall(b"a")
            except OSError:
                connections[i] = None
        ended.wait(0.3)


def keep_sending_headers(port, ended, sent):
    header = b"X-%d: " % port + b"a" * 100 + b"\r\n"
    while not ended.is_set() and sum(sent) < HEADER_BYTES:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
                while not ended.is_set():
                    connection.sendall(header * 1000)
                    sent.append(len(header) * 1000)
        except OSError:
            pass


def main():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most), most))
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(4):
            write_run(pathlib.Path(folder) / f"run-{seed}", rounds=500, classes=100, seed=seed)
        server = start("watch", folder, "--port", 0, folder=folder)
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
        status = pathlib.Path(f"/proc/{server.pid}/status")
        held = lambda: int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) * 1024
        processor = lambda: sum(map(int, pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(") ")[1].split()[11:13])) / 100

        def ask(path):
            began = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status}")
            return time.monotonic() - began

        ask("/data.json")
        quiet = [ask(path) for path in ("/", "/data.json") for _ in range(20)]
        before, busy = held(), processor()
        ended, sent = threading.Event(), []
        attackers = [threading.Thread(target=keep_dripping, args=(port, ended))]
        attackers += [threading.Thread(target=keep_sending_headers, args=(port, ended, sent)) for _ in range(SENDERS)]
        for attacker in attackers:
            attacker.start()
        waits, failed, end = [], [], time.monotonic() + SECONDS
        while time.monotonic() < end or sum(sent) < HEADER_BYTES:
            for path in ("/", "/data.json"):
                try:
                    waits.append(ask(path))
                except (OSError, RuntimeError, http.client.HTTPException) as error:
                    failed.append(error)
            time.sleep(0.1)
            if time.monotonic() > end + 120:
                break
        after, spent = held(), processor() - busy
        ended.set()
        for attacker in attackers:
            attacker.join()
        server.terminate()
        server.communicate()
    print(f"honest requests: {len(waits)} answered, {len(failed)} failed {failed[:1]}; the longest took {max(waits):.3f} s "
          f"({max(quiet):.3f} s without the attack)")
    print(f"headers sent: {sum(sent) / 1e6:.0f} MB; the server held {after / 1e6:.0f} MB at most ({before / 1e6:.0f} MB before), "
          f"{spent:.1f} s of processor time; it ended with {server.returncode}")
    return 0 if max(waits) < LONGEST_WAIT and not failed and after < before + MOST_MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
