"""EndpointSlices are listed when they are wanted, once in half a minute at most, and nobody waits for them long."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from rebalancer.adapters.kubernetes.endpoint_slices import ServiceSlices, SlicesRead
from tests.adapters.kubernetes.fake_server import ApiServer, served
from tests.controller.waiting import until

GATE, OTHER = ("shop", "gate"), ("cart", "gate")


class Scene:
    """A server with a slice for each of two Services, and what reads them on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lists = 0
        self.free = threading.Event()
        """Cleared, the server does not answer."""
        self.free.set()
        self.server = ApiServer()
        for namespace, name in (GATE, OTHER):
            self.put(namespace, name, ready=1)
        self.slices: ServiceSlices

    @staticmethod
    def path(namespace: str) -> str:
        return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"

    def put(self, namespace: str, name: str, *, ready: int) -> None:
        labels = {"kubernetes.io/service-name": name}
        path = f"{self.path(namespace)}/{name}-1"
        self.server.put(path, metadata={"namespace": namespace, "labels": labels}, endpoints=[{}] * ready)

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        self.lists += 1
        self.free.wait(20)
        self.server(request)

    def read(self, *services: tuple[str, str]) -> SlicesRead:
        return self.slices.read(services)


@contextmanager
def begun() -> Iterator[Scene]:
    scene = Scene()
    with served(scene.handle) as transport:
        scene.slices = ServiceSlices(transport, clock=lambda: scene.now)
        scene.slices.start()
        yield scene
        scene.free.set()
        scene.slices.stop()
        scene.slices.join(5)
        assert not scene.slices.thread.is_alive()


def counts(read: SlicesRead) -> dict[str, int]:
    return {one.namespace: one.ready for one in read.contents.objects}


def test_a_service_is_listed_again_after_half_a_minute() -> None:
    """What is read in between is the very same; a change is seen with the next list."""
    with begun() as scene:
        first = scene.read(GATE)
        assert (counts(first), first.of_all, scene.lists) == ({"shop": 1}, True, 1)
        scene.put(*GATE, ready=3)
        scene.now = 29.0
        assert scene.read(GATE).contents is first.contents
        assert scene.lists == 1
        scene.now = 30.0
        assert counts(scene.read(GATE)) == {"shop": 3}
        scene.now = 60.0
        again = scene.read(GATE)
        assert scene.lists == 3
        assert scene.read(GATE).contents is again.contents


def test_only_what_is_wanted_is_listed() -> None:
    """Nothing is wanted: nothing is listed, and all of it is known. What is not wanted any more is forgotten."""
    with begun() as scene:
        assert (scene.read().of_all, scene.lists) == (True, 0)
        assert counts(scene.read(GATE, OTHER)) == {"shop": 1, "cart": 1}
        assert counts(scene.read(OTHER)) == {"cart": 1}
        assert scene.lists == 2


@pytest.mark.parametrize("code", [403, 404, 500])
def test_a_list_that_fails_makes_its_service_unknown(code: int) -> None:
    """The others are known. It is tried again after half a minute; where a right is missing, after half an hour."""
    with begun() as scene:
        scene.read(GATE, OTHER)
        scene.server.answers["GET", scene.path("shop")] = code, "no"
        scene.now = 31.0
        read = scene.read(GATE, OTHER)
        assert (counts(read), read.of_all, read.is_forbidden) == ({"cart": 1}, False, code == 403)
        scene.server.answers.clear()
        scene.now = 62.0
        assert scene.read(GATE, OTHER).of_all is (code != 403)
        scene.now = 31.0 + 1800
        read = scene.read(GATE, OTHER)
        assert (read.of_all, read.is_forbidden) == (True, False)


def test_while_no_answer_comes_the_last_one_counts_for_a_minute_and_a_half() -> None:
    """Each reader waits a second at most."""
    with begun() as scene:
        scene.read(GATE)
        scene.free.clear()
        for now, known in ((31.0, True), (90.0, True), (91.0, False)):
            scene.now = now
            began = time.monotonic()
            assert scene.read(GATE).of_all is known
            assert time.monotonic() - began < 3
        scene.free.set()
        until(lambda: scene.read(GATE).of_all, "the answer")
