"""Flower's Grid, which fetches replies one at a time: one that cannot be decoded must not take the others of its round with it."""

import time
from collections.abc import Iterable
from logging import WARNING
from typing import Any

import httpx
from flwr.app import Message
from flwr.common.logger import log
from flwr.serverapp import Grid

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between looking for replies


class OneByOne(Grid):
    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def set_run(self, run: Any) -> None:
        self.grid.set_run(run)

    @property
    def run(self) -> Any:
        return self.grid.run

    def create_message(self, *args: Any, **named: Any) -> Message:
        return self.grid.create_message(*args, **named)

    def get_node_ids(self) -> Iterable[int]:
        return self.grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self.grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self.grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        sent = list(messages)
        nodes = [message.metadata.dst_node_id for message in sent]
        waiting = {identity: node for identity, node in zip(self.push_messages(sent), nodes) if identity}
        end = None if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        pause = FIRST_PAUSE
        while True:
            for identity, node in list(waiting.items()):
                try:
                    found = list(self.pull_messages([identity]))
                except (httpx.HTTPError, OSError):
                    raise  # of the SuperLink
                except Exception as error:  # its site counts as one that did not answer
                    log(WARNING, "node %d sent a reply that cannot be decoded (%s)", node, type(error).__name__)
                    del waiting[identity]
                    continue
                if found:
                    replies += found
                    del waiting[identity]
            if not waiting or (end is not None and time.monotonic() >= end):
                return replies
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_PAUSE)
