"""Virtual time, and tasks that wait in it: each task runs alone until it waits, so that a seed gives one order only."""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from greenlet import GreenletExit, getcurrent, greenlet

from rebalancer.simulator.event_queue import EventQueue

RESOLUTION = 1e-5
"""Seconds; the queue's times have whole microseconds, so that a shorter wait would not end."""


class _TaskGreenlet(greenlet):
    """A greenlet that knows its task."""

    task: "Task"


class Task:
    """A sequence of requests with waits in between, as a thread of a process has them.

    `ready_at` says at which time the process of a task may run: later than now while it is stopped.
    """

    def __init__(self, hub: "Hub", work: Callable[[], None], ready_at: Callable[[], float]) -> None:
        self._hub = hub
        self._ready_at = ready_at
        self._greenlet: Any = _TaskGreenlet(work)
        self._greenlet.task = self
        self.over = False

    def resume(self) -> None:
        """Run it until it waits or ends; called by the hub."""
        if self.over:
            return
        ready_at = self._ready_at()
        if ready_at and ready_at - self._hub.seconds > RESOLUTION:
            self._hub.after(ready_at - self._hub.seconds, self.resume)
            return
        self._greenlet.parent = getcurrent()
        self._greenlet.switch()
        if self._greenlet.dead:
            self.over = True

    def kill(self) -> None:
        """End it where it waits."""
        if not self.over:
            self.over = True
            self._greenlet.parent = getcurrent()
            self._greenlet.throw(GreenletExit)

    def wait(self) -> None:
        """Wait until `resume` is called; called by the task itself."""
        self._greenlet.parent.switch()


class Hub:
    """The owner of time: what falls due runs in order."""

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._began = queue.now

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return (self._queue.now - self._began).total_seconds()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Have something done later."""
        self._queue.after(max(0.0, seconds), action)

    def start(self, work: Callable[[], None], ready_at: Callable[[], float]) -> Task:
        """Start a task, at this time but after what runs now."""
        task = Task(self, work, ready_at)
        self._queue.after(0, task.resume)
        return task

    @property
    def task(self) -> Task:
        """The task that runs."""
        current: Any = getcurrent()
        task: Task = current.task
        return task

    def sleep(self, seconds: float) -> None:
        """Wait for some time; called by a task."""
        current: Any = getcurrent()
        self._queue.after(max(0.0, seconds), current.task.resume)
        current.parent.switch()


class HubLock:
    """A lock between tasks, in the place of one between threads."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._held = False
        self._waiting: deque[Task] = deque()

    def __enter__(self) -> Self:
        """Wait until nobody holds it, and take it."""
        while self._held:
            self._waiting.append(self._hub.task)
            self._hub.task.wait()
        self._held = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Hand it on."""
        self._held = False
        if self._waiting:
            self._hub.after(0, self._waiting.popleft().resume)
