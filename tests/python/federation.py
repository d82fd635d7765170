"""A real Flower federation on loopback: SuperLink and SuperNodes as processes, TLS on, every node known by its key."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flwr.app import Message, Metadata

APP = Path(__file__).resolve().parents[2] / "flower"
BIN = Path(sys.executable).parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, condition, process=None, seconds=120):
    """Not a limit on how fast something is, but on how long a broken test hangs."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if process and process.poll() is not None:
            raise AssertionError(f"{what}: the process ended with {process.returncode}")
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {seconds} s")
        time.sleep(0.05)
    return found


def message_to(node, content):
    """As a SuperLink delivers it."""
    return Message(content, metadata=Metadata(run_id=1, message_id="", src_node_id=9, dst_node_id=node, reply_to_message_id="", group_id="",
                                              created_at=time.time(), ttl=60, message_type="train", src_task_id=1, dst_task_id=None))


class Federation:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fedgrab-flower-"))
        self.processes = {}
        self.address = f"127.0.0.1:{free_port()}"
        self.environment = os.environ | {"FLWR_HOME": str(self.folder / "home"), "FLWR_TELEMETRY_ENABLED": "0",
                                         "FLWR_DISABLE_UPDATE_CHECK": "1", "PATH": f"{BIN}:{os.environ['PATH']}",
                                         "PYTHONDONTWRITEBYTECODE": "1"}
        self.command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes", "-days", "2",
                     "-keyout", "server.key", "-out", "server.pem", "-subj", "/CN=superlink", "-addext", "subjectAltName=IP:127.0.0.1")
        (self.folder / "home").mkdir()
        (self.folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n[superlink.test]\naddress = "{self.address}"\n'
            f'root-certificates = "{self.folder / "server.pem"}"\n')
        host, port = self.address.split(":")
        self.start("superlink", "flower-superlink", "--ssl-ca-certfile", "server.pem", "--ssl-certfile", "server.pem", "--ssl-keyfile",
                   "server.key", "--enable-supernode-auth", "--disable-runtime-dependency-installation", "--host", host, "--port", port)
        wait_for("SuperLink", self.listening, self.processes["superlink"])

    def listening(self):
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def command(self, *words, check=True):
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def start(self, name, *words, extra={}):  # noqa: B006
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen(words, cwd=self.folder, env=self.environment | extra, stdout=log, stderr=log,
                                                    start_new_session=True)

    def log(self, name):
        return re.sub(r"\x1b\[[0-9;]*m", "", (self.folder / f"{name}.log").read_text(errors="replace"))

    def make_key(self, name):
        self.command("ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", f"{name}.key")

    def register(self, name):
        self.command("flwr", "supernode", "register", f"{name}.key.pub", "test")

    def add_node(self, name, node_config, extra={}):  # noqa: B006
        """A SuperNode with the key of its name, and with these environment variables."""
        self.start(name, "flower-supernode", "--superlink", self.address, "--root-certificates", "server.pem",
                   "--auth-supernode-private-key", f"{name}.key", "--port", str(free_port()), "--node-config", node_config, extra=extra)

    def add_sites(self, count, extra={}):  # noqa: B006
        """A registered SuperNode for each part of a partition, node0 and so on; with environment variables by its number."""
        for k in range(count):
            self.make_key(f"node{k}")
            self.register(f"node{k}")
            self.add_node(f"node{k}", f"partition-id={k} num-partitions={count}", extra.get(k, {}))

    def run(self, name, run_config):
        """`flwr run`; its log is that of `name`."""
        self.start(name, "flwr", "run", str(APP), "test", "--stream", "--run-config", run_config)
        return self.processes[name]

    def kill(self, name):
        """The whole group: a SuperNode's ClientApp must not outlive it."""
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes.pop(name).wait()

    def close(self):
        for name in reversed(list(self.processes)):
            try:
                os.killpg(self.processes[name].pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.processes[name].wait()
        shutil.rmtree(self.folder, ignore_errors=True)
